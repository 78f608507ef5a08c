"""The numbers in the documentation, for the tests that compute them."""

from __future__ import annotations

from pathlib import Path

_DOCS = Path(__file__).parents[3] / "docs"
_PAGES = [_DOCS / "how-to" / "check-a-workflow.md", _DOCS / "how-clew-is-checked.md"]


def rows(what: str) -> list[list[str]]:
    """Return the table rows that start with a cell, without that cell."""
    found = [line for line in _text().splitlines() if line.startswith(f"| {what} |")]
    assert found, f"the pages have no row for {what!r}"
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in found]


def says(numbers: str) -> bool:
    """Return whether the pages contain a text, regardless of line breaks."""
    return numbers in " ".join(_text().split())


def _text() -> str:
    return "\n".join(page.read_text("utf-8") for page in _PAGES)


def counts(states: int, transitions: int) -> str:
    """Return the counts in the format of the tables."""
    return f"{states:,} states, {transitions:,} transitions"
