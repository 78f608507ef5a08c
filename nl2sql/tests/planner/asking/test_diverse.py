"""Readings that are offered differ in what a person would care about."""

from __future__ import annotations

from sqlglot import exp

from clew_nl2sql.planner.asking.diverse import OfferedReading, diverse
from clew_nl2sql.planner.building.dry_run import DryRunResult
from clew_nl2sql.planner.query import Condition, Query, SelectItem

NAME, TOWN = SelectItem(1), SelectItem(2)
BONN = Condition(TOWN, "=", "Bonn")


def reading(
    query: Query, share: float, *unread: str, kind: str = "ok", impossible: bool = False
) -> OfferedReading:
    outcome = DryRunResult(kind, str(query), 2)
    return OfferedReading(query, exp.Select(), outcome, share, unread, impossible)


def test_a_repetition_comes_after_another_condition() -> None:
    plain, different, all_rows = Query((NAME,)), Query((NAME,), distinct=True), Query((NAME,), where=(BONN,))
    offered = diverse([reading(plain, 0.5), reading(different, 0.3), reading(all_rows, 0.1)], 3)
    assert [one.query for one in offered] == [plain, all_rows, different]


def test_a_reading_of_fewer_words_comes_last() -> None:
    full, poorer, other = Query((NAME,), where=(BONN,)), Query((NAME,)), Query((TOWN,), where=(BONN,))
    offered = diverse([reading(poorer, 0.6, "Bonn"), reading(full, 0.3), reading(other, 0.1)], 3)
    assert [one.query for one in offered] == [full, other, poorer]


def test_what_has_no_rows_comes_last() -> None:
    good, empty = Query((NAME,)), Query((TOWN,))
    offered = diverse([reading(empty, 0.4, kind="empty"), reading(good, 0.2)], 3)
    assert [one.query for one in offered] == [good, empty]


def test_what_cannot_be_meant_is_not_offered_next_to_what_can() -> None:
    good, wrong = reading(Query((NAME,)), 0.2), reading(Query((TOWN,)), 0.9, impossible=True)
    assert [one.query for one in diverse([wrong, good], 3)] == [good.query]
    assert [one.query for one in diverse([wrong], 3)] == [wrong.query]


def test_shares_fall() -> None:
    shares = [
        one.share
        for one in diverse([reading(Query((NAME,), where=(BONN,) * n), 0.1 * n) for n in range(5)], 5)
    ]
    assert shares == sorted(shares, reverse=True)


def test_no_more_than_asked_for() -> None:
    assert len(diverse([reading(Query((SelectItem(n),)), 0.1) for n in range(5)], 3)) == 3
