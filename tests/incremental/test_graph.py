"""Pulls and sets: the examples and scenarios of the specification, with every call of a computor."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest

from clew import DependencyGraph, Unchanged, schema
from clew.errors import (
    DependencyError,
    EncodeError,
    InvalidExpressionError,
    InvalidNodeError,
    InvalidSchemaError,
    InvalidUnchangedError,
    MissingValueError,
    SchemaPatternError,
)
from tests.incremental.counting import Calls, total

FRESH, STALE = "up-to-date", "potentially-outdated"


@pytest.fixture
def calls() -> Calls:
    return Calls()


class TestExamples:
    def test_a_linear_chain_with_a_parameter(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("all_events", (), lambda i, old, b: old or {"events": []}),
                calls.schema("meta_events", ["all_events"], lambda i, o, b: i[0]["events"]),
                calls.schema(
                    "event_context(e)",
                    ["meta_events"],
                    lambda i, o, b: next((one for one in i[0] if one["id"] == b["e"]), None),
                ),
            ]
        )
        graph.set("all_events", {"events": [{"id": "id123", "data": "..."}]})
        assert graph.pull("event_context(id123)") == {"id": "id123", "data": "..."}
        assert calls.take() == ["meta_events", "event_context(id123)"]
        assert graph.pull("event_context", "id456") is None
        assert calls.take() == ["event_context(id456)"]
        assert graph.freshness("event_context(id123)") == FRESH

    def test_several_parameters(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("event_context(e)", ["all_events"], lambda i, o, b: i[0][b["e"]]),
                calls.schema("photo(p)", ["photo_storage"], lambda i, o, b: i[0][b["p"]]),
                calls.schema(
                    "enhanced_event(e, p)", ["event_context(e)", "photo(p)"], lambda i, o, b: [*i, b]
                ),
            ]
        )
        graph.set("all_events", {"id123": "an event"})
        graph.set("photo_storage", {"photo5": "a photo"})
        assert graph.pull("enhanced_event(id123, photo5)") == [
            "an event",
            "a photo",
            {"e": "id123", "p": "photo5"},
        ]
        assert calls.take() == ["event_context(id123)", "photo(photo5)", "enhanced_event(id123,photo5)"]
        graph.set("photo_storage", {"photo5": "a better photo"})
        assert graph.pull("enhanced_event", "id123", "photo5")[1] == "a better photo"
        assert calls.take() == ["photo(photo5)", "enhanced_event(id123,photo5)"]

    def test_inputs_share_the_bindings(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("status(e)", ["event_data"], lambda i, o, b: i[0]["statuses"][b["e"]]),
                calls.schema("metadata(e)", ["event_data"], lambda i, o, b: i[0]["metadata"][b["e"]]),
                calls.schema("full_event(e)", ["status(e)", "metadata(e)"], lambda i, o, b: (b["e"], *i)),
            ]
        )
        graph.set("event_data", {"statuses": {"id123": "on"}, "metadata": {"id123": "m"}})
        assert graph.pull("full_event(id123)") == ("id123", "on", "m")

    def test_a_constant_in_an_input_is_a_fixed_dependency(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("status(e, s)", ["log"], lambda i, o, b: f"{b['e']} {b['s']} {i[0]}"),
                calls.schema("active(e)", ['status(e, "active")'], lambda i, o, b: i[0]),
            ]
        )
        graph.set("log", 1)
        assert graph.pull("active(x)") == "x active 1"
        assert calls.take() == ["status(x,active)", "active(x)"]

    def test_a_schema_for_one_node_only(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema('event("id123")', ["log"], lambda i, o, b: (i[0], b))])
        graph.set("log", 1)
        assert graph.pull("event(id123)") == (1, {})
        with pytest.raises(InvalidNodeError):
            graph.pull("event(other)")


class TestScenarios:
    def test_a_linear_chain(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("B", ["A"], total), calls.schema("C", ["B"], total)])
        graph.set("A", 1)
        assert calls.take() == []  # nothing was pulled yet
        assert graph.pull("C") == 1
        assert calls.take() == ["B", "C"]
        graph.set("A", 2)
        assert [graph.freshness(node) for node in "ABC"] == [FRESH, STALE, STALE]
        assert graph.pull("B") == 2
        assert [graph.freshness(node) for node in "ABC"] == [FRESH, FRESH, STALE]
        assert calls.take() == ["B"]
        assert graph.pull("C") == 2
        assert calls.take() == ["C"]

    def test_a_second_pull_computes_nothing(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("B", ["A"], total)])
        graph.set("A", 1)
        assert graph.pull("B") == graph.pull("B") == 1
        assert calls.take() == ["B"]

    def test_a_diamond_computes_each_node_once(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("B", ["A"], total),
                calls.schema("C", ["A"], total),
                calls.schema("D", ["B", "C"], total),
            ]
        )
        graph.set("A", 1)
        assert graph.pull("D") == 2
        assert calls.take() == ["B", "C", "D"]
        graph.set("A", 2)
        assert graph.pull("D") == 4
        assert calls.take() == ["B", "C", "D"]

    def test_unchanged_stops_what_is_behind_it(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("sign", ["A"], lambda i, old, b: Unchanged if old == (i[0] > 0) else i[0] > 0),
                calls.schema("C", ["sign"], lambda i, o, b: f"sign {i[0]}"),
                calls.schema("D", ["C"], lambda i, o, b: i[0].upper()),
            ]
        )
        graph.set("A", 1)
        assert graph.pull("D") == "SIGN TRUE"
        assert calls.take() == ["sign", "C", "D"]
        graph.set("A", 2)
        assert graph.freshness("D") == STALE
        assert graph.pull("D") == "SIGN TRUE"
        assert calls.take() == ["sign"]
        assert [graph.freshness(node) for node in ("sign", "C", "D")] == [FRESH] * 3
        graph.set("A", -1)
        assert graph.pull("D") == "SIGN FALSE"
        assert calls.take() == ["sign", "C", "D"]

    def test_an_equal_value_is_the_same_as_unchanged(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("B", ["A"], lambda i, o, b: [i[0] > 0]),
                calls.schema("C", ["B"], lambda i, o, b: i[0]),
            ]
        )
        graph.set("A", 1)
        graph.pull("C")
        calls.take()
        graph.set("A", 2)
        assert graph.pull("C") == [True]
        assert calls.take() == ["B"]

    def test_a_source_that_is_set_to_an_equal_value_computes_nothing(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("B", ["A"], total)])
        graph.set("A", 1)
        graph.pull("B")
        calls.take()
        graph.set("A", 1)
        assert graph.freshness("B") == STALE
        assert graph.pull("B") == 1
        assert calls.take() == []
        assert graph.freshness("B") == FRESH

    def test_mixed_freshness(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("b", ["a1"], total),
                calls.schema("c", ["a2"], total),
                calls.schema("d", ["b", "c"], total),
            ]
        )
        graph.set("a1", 1)
        graph.set("a2", 10)
        graph.pull("d")
        calls.take()
        graph.set("a2", 20)
        assert [graph.freshness(node) for node in ("b", "c", "d")] == [FRESH, STALE, STALE]
        assert graph.pull("d") == 21
        assert calls.take() == ["c", "d"]

    def test_instances_have_freshness_of_their_own(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [schema("file(x)"), calls.schema("size(x)", ["file(x)"], lambda i, o, b: len(i[0]))]
        )
        graph.set("file(one)", "abc")
        graph.set("file(two)", "de")
        assert (graph.pull("size(one)"), graph.pull("size(two)")) == (3, 2)
        calls.take()
        graph.set("file(one)", "abcd")
        assert (graph.freshness("size(one)"), graph.freshness("size(two)")) == (STALE, FRESH)
        assert (graph.pull("size(one)"), graph.pull("size(two)")) == (4, 2)
        assert calls.take() == ["size(one)"]

    def test_s_to_b_and_s_b_to_d(self, calls: Calls) -> None:
        """The case for which marking dependents fresh, when an input says Unchanged, would be wrong."""
        graph = DependencyGraph(
            [
                calls.schema("B", ["S"], lambda i, old, b: 0 if old is None else Unchanged),
                calls.schema("D", ["S", "B"], total),
            ]
        )
        graph.set("S", 1)
        assert graph.pull("D") == 1
        graph.set("S", 2)
        calls.take()
        assert graph.pull("B") == 0
        assert calls.take() == ["B"]
        assert graph.freshness("B") == FRESH
        assert graph.freshness("D") == STALE
        assert graph.pull("D") == 2
        assert calls.take() == ["D"]

    def test_typed_arguments_are_two_nodes(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("f(x)", ["s"], lambda i, o, b: b["x"])])
        graph.set("s", 0)
        assert graph.pull("f(5)") == 5
        assert graph.pull('f("5")') == "5"
        assert graph.pull("f", 5) == 5
        assert graph.pull("f", "5") == "5"
        assert calls.take() == ["f(5)", "f(5)"]
        assert graph.materialized("f(x)") == ['f("5")', "f(5)"]

    def test_no_arguments_are_no_parentheses(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("f()", ["s()"], total)])
        graph.set("s()", 1)
        assert graph.pull("f") == graph.pull("f()") == 1
        assert calls.take() == ["f"]

    def test_many_sources_of_one_node(self, calls: Calls) -> None:
        """More than are checked one by one, so they become bits."""
        names = [f"s{n}" for n in range(100)]
        graph = DependencyGraph(
            [
                calls.schema("low", names[:50], total),
                calls.schema("high", names[50:], total),
                calls.schema("few", names[:3], total),
                schema("file(x)"),
                calls.schema("all(x)", ["low", "high", "few", "file(x)"], total),
                calls.schema("direct(x)", [*names[:20], "file(x)"], total),
            ]
        )
        for name in names:
            graph.set(name, 1)
        graph.set("file(a)", 1000)
        assert graph.pull("direct(a)") == 1020
        for node in ("s3", "file(a)"):
            graph.set(node, graph.pull(node))
            assert graph.freshness("direct(a)") == STALE
            assert graph.pull("direct(a)") == 1020
            graph.set("unrelated", 0)
            assert graph.freshness("direct(a)") == FRESH
        assert graph.pull("all(a)") == 1103
        calls.take()
        for n, node in ((0, "few"), (60, "high"), (49, "low"), (99, "high")):
            graph.set(f"s{n}", 2)
            assert graph.freshness("all(a)") == STALE
            graph.pull("all(a)")
            assert set(calls.take()) == {node, "all(a)", *(["low"] if n == 0 else [])}
            assert graph.freshness("all(a)") == FRESH
        graph.set("file(a)", 2000)
        graph.set("unrelated", 1)
        assert graph.pull("all(a)") == 2000 + 103 + 4 + 1
        assert calls.take() == ["all(a)"]
        for _ in range(600):  # the list of touches stays short
            graph.set("s7", 1)
        assert len(graph._table.touches) < 600
        graph.set("s7", 5)
        graph.pull("all(a)")
        assert set(calls.take()) == {"low", "all(a)"}

    def test_many_sources_that_are_computed(self, calls: Calls) -> None:
        names = [f"made{n}" for n in range(20)]
        graph = DependencyGraph(
            [
                *(calls.schema(name, (), lambda i, o, b: (o or 0) + 1) for name in names),
                calls.schema("low", names, total),
                calls.schema("mixed", ["low", "s"], total),
                calls.schema("all", ["low", "mixed", "made0"], total),
            ]
        )
        graph.set("s", 0)
        assert graph.pull("all") == 41
        graph.set("s", 1)
        assert graph.pull("all") == 42
        calls.take()
        graph.invalidate("made3")
        assert graph.pull("all") == 44
        assert calls.take() == ["made3", "low", "mixed", "all"]
        explanation = graph.explain("all")
        assert len(explanation.causes) == 21
        assert explanation.causes[0].node == "made3"


class TestSources:
    def test_an_atom_without_a_schema_is_to_be_set(self) -> None:
        graph = DependencyGraph([schema("photo(p)", ["photo_storage"], total)])
        assert graph.freshness("photo_storage") is None
        for node in ("photo_storage", "photo(p5)"):
            with pytest.raises(MissingValueError, match=r"graph.set\('photo_storage'"):
                graph.pull(node)
        assert graph.freshness("photo(p5)") is None
        graph.set("photo_storage", 5)
        assert graph.pull("photo(p5)") == 5

    def test_what_was_computed_before_a_missing_value_stays(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("a", ["s"], total), calls.schema("b", ["a", "t"], total)])
        graph.set("s", 1)
        with pytest.raises(MissingValueError):
            graph.pull("b")
        assert graph.freshness("a") == FRESH
        graph.set("t", 1)
        assert graph.pull("b") == 2
        assert calls.take() == ["a", "b"]

    def test_a_set_of_an_unknown_atom_makes_a_source(self) -> None:
        graph = DependencyGraph([])
        assert graph.freshness("new") is None
        with pytest.raises(InvalidNodeError):
            graph.pull("new")
        graph.set("new", 1)
        assert graph.pull("new") == 1
        assert graph.freshness("new") == FRESH
        assert graph.materialized() == ["new"]

    def test_a_set_of_an_unmatched_compound(self) -> None:
        graph = DependencyGraph([schema("photo(p)")])
        for node in ("foto(p5)", "photo(a, b)", "photo"):
            with pytest.raises(InvalidNodeError):
                graph.set(node, 1)
        with pytest.raises(InvalidNodeError):
            graph.freshness("foto(p5)")

    def test_a_source_with_a_computor_is_computed_until_it_is_set(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [calls.schema("a", (), lambda i, old, b: old or 7), calls.schema("b", ["a"], total)]
        )
        assert graph.pull("b") == 7
        assert calls.take() == ["a", "b"]
        graph.set("a", 8)
        assert graph.pull("b") == 8
        assert calls.take() == ["b"]

    def test_a_pattern_is_no_node(self) -> None:
        graph = DependencyGraph([schema("event_context(e)"), schema('status(e, "on")')])
        with pytest.raises(SchemaPatternError, match=r"set\('event_context', 'e', value=...\)"):
            graph.set("event_context( e )", 1)
        with pytest.raises(SchemaPatternError):
            graph.set("status(e, on)", 1)
        graph.set("event_context", "e", value=1)
        graph.set('event_context("e")', 2)
        graph.set("event_context(f)", 3)
        assert graph.pull("event_context(e)") == 2
        with pytest.raises(SchemaPatternError):  # also when the instance is there
            graph.set("event_context(e)", 4)

    @pytest.mark.parametrize("given", [(), (1, 2), ("p", 5, 6)])
    def test_a_set_without_its_value(self, given: tuple[Any, ...]) -> None:
        with pytest.raises(TypeError, match="a node and a value"):
            DependencyGraph([]).set("a", *given)

    def test_names_that_do_not_parse(self) -> None:
        graph = DependencyGraph([])
        for verb in (graph.pull, graph.freshness, graph.invalidate, graph.explain, graph.materialized):
            with pytest.raises(InvalidExpressionError, match="position 2"):
                verb("a(")
        with pytest.raises(InvalidExpressionError):
            graph.set("a b", 1)
        with pytest.raises(InvalidExpressionError):
            graph.pull("f", 1.5)


class TestComputors:
    def test_unchanged_without_an_old_value(self, calls: Calls) -> None:
        graph = DependencyGraph([calls.schema("b", ["a"], lambda i, o, b: Unchanged)])
        graph.set("a", 1)
        with pytest.raises(InvalidUnchangedError, match="'b' returned Unchanged"):
            graph.pull("b")
        assert graph.freshness("b") is None
        assert graph.materialized() == ["a"]

    def test_unchanged_is_no_value(self) -> None:
        with pytest.raises(InvalidUnchangedError, match="not a value"):
            DependencyGraph([]).set("a", Unchanged)

    def test_unchanged_is_one_thing(self) -> None:
        assert repr(Unchanged) == "Unchanged"
        assert copy.deepcopy(Unchanged) is pickle.loads(pickle.dumps(Unchanged)) is Unchanged

    def test_a_failing_computor_loses_nothing(self, calls: Calls) -> None:
        fails = [False]

        def fragile(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            if fails[0]:
                raise ValueError("no such photo")
            return inputs[0] * 10

        graph = DependencyGraph([calls.schema("a", ["s"], total), calls.schema("photo(p)", ["a"], fragile)])
        graph.set("s", 1)
        assert graph.pull("photo(p5)") == 10
        fails[0] = True
        graph.set("s", 2)
        calls.take()
        with pytest.raises(ValueError, match="no such photo") as caught:
            graph.pull("photo(p5)")
        assert caught.value.__notes__ == ["raised by the computor of 'photo(p5)' with {'p': 'p5'}"]
        assert calls.take() == ["a", "photo(p5)"]
        assert graph.freshness("photo(p5)") == STALE
        assert graph.explain("photo(p5)").verified_at == 1
        assert graph.freshness("a") == FRESH
        fails[0] = False
        assert graph.pull("photo(p5)") == 20
        assert calls.take() == ["photo(p5)"]

    def test_the_old_value_is_handed_over(self) -> None:
        seen: list[Any] = []

        def remember(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            seen.append(old)
            return {"n": inputs[0]}

        graph = DependencyGraph([schema("b", ["a"], remember)])
        for n in (1, 2):
            graph.set("a", n)
            graph.pull("b")
        assert seen == [None, {"n": 1}]

    def test_an_edit_of_the_old_value_is_noticed(self, calls: Calls) -> None:
        def collect(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            old = old or []
            old.append(inputs[0])
            return old

        graph = DependencyGraph(
            [
                calls.schema("log", ["a"], collect, stateful=True),
                calls.schema("size", ["log"], lambda i, o, b: len(i[0])),
            ]
        )
        for n in (1, 2, 3):
            graph.set("a", n)
            assert graph.pull("size") == n
        assert graph.pull("log") == [1, 2, 3]

    def test_a_computor_that_fails_after_an_edit_has_edited_a_copy(self) -> None:
        def spoil(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            if old is not None:
                old.append("spoiled")
                raise RuntimeError("too late")
            return [1]

        graph = DependencyGraph([schema("b", ["a"], spoil)])
        graph.set("a", 1)
        graph.pull("b")
        graph.set("a", 2)
        with pytest.raises(RuntimeError):
            graph.pull("b")
        assert graph._table.nodes["b"].row.get() == [1]

    def test_what_is_set_may_be_changed_afterwards(self) -> None:
        graph = DependencyGraph([schema("size", ["a"], lambda i, o, b: len(i[0]))])
        mine = [1]
        graph.set("a", mine)
        mine.append(2)
        assert graph.pull("size") == 1
        graph.set("a", mine)
        assert graph.pull("size") == 2

    def test_bindings_are_a_copy(self) -> None:
        def spoil(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return bindings.pop("x")

        graph = DependencyGraph([schema("f(x)", ["a"], spoil)])
        graph.set("a", 1)
        assert graph.pull("f(v)") == "v"
        graph.set("a", 2)
        assert graph.pull("f(v)") == "v"

    def test_a_value_without_an_encoding(self) -> None:
        graph = DependencyGraph([schema("b", ["a"], lambda i, o, b: {"deep": object()})])
        graph.set("a", 1)
        with pytest.raises(EncodeError, match=r"b\.deep"):
            graph.pull("b")
        assert graph.freshness("b") is None
        with pytest.raises(EncodeError, match=r"c\[0\]"):
            graph.set("c", [object()])

    def test_an_async_computor_needs_apull(self) -> None:
        async def later(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return 1

        class Ready:
            def __await__(self) -> Any:
                yield

        for computor in (later, lambda i, o, b: Ready()):
            graph = DependencyGraph([schema("b", ["a"], computor)])
            graph.set("a", 1)
            with pytest.raises(DependencyError, match=r"'b' is async; use await graph\.apull"):
                graph.pull("b")

    def test_a_computor_may_not_use_its_graph(self) -> None:
        graph: DependencyGraph

        def sly(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return graph.pull("a")

        graph = DependencyGraph([schema("b", ["a"], sly)])
        graph.set("a", 1)
        with pytest.raises(DependencyError, match="own graph"):
            graph.pull("b")
        assert graph.pull("a") == 1


class TestEquality:
    """Equal means equal canonical encodings."""

    @pytest.mark.parametrize(
        "old, new, is_same",
        [
            (1, 1, True),
            (1, True, False),
            (1, 1.0, False),
            (0.0, -0.0, False),
            (1.5, 1.5, True),
            (float("nan"), float("nan"), True),
            ("a", "a", True),
            ("a", "b", False),
            (b"a", b"a", True),
            (None, None, True),
            (None, 0, False),
            (2**70, 2**70, True),
            ([1], [1], True),
            ([1], [True], False),
            ([1], (1,), False),
            ([1], 1, False),
            (1, [1], False),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
            ({"a": 1, "b": 2}, {"b": 1, "a": 2}, False),
            ({"a": [1]}, {"a": [2]}, False),
            ({1, 2}, {2, 1}, True),
            (Decimal("1.0"), Decimal("1.00"), False),
        ],
    )
    @pytest.mark.parametrize("store", [None, "file"])
    def test_two_values(
        self, calls: Calls, tmp_path: Any, old: Any, new: Any, is_same: bool, store: str | None
    ) -> None:
        values = iter([old, new])
        schemas = [
            calls.schema("b", ["a"], lambda i, o, b: next(values)),
            calls.schema("c", ["b"], lambda i, o, b: 0),
            calls.schema("d", ["s"], lambda i, o, b: 0),
        ]
        graph = DependencyGraph(schemas, store and tmp_path / "g.db")
        graph.set("a", 1)
        graph.set("s", old)
        graph.pull("c")
        graph.pull("d")
        if store:
            graph.close()
            graph = DependencyGraph(schemas, tmp_path / "g.db")
        calls.take()
        graph.set("a", 2)
        graph.set("s", new)
        graph.pull("c")
        graph.pull("d")
        assert calls.take() == (["b"] if is_same else ["b", "c", "d"])
        graph.close()


class TestTheGraph:
    def test_it_says_what_it_is(self) -> None:
        graph = DependencyGraph([schema("a"), schema("b", ["a"], total)])
        graph.set("a", 1)
        assert repr(graph) == "DependencyGraph(2 schemas, revision 1)"

    def test_closed_it_does_nothing(self) -> None:
        with DependencyGraph([]) as graph:
            graph.set("a", 1)
        graph.close()
        for use in (lambda: graph.pull("a"), lambda: graph.set("a", 1), lambda: graph.freshness("a")):
            with pytest.raises(DependencyError, match="closed"):
                use()

    @pytest.mark.parametrize("number", [0, -1, 1.5, "2", True])
    def test_a_concurrency_that_is_none(self, number: Any) -> None:
        with pytest.raises(DependencyError, match="max_concurrency"):
            DependencyGraph([], max_concurrency=number)

    @pytest.mark.parametrize("number", [-1, "x", None, 1.5, True])
    def test_how_many_nodes_are_kept_in_memory(self, number: Any) -> None:
        with pytest.raises(DependencyError, match="max_nodes_in_memory"):
            DependencyGraph([], max_nodes_in_memory=number)

    @pytest.mark.parametrize("name", ["", None, 5])
    def test_a_graph_has_a_name(self, name: Any) -> None:
        with pytest.raises(DependencyError, match="name"):
            DependencyGraph([], name=name)

    @pytest.mark.parametrize("schemas", [None, schema("a"), 5])
    def test_schemas_are_a_list(self, schemas: Any) -> None:
        with pytest.raises(InvalidSchemaError, match=r"clew\.schema"):
            DependencyGraph(schemas)

    @pytest.mark.parametrize("name", [["x"], {}, 5, None])
    def test_a_name_is_a_text(self, name: Any) -> None:
        graph = DependencyGraph([])
        for ask in (graph.pull, graph.freshness, graph.explain, graph.invalidate, lambda n: graph.set(n, 1)):
            with pytest.raises(InvalidExpressionError, match="node name"):
                ask(name)

    def test_a_pattern_that_is_invalidated(self) -> None:
        graph = DependencyGraph([schema("photo(p)", ["a"], lambda i, o, b: b["p"])])
        graph.set("a", 1)
        graph.pull("photo(p5)")
        with pytest.raises(SchemaPatternError, match=r"invalidate\('photo', 'p'\)"):
            graph.invalidate("photo(p)")
        with pytest.raises(SchemaPatternError), graph.batch():
            graph.invalidate("photo(p)")
        graph.invalidate("photo", "p")
        graph.invalidate("photo(p6)")
        assert graph.revision == 1
        with graph.batch():
            graph.set("photo", "p", value="mine")
            graph.invalidate("photo(p)")
        assert graph.pull("photo(p)") == "p"
        graph.invalidate("photo(p)")  # it has a value: it is clear what is meant
        assert graph.freshness("photo(p)") == "potentially-outdated"

    def test_names_inside_are_readable(self) -> None:
        graph = DependencyGraph([schema("f(x)", ["s"], total)])
        graph.set("s", 1)
        graph.pull("f(a)")
        node = graph._table.nodes["f(a)"]
        assert f"{node} {node.rule}" == "Node(f(a)) Rule(f(x))"

    def test_import_clew_does_not_load_it(self) -> None:
        program = "import sys, clew; assert 'clew.incremental' not in sys.modules; clew.DependencyGraph([])"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        assert subprocess.run([sys.executable, "-c", program], env=env).returncode == 0

    def test_what_is_materialized(self) -> None:
        graph = DependencyGraph(
            [
                schema("pair(x, y)", ["s"], total),
                schema("single(x)", ["s"], total),
                schema("derived", ["s"], total),
            ]
        )
        assert graph.materialized() == []
        graph.set("s", 1)
        for node in ("pair(a, a)", "pair(a, b)", "pair(5, b)", "single(b)", "derived"):
            graph.pull(node)
        graph.freshness("single(never)")
        everything = ["derived", "pair(5,b)", "pair(a,a)", "pair(a,b)", "s", "single(b)"]
        assert graph.materialized() == everything
        assert graph.materialized("pair(x, y)") == everything[1:4]
        assert graph.materialized("pair(x, x)") == ["pair(a,a)"]
        assert graph.materialized("pair(x, 'b')") == ["pair(5,b)", "pair(a,b)"]
        assert graph.materialized("pair") == everything[1:4]
        assert graph.materialized("s") == ["s"]
        assert graph.materialized("single(x)") == ["single(b)"]
        assert graph.materialized("nothing") == []
        assert graph.materialized("single(x, y)") == []
        assert graph.orphans() == graph.prune() == []
