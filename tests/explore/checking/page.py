"""The numbers that the documentation states, for the tests that explore what it is about."""

from __future__ import annotations

from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "check-a-workflow.md"


def rows(what: str) -> list[list[str]]:
    """The rows of all tables that begin with a cell, without it."""
    found = [line for line in _PAGE.read_text().splitlines() if line.startswith(f"| {what} |")]
    assert found, f"the page has no row for {what!r}"
    return [[cell.strip() for cell in line.split("|")[2:-1]] for line in found]


def says(numbers: str) -> bool:
    """Whether a text is on the page, however its lines are broken."""
    return numbers in " ".join(_PAGE.read_text().split())


def counts(states: int, transitions: int) -> str:
    """As the tables have it."""
    return f"{states:,} states, {transitions:,} transitions"
