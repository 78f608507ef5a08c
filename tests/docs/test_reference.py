"""What the pages hold beside code that runs: every public name, drawings of their graphs, links that lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

import clew
import clew.errors
import clew.testing
from clew import Graph
from tests.docs.markdown import read_blocks
from tests.docs.test_code_blocks import PAGES, ROOT, compiled

REFERENCE = "\n".join(page.read_text("utf-8") for page in sorted(ROOT.glob("docs/reference/*.md")))
HEADINGS = set(re.findall(r"^## (\w+)$", REFERENCE, re.MULTILINE))
ERRORS = sorted(name for name, value in vars(clew.errors).items() if isinstance(value, type))
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([\w-]+))?\)")


@pytest.mark.parametrize("name", sorted({*clew.__all__, *clew.testing.__all__} - {"ClewError"}))
def test_a_public_name_has_its_place_in_the_reference(name: str) -> None:
    assert name in HEADINGS


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_in_the_reference(name: str) -> None:
    assert re.search(rf"\b{name}\b", REFERENCE)


def drawings(page: Path) -> list[str]:
    blocks = read_blocks(page.read_text("utf-8"))
    return [block.code for block in blocks if block.language == "mermaid" and block.not_run is None]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if drawings(page)], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_a_drawing_is_what_a_graph_of_its_page_draws(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_page_with_drawings")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in read_blocks(page.read_text("utf-8")):
        if block.language == "python" and block.not_run is None:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compiled(block, page), module.__dict__)
    drawn = {value.draw() for value in vars(module).values() if isinstance(value, Graph)}
    assert [drawing for drawing in drawings(page) if drawing not in drawn] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_link_leads_somewhere(page: Path) -> None:
    broken = []
    for path, anchor in LINK.findall(page.read_text("utf-8")):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_the_reference_lists_the_methods_that_the_engine_has() -> None:
    text = (ROOT / "docs" / "reference" / "engine.md").read_text("utf-8")
    methods = {name for name in dir(clew.Engine) if callable(getattr(clew.Engine, name)) and name[0] != "_"}
    twins = {f"a{name}" for name in methods}  # documented with the method that they repeat
    assert methods - twins - set(re.findall(r"`([a-z_]+)\(", text)) == set()
    engine = text.partition("\n## ")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z_]+)\(", engine, re.M)) - {*dir(clew.Engine)} == set()
