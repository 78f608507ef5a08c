"""Results of several sources as one: standalone, compare, join, union; then filter, aggregate, project, sort, limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew_nl2sql.aggregate.execution import aggregate
from clew_nl2sql.artifacts import ArtifactStore
from clew_nl2sql.errors import AggregationError
from clew_nl2sql.nodes.global_planner import execution_dag
from clew_nl2sql.schemas import AggregatorResponse, CombineGroup, DecomposerResponse, PostOp, SubQuery
from clew_nl2sql.sources import QueryResult

A, M, C = ("attribute", ""), ("measure", ""), ("count", "")


class Part:
    """A result of one source: columns with roles, and rows in their order."""

    def __init__(self, source: str, columns: dict[str, tuple[str, str]], *rows: tuple[Any, ...]) -> None:
        self.source, self.columns, self.rows = source, columns, rows


@pytest.fixture
def combined(tmp_path: Path) -> Any:
    store = ArtifactStore(tmp_path)

    def run(
        *parts: Part, combine: CombineGroup | None = None, post: tuple[PostOp, ...] = ()
    ) -> AggregatorResponse:
        queries, refs = [], {}
        for number, part in enumerate(parts, 1):
            query = SubQuery(id=f"scan_{number}", datasource_id=part.source, intent="?")
            queries.append(query)
            result = QueryResult(columns=tuple(part.columns), rows=part.rows)
            refs[query.id] = store.write(
                result,
                tenant_id="t",
                trace_id="t",
                node_id=query.id,
                roles=list(part.columns.values()),
                ordered=True,
            )
        dag = execution_dag(
            DecomposerResponse(sub_queries=tuple(queries), combine=combine or CombineGroup(), post_ops=post)
        )
        return aggregate(dag, refs, {name: store.read(ref) for name, ref in refs.items()}, 100)

    return run


SALES = Part("sales", {"name": A, "sum_amount": M}, ("Bo", 30), ("Al", 20), ("Cy", 10))
SUPPORT = Part("support", {"customer": A, "count": C}, ("Al", 2), ("Bo", 1), ("Di", 5))
JOIN = CombineGroup(operation="join", how="left", entity="customer")


def test_one_result_stands_alone_in_its_own_order(combined: Any) -> None:
    assert combined(SALES).rows == SALES.rows
    assert combined(SALES).columns == ("name", "sum_amount")


@pytest.mark.parametrize(
    "how, rows",
    [
        ("left", [("Bo", 30, 1), ("Al", 20, 2), ("Cy", 10, 0)]),
        ("inner", [("Bo", 30, 1), ("Al", 20, 2)]),
        ("full", [("Bo", 30, 1), ("Al", 20, 2), ("Cy", 10, 0), ("Di", None, 5)]),
    ],
)
def test_a_join_finds_its_key_keeps_the_first_order_and_counts_nothing_as_zero(
    combined: Any, how: Any, rows: list[tuple[Any, ...]]
) -> None:
    found = combined(SALES, SUPPORT, combine=CombineGroup(operation="join", how=how, entity="customer"))
    assert list(found.rows) == rows
    assert found.columns == ("name", "sales_sum_amount", "support_count")
    assert found.notes == ("joined sales.name with support.customer",)


def test_three_results_in_a_full_join_meet_wherever_a_row_began(combined: Any) -> None:
    erp = Part("erp", {"customer": A, "sum_amount": M}, ("Di", 7), ("Ed", 8), ("Al", 9))
    found = combined(SALES, SUPPORT, erp, combine=CombineGroup(operation="join", how="full"))
    assert {row[0]: row[1:] for row in found.rows} == {
        "Bo": (30, 1, None),
        "Al": (20, 2, 9),
        "Cy": (10, 0, None),
        "Di": (None, 5, 7),
        "Ed": (None, 0, 8),
    }


def test_a_number_that_was_computed_is_never_a_key(combined: Any) -> None:
    left = Part("a", {"id": A, "count": C}, (1, 3), (2, 2))
    right = Part("b", {"count": C, "customer_id": A}, (1, 2), (2, 1))
    found = combined(left, right, combine=JOIN)
    assert found.notes == ("joined a.id with b.customer_id",)
    assert found.rows == ((1, 3, 2), (2, 2, 1))


def test_given_keys_come_first(combined: Any) -> None:
    left = Part("a", {"code": A, "name": A}, ("x", "n1"), ("y", "n2"))
    right = Part("b", {"name": A, "code": A}, ("n2", "x"), ("n1", "y"))
    found = combined(left, right, combine=CombineGroup(operation="join", keys=("code",)))
    assert found.rows == (("x", "n1", "n2"), ("y", "n2", "n1"))


def test_results_that_share_nothing_are_shown_one_below_the_other(combined: Any) -> None:
    other = Part("b", {"city": A, "count": C}, ("Rome", 1))
    found = combined(SALES, other, combine=JOIN)
    assert found.rows[-1] == ("b", "Rome", 1)
    assert len(found.rows) == 4
    assert "b shares no values with sales" in found.notes[-1]


def test_single_numbers_are_compared_side_by_side(combined: Any) -> None:
    found = combined(
        Part("sales", {"count": C}, (180,)),
        Part("support", {"count": C}, (72,)),
        combine=CombineGroup(operation="compare"),
    )
    assert found.columns == ("sales_count", "support_count", "difference")
    assert found.rows == ((180, 72, 108),)


def test_numbers_by_group_are_compared_group_by_group(combined: Any) -> None:
    found = combined(SALES, SUPPORT, combine=CombineGroup(operation="compare", entity="customer"))
    assert found.columns[-1] == "difference"
    assert {row[0]: row[-1] for row in found.rows} == {"Bo": 29, "Al": 18, "Cy": 10, "Di": None}


def test_a_union_says_which_row_came_from_where(combined: Any) -> None:
    found = combined(
        Part("sales", {"country": A}, ("Norway",), ("Greece",)),
        Part("erp", {"land": A}, ("France",), ("Greece",)),
        combine=CombineGroup(operation="union"),
    )
    assert found.columns == ("source", "country")
    assert found.rows == (("sales", "Norway"), ("sales", "Greece"), ("erp", "France"), ("erp", "Greece"))


def test_a_union_of_unlike_results_goes_by_name(combined: Any) -> None:
    found = combined(
        Part("a", {"id": A, "name": A}, (1, "x")),
        Part("b", {"name": A}, ("y",)),
        combine=CombineGroup(operation="union"),
    )
    assert found.columns == ("source", "id", "name")
    assert found.rows == (("a", 1, "x"), ("b", None, "y"))


def test_a_union_of_numbers_and_words_is_words(combined: Any) -> None:
    found = combined(
        Part("a", {"x": A}, (1,)), Part("b", {"x": A}, ("one",)), combine=CombineGroup(operation="union")
    )
    assert found.rows == (("a", "1"), ("b", "one"))


def test_operations_are_applied_one_after_the_other(combined: Any) -> None:
    post = (
        PostOp(kind="filter", column="support_count", operator=">=", value=1),
        PostOp(kind="sort", columns=("support_count",), descending=True),
        PostOp(kind="project", columns=("name", "support_count")),
        PostOp(kind="limit", limit=2),
    )
    found = combined(SALES, SUPPORT, combine=CombineGroup(operation="join", how="full"), post=post)
    assert found.columns == ("name", "support_count")
    assert found.rows == (("Di", 5), ("Al", 2))
    assert found.sql.count(";") == 4


def test_aggregates_over_everything_and_by_group(combined: Any) -> None:
    union = CombineGroup(operation="union")
    parts = (Part("a", {"kind": A, "n": M}, ("x", 1), ("y", 2)), Part("b", {"kind": A, "n": M}, ("x", 10)))
    total = combined(*parts, combine=union, post=(PostOp(kind="aggregate", measures=(("sum", "n"),)),))
    assert (total.columns, total.rows) == (("sum_n",), ((13,),))
    grouped = PostOp(kind="aggregate", columns=("kind",), measures=(("count", "*"), ("max", "n")))
    by_kind = combined(*parts, combine=union, post=(grouped,))
    assert by_kind.rows == (("x", 2, 10), ("y", 1, 2))


@pytest.mark.parametrize(
    "operator, value, left",
    [("=", "Al", {"Al"}), ("!=", "Al", {"Bo", "Cy"}), ("contains", "B", {"Bo"}), ("<", "B", {"Al"})],
)
def test_filters(combined: Any, operator: Any, value: str, left: set[str]) -> None:
    post = (PostOp(kind="filter", column="name", operator=operator, value=value),)
    assert {row[0] for row in combined(SALES, post=post).rows} == left


@pytest.mark.parametrize(
    "post, told",
    [
        (PostOp(kind="filter", column="nope", operator="=", value=1), "unknown column 'nope'"),
        (PostOp(kind="filter", column="name", value=1), "unknown operator"),
        (PostOp(kind="aggregate", measures=(("median", "name"),)), "unknown aggregate"),
    ],
)
def test_an_operation_that_makes_no_sense_is_said_to_make_none(
    combined: Any, post: PostOp, told: str
) -> None:
    with pytest.raises(AggregationError, match=told):
        combined(SALES, post=(post,))


def test_values_are_data_and_never_sql(combined: Any) -> None:
    evil = "'; DROP TABLE combined; --"
    post = (PostOp(kind="filter", column="name", operator="=", value=evil),)
    assert combined(SALES, post=post).rows == ()
    odd = Part("a", {'x" FROM y; --': A}, ("v",))
    assert combined(odd).rows == (("v",),)


def test_the_same_parts_give_the_same_hash_and_one_changed_cell_another(combined: Any) -> None:
    changed = Part("sales", SALES.columns, ("Bo", 31), *SALES.rows[1:])
    one, again, other = (
        combined(part, SUPPORT, combine=JOIN).content_hash for part in (SALES, SALES, changed)
    )
    assert one == again != other
