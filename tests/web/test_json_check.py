"""Answers are checked against the schema of their question."""

from __future__ import annotations

import pytest

from clew.views.json_check import problems


@pytest.mark.parametrize(
    "format_, good, bad",
    [
        ("date", "2026-11-30", "30.11.2026"),
        ("date-time", "2026-11-30T14:00:00+01:00", "2026-11-30 at noon"),
        ("date-time-local", "2026-11-30T14:00:00", "2026-13-30T14:00:00"),
        ("time", "14:00:00Z", "25:00"),
        ("time-local", "14:00:00", "noon"),
        ("partial-time", "14:00", "x"),
        ("decimal", "64.90", "64,90"),
        ("decimal", "1e999999999", ""),
    ],
)
def test_texts_are_checked_by_their_format(format_: str, good: str, bad: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": format_}}}
    assert problems(schema, {"x": good}) == []
    assert [each["at"] for each in problems(schema, {"x": bad})] == ["/x"]


@pytest.mark.parametrize("format_", ["uuid", "constructor", 7, None, ["date"]])
def test_a_format_that_is_not_known_accepts_every_text(format_: object) -> None:
    assert problems({"type": "string", "format": format_}, "x") == []
