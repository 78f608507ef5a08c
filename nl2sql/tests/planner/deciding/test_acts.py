"""What each act adds to a query, and the names by which weights know the acts."""

from __future__ import annotations

import pytest

from clew_nl2sql.planner.deciding import acts
from clew_nl2sql.planner.deciding.acts import COUNT, Act, QueryParts
from clew_nl2sql.planner.query import Condition, Scalar, SelectItem

PRICE, AGE = SelectItem(4), SelectItem(5)

ADDED: list[tuple[Act, QueryParts]] = [
    (acts.Ignore(), QueryParts()),
    (acts.Consumed(), QueryParts()),
    (acts.JoinTable(2), QueryParts(entities=[2])),
    (acts.ShowTable(2), QueryParts(shown=[(7, 2)])),
    (acts.GroupByTable(2), QueryParts(group_tables=[2])),
    (acts.ExcludeTable(2), QueryParts(negative=[(7, 2)])),
    (acts.SelectColumn(4), QueryParts(items=[(7, PRICE)])),
    (acts.GroupByColumn(4), QueryParts(group=[4])),
    (acts.OrderByColumn(4), QueryParts(orders=[(PRICE, 7)])),
    (acts.SelectFullName(4, 5), QueryParts(items=[(7, PRICE), (7, AGE)])),
    (acts.CountDistinct(4), QueryParts(items=[(7, SelectItem(4, "count", True))])),
    (acts.CountValues(4), QueryParts(items=[(7, SelectItem(4, "count"))])),
    (acts.SumValues(4), QueryParts(items=[(7, SelectItem(4, "sum"))])),
    (acts.SelectAggregate("avg", 4), QueryParts(items=[(7, SelectItem(4, "avg"))])),
    (acts.OrderByAggregate("avg", 4), QueryParts(orders=[(SelectItem(4, "avg"), 7)])),
    (acts.RankByAggregate("sum", 4, True, 3), QueryParts(ranking=(SelectItem(4, "sum"), True, 3))),
    (acts.HavingAggregate("avg", 4, ">", 5), QueryParts(having=[Condition(SelectItem(4, "avg"), ">", 5)])),
    (acts.CountRows(2), QueryParts(items=[(7, COUNT)], counted=[2])),
    (acts.CountRows(None), QueryParts(items=[(7, COUNT)])),
    (acts.OrderByCount(2), QueryParts(orders=[(COUNT, 7)], counted=[2])),
    (acts.HavingCount(">=", 5, 2), QueryParts(having=[Condition(COUNT, ">=", 5)], counted=[2])),
    (acts.RankByCount(False, 1, 2), QueryParts(ranking=(COUNT, False, 1), counted=[2])),
    (acts.RankByColumn(4, True, 3), QueryParts(ranking=(PRICE, True, 3))),
    (acts.Limit(3), QueryParts(limit=3)),
    (acts.Filter(4, ">", 5), QueryParts(conditions=[(7, 9, Condition(PRICE, ">", 5))])),
    (acts.ExcludeRows(4, "=", "x"), QueryParts(excluded=[(7, Condition(PRICE, "=", "x"))])),
    (
        acts.FilterPair(4, "Ann", 5, "Berg"),
        QueryParts(conditions=[(7, 9, Condition(PRICE, "=", "Ann")), (7, 9, Condition(AGE, "=", "Berg"))]),
    ),
    (acts.CompareColumns(4, ">", 5), QueryParts(conditions=[(7, 9, Condition(PRICE, ">", AGE))])),
    (
        acts.CompareWithAggregate(4, "<", "avg"),
        QueryParts(conditions=[(7, 9, Condition(PRICE, "<", Scalar("avg", 4)))]),
    ),
]


@pytest.mark.parametrize("act, expected", ADDED, ids=lambda value: getattr(value, "role", ""))
def test_an_act_adds_its_part_and_nothing_else(act: Act, expected: QueryParts) -> None:
    parts = QueryParts()
    act.add_to(parts, 7, 9)
    assert parts == expected


def test_every_act_is_tried_and_has_a_role_of_its_own() -> None:
    kinds = {kind for kind in vars(acts).values() if isinstance(kind, type) and issubclass(kind, Act)}
    concrete = {kind for kind in kinds if hasattr(kind, "role")}
    assert concrete == {type(act) for act, _ in ADDED}
    assert len({kind.role for kind in concrete}) == len(concrete)


@pytest.mark.parametrize(
    "act, columns",
    [
        (acts.JoinTable(2), ()),
        (acts.Limit(3), ()),
        (acts.Filter(4, "=", 1), (4,)),
        (acts.SelectAggregate("avg", 4), (4,)),
        (acts.FilterPair(4, "a", 5, "b"), (4, 5)),
        (acts.CompareColumns(4, ">", 5), (4, 5)),
        (acts.SelectFullName(4, 5), (4, 5)),
    ],
)
def test_an_act_names_its_columns(act: Act, columns: tuple[int, ...]) -> None:
    assert act.columns == columns


def test_a_condition_can_exclude_instead() -> None:
    assert acts.Filter(4, ">", 5).excluding() == acts.ExcludeRows(4, ">", 5)
