"""A module is one idea; past 500 lines it is two."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 500


def test_no_module_is_too_long() -> None:
    lengths = {
        file.relative_to(ROOT).as_posix(): len(file.read_text("utf-8").splitlines())
        for src in ("src", "nl2sql/src")
        for file in (ROOT / src).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > LIMIT} == {}
