"""The architecture page names files that exist, and covers every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/clew"
PAGE = (ROOT / "docs/architecture.md").read_text("utf-8")
PACKAGES = sorted(each.parent.name for each in SOURCE.glob("*/__init__.py"))
PARTS, WHERE = PAGE.split("## Where a change is made")
_PATH = re.compile(r"`([\w/]+(?:\.py|\.md|/))`")


def sections() -> list[tuple[str, str]]:
    """Each part of the page, with the package that it describes; an empty name for those about all of them."""
    text = PARTS.split("## Package by package")
    found = [("", text[0])]
    for part in text[1].split("\n### ")[1:]:
        name, _, body = part.partition("\n")
        found.append((name, body))
    return found


@pytest.mark.parametrize("package, text", sections(), ids=[name or "walk" for name, _ in sections()])
def test_every_file_that_a_part_names_exists(package: str, text: str) -> None:
    home = ROOT / "nl2sql/src/clew_nl2sql" if package == "clew_nl2sql" else SOURCE / package
    known = {path.relative_to(home).as_posix() for path in home.rglob("*")}
    unknown = [
        name
        for name in _PATH.findall(text)
        if not any(path == name.rstrip("/") or path.endswith("/" + name.rstrip("/")) for path in known)
        and not (SOURCE / name).exists()
        and not (ROOT / name).exists()
    ]
    assert unknown == []


def test_every_file_of_the_list_of_changes_exists() -> None:
    unknown = [
        name for name in _PATH.findall(WHERE) if not (SOURCE / name).exists() and not (ROOT / name).exists()
    ]
    assert unknown == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_described_and_in_the_list_of_changes(package: str) -> None:
    assert f"\n### {package}\n" in PARTS
    assert f"| `{package}` |" in PARTS
    assert f"`{package}/" in WHERE
