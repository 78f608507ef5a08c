"""The comparison pages: dated, the other side first, and no figure that the benchmarks do not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.side_by_side import programs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in sorted(ROOT.glob("docs/compare/*.md")) if page.stem != "index"]
BENCHMARKS = (ROOT / "benchmarks/README.md").read_text("utf-8")
PINS = (ROOT / "benchmarks/constraints.txt").read_text("utf-8")
FIGURE = re.compile(r"[\d,]+\.?\d*(?: \([\d,.]+×\))?")


def by_name(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_the_other_side_comes_first_and_the_page_has_a_date(page: Path) -> None:
    text = page.read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert re.match(r"What (they do|\w+ does) better", headings[0])
    assert headings[1:] == ["The same program", "Where they differ", "Figures"]
    assert re.search(r"^As of \d+ \w+ 20\d\d: ", text, re.MULTILINE)
    assert programs(page)


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_figure_is_in_the_benchmarks(page: Path) -> None:
    figures = page.read_text("utf-8").partition("## Figures")[2]
    for row in re.findall(r"^\| .*(?:µs|ms|bytes) \|.*$", figures, re.MULTILINE):
        for cell in row.strip("|").split("|")[1:]:
            number = FIGURE.fullmatch(cell.strip())
            assert number is not None, cell
            assert cell.strip() in BENCHMARKS, f"{cell} of {row}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "prefect"], ids=by_name)
def test_the_versions_are_those_of_the_benchmarks(page: Path) -> None:
    [versions] = re.findall(r"^As of .*?: (.*)$", page.read_text("utf-8"), re.MULTILINE)
    named = dict(re.findall(r"(\w+) (\d[\d.]*\d)", versions))
    named.pop("Clew")
    assert named
    for name, version in named.items():
        if name != "temporalio":  # it needs a server, and is not measured
            assert re.search(rf"^(sf-)?{name}=={re.escape(version)}$", PINS, re.MULTILINE | re.IGNORECASE), (
                name
            )
