"""Pins, invalidations and batches: what they touch, when they end, and that they are atomic."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest

from clew import DependencyGraph, Unchanged, schema
from clew.errors import DependencyError, EncodeError, MissingValueError, StoreUnavailableError
from tests.incremental.counting import Calls, total

FRESH, STALE = "up-to-date", "potentially-outdated"


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return None if request.param == "memory" else tmp_path / "graph.db"


def line(calls: Calls, store: Any = None) -> DependencyGraph:
    """a -> b -> c -> d, each the sum of its inputs; d takes e too."""
    return DependencyGraph(
        [
            calls.schema("b", ["a"], total),
            calls.schema("c", ["b"], total),
            calls.schema("d", ["c", "e"], total),
        ],
        store,
    )


class TestPins:
    def test_a_pin_holds_until_a_source_is_touched(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("e", 10)
            graph.pull("d")
            calls.take()
            graph.set("c", 100)
            assert [graph.freshness(node) for node in "abcd"] == [FRESH, FRESH, FRESH, STALE]
            assert graph.pull("d") == 110
            assert calls.take() == ["d"]
            assert graph.pull("c") == 100
            graph.set("e", 20)  # no source of c
            assert graph.freshness("c") == FRESH
            assert graph.pull("d") == 120
            assert calls.take() == ["d"]
            graph.set("a", 2)
            assert graph.freshness("c") == STALE
            assert graph.pull("d") == 22
            assert calls.take() == ["b", "c", "d"]

    def test_a_pin_ends_even_when_the_source_gets_an_equal_value(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("c", 100)
            assert calls.take() == ["b"]
            graph.set("a", 1)
            assert graph.pull("c") == 1
            assert calls.take() == ["c"]  # b is verified, not computed

    def test_a_pin_first_brings_the_inputs_up_to_date(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("c", 100)
            assert calls.take() == ["b"]
            assert [graph.freshness(node) for node in "bc"] == [FRESH, FRESH]

    def test_if_an_input_fails_nothing_is_pinned(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            revision = graph.revision
            with pytest.raises(MissingValueError, match="'e'"):
                graph.set("d", 5)
            assert graph.freshness("d") is None
            assert graph.freshness("c") == FRESH  # computed on the way, and kept
            assert graph.revision == revision

    def test_the_pinned_value_is_the_old_value_of_the_computation_that_ends_it(self, store: Any) -> None:
        seen: list[Any] = []

        def remember(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            seen.append(old)
            return inputs[0]

        with DependencyGraph([schema("b", ["a"], remember)], store) as graph:
            graph.set("a", 1)
            graph.set("b", {"pinned": True})
            graph.set("a", 2)
            assert graph.pull("b") == 2
            assert seen == [{"pinned": True}]

    def test_unchanged_keeps_a_pinned_value(self, store: Any) -> None:
        with DependencyGraph([schema("b", ["a"], lambda i, o, b: Unchanged)], store) as graph:
            graph.set("a", 1)
            graph.set("b", 5)
            graph.set("a", 2)
            assert graph.pull("b") == 5
            assert graph.explain("b").origin == "computed"

    def test_a_pin_below_a_pin_ends_it(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("c", 100)
            graph.set("b", 7)
            assert graph.freshness("c") == STALE
            calls.take()
            assert graph.pull("c") == 7
            assert calls.take() == ["c"]

    def test_a_pin_to_an_equal_value_touches_and_changes_nothing(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("e", 1)
            graph.pull("d")
            calls.take()
            graph.set("b", 1)
            assert graph.freshness("d") == STALE
            assert graph.pull("d") == 2
            assert calls.take() == []

    def test_an_instance_is_pinned_alone(self, calls: Calls, store: Any) -> None:
        schemas = [
            calls.schema("view(x)", ["log"], lambda i, o, b: f"{i[0]}{b['x']}"),
            calls.schema("page(x)", ["view(x)"], lambda i, o, b: i[0].upper()),
        ]
        with DependencyGraph(schemas, store) as graph:
            graph.set("log", "l")
            assert [graph.pull(f"page({x})") for x in "abc"] == ["LA", "LB", "LC"]
            calls.take()
            graph.set("view(b)", "pinned")
            assert [graph.freshness(f"page({x})") for x in "abc"] == [FRESH, STALE, FRESH]
            assert [graph.pull(f"page({x})") for x in "abc"] == ["LA", "PINNED", "LC"]
            assert calls.take() == ["page(b)"]


class TestInvalidation:
    def test_a_node_that_was_never_demanded(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            for node in ("a", "b"):
                graph.invalidate(node)
                assert graph.freshness(node) is None
            assert graph.revision == 0

    def test_a_source_without_a_computor_is_taken_for_changed(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.pull("c")
            calls.take()
            graph.invalidate("a")
            assert [graph.freshness(node) for node in "abc"] == [FRESH, STALE, STALE]
            assert graph.pull("c") == 1
            assert calls.take() == ["b"]  # whose value is an equal one

    def test_a_source_with_a_computor_is_computed_again(self, calls: Calls, store: Any) -> None:
        values = iter([1, 2, 2])
        schemas = [
            calls.schema("clock", (), lambda i, o, b: next(values)),
            calls.schema("b", ["clock"], total),
        ]
        with DependencyGraph(schemas, store) as graph:
            assert graph.pull("b") == 1
            graph.invalidate("clock")
            assert [graph.freshness(node) for node in ("clock", "b")] == [STALE, STALE]
            assert graph.pull("b") == 2
            graph.invalidate("clock")
            calls.take()
            assert graph.pull("b") == 2
            assert calls.take() == ["clock"]

    def test_a_derived_node_is_computed_again(self, calls: Calls, store: Any) -> None:
        outside = [0]
        schemas = [
            calls.schema("b", ["a"], lambda i, o, b: i[0] + outside[0]),
            calls.schema("c", ["b"], total),
            calls.schema("x", ["a"], total),
        ]
        with DependencyGraph(schemas, store) as graph:
            graph.set("a", 1)
            graph.pull("c")
            graph.pull("x")
            outside[0] = 10
            calls.take()
            graph.invalidate("b")
            assert [graph.freshness(node) for node in "abcx"] == [FRESH, STALE, STALE, FRESH]
            assert graph.pull("c") == 11
            assert calls.take() == ["b", "c"]
            graph.invalidate("b")
            assert graph.pull("c") == 11
            assert calls.take() == ["b"]

    def test_a_pin_ends(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.set("b", 5)
            graph.invalidate("b")
            assert graph.pull("c") == 1

    def test_a_set_source_with_a_computor_goes_back_to_it(self, store: Any) -> None:
        with DependencyGraph([schema("a", (), lambda i, old, b: (old or 0) + 1)], store) as graph:
            graph.set("a", 10)
            assert graph.pull("a") == 10
            graph.invalidate("a")
            assert graph.pull("a") == 11


class TestBatches:
    def _set_all(self, graph: DependencyGraph, values: dict[str, Any], then: Any = lambda: None) -> None:
        with graph.batch():
            for node, value in values.items():
                graph.set(node, value)
            then()

    def test_one_revision_for_all(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            with graph.batch():
                graph.set("a", 1)
                graph.set("e", 10)
                graph.set("other", 3)
                assert graph.freshness("a") is None  # not before the end
            assert graph.revision == 1
            assert graph.pull("d") == 11

    def test_pulls_within_see_what_was_before(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            with graph.batch():
                graph.set("a", 2)
                assert graph.pull("b") == 1
            assert graph.pull("b") == 2

    def test_nothing_happens_if_something_is_raised(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            with pytest.raises(ZeroDivisionError):
                self._set_all(graph, {"a": 1}, then=lambda: 1 / 0)
            assert graph.freshness("a") is None
            assert graph.revision == 0
            graph.set("a", 2)
            assert graph.pull("b") == 2

    def test_a_mistake_is_told_at_once(self, calls: Calls) -> None:
        graph = line(calls)
        with pytest.raises(EncodeError), graph.batch():
            graph.set("a", object())

    def test_a_batch_within_a_batch_is_part_of_it(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            with graph.batch():
                graph.set("a", 1)
                with graph.batch():
                    graph.set("e", 2)
                assert graph.revision == 0
            assert graph.revision == 1

    def test_a_batch_within_a_batch_that_is_given_up_leaves_nothing(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            with graph.batch():
                graph.set("a", 1)
                with pytest.raises(ZeroDivisionError):
                    self._set_all(graph, {"e": 2, "a": 3}, then=lambda: 1 / 0)
            assert (graph.revision, graph.pull("a"), graph.freshness("e")) == (1, 1, None)

    def test_a_change_after_the_end_of_the_batch_is_one_of_its_own(self, calls: Calls, store: Any) -> None:
        """A task or thread that was started within a batch takes the batch with it; it may live longer."""
        with line(calls, store) as graph:
            with graph.batch():
                graph.set("a", 1)
                inside = copy_context()
                inside.run(graph.set, "e", 2)  # part of it, as long as it is there
            assert (graph.revision, graph.pull("e")) == (1, 2)
            inside.run(graph.set, "a", 5)
            assert (graph.revision, graph.pull("b")) == (2, 5)
            inside.run(graph.invalidate, "a")
            assert graph.revision == 3
            inside.run(self._set_all, graph, {"a": 6, "e": 7})
            assert (graph.revision, graph.pull("d")) == (4, 13)

    def test_a_change_after_a_batch_that_was_given_up_is_one_of_its_own(
        self, calls: Calls, store: Any
    ) -> None:
        inside = []
        with line(calls, store) as graph:
            with pytest.raises(ZeroDivisionError):
                self._set_all(
                    graph,
                    {"a": 1},
                    then=lambda: inside.append(copy_context()) or 1 / 0,
                )
            inside[0].run(graph.set, "a", 5)
            assert (graph.revision, graph.pull("b")) == (1, 5)

    def test_a_batch_within_that_outlives_the_one_around_it_is_one_of_its_own(
        self, calls: Calls, store: Any
    ) -> None:
        def outlive(graph: DependencyGraph) -> Iterator[None]:
            with graph.batch():
                graph.set("a", 1)
                yield
                graph.set("e", 10)

        with line(calls, store) as graph:
            with graph.batch():
                inside = copy_context()
                life = outlive(graph)
                inside.run(next, life)
                graph.set("other", 3)
            assert (graph.revision, graph.freshness("a")) == (1, None)
            inside.run(next, life, None)
            assert (graph.revision, graph.pull("d")) == (2, 11)

    def test_batches_of_two_graphs(self, calls: Calls) -> None:
        one, other = line(calls), line(calls)
        with one.batch(), other.batch():
            one.set("a", 1)
            other.set("a", 2)
        assert (one.pull("b"), other.pull("b")) == (1, 2)

    def test_an_empty_batch_is_nothing(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            with graph.batch():
                graph.invalidate("a")
            assert graph.revision == 0

    def test_what_comes_later_counts(self, store: Any) -> None:
        seen: list[Any] = []

        def remember(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            seen.append(old)
            return 0

        schemas = [schema("made", (), remember), schema("b", ["s"], remember)]
        with DependencyGraph(schemas, store) as graph:
            with graph.batch():
                graph.set("s", 1)
                graph.set("s", 2)
                graph.invalidate("s")
                graph.set("made", 5)
                graph.invalidate("made")
            assert graph.pull("s") == 2
            assert graph.freshness("made") == STALE
            assert graph.pull("made") == 0
            assert seen == [5]
            with graph.batch():
                graph.set("b", 7)
                graph.invalidate("b")
            assert graph.pull("b") == 0
            assert seen == [5, 7]
            with graph.batch():
                graph.invalidate("b")
                graph.set("b", 8)
            assert graph.freshness("b") == FRESH
            assert graph.pull("b") == 8

    def test_a_source_that_is_set_to_an_equal_value_and_invalidated_counts_as_changed(
        self, calls: Calls, store: Any
    ) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.pull("b")
            calls.take()
            with graph.batch():
                graph.set("a", 1)
                graph.invalidate("a")
            graph.pull("b")
            assert calls.take() == ["b"]

    def test_a_source_that_is_invalidated_and_set_to_an_equal_value_counts_as_changed(
        self, calls: Calls, store: Any
    ) -> None:
        """As if the two came one after the other: an invalidation has dependents computed again."""
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.pull("c")
            calls.take()
            with graph.batch():
                graph.invalidate("a")
                graph.set("a", 1)
            assert graph.pull("c") == 1
            assert calls.take() == ["b"]
            assert graph.revision == 2

    def test_a_value_that_is_again_what_it_was_has_not_changed(self, calls: Calls, store: Any) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.pull("b")
            calls.take()
            with graph.batch():
                graph.set("a", 2)
                graph.set("a", 1)
            assert graph.freshness("b") == STALE
            assert graph.pull("b") == 1
            assert calls.take() == []

    def test_a_computed_node_that_is_invalidated_and_set_to_an_equal_value_has_not_changed(
        self, calls: Calls, store: Any
    ) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            graph.pull("c")
            calls.take()
            with graph.batch():
                graph.invalidate("b")
                graph.set("b", 1)
            assert graph.freshness("b") == FRESH
            assert graph.pull("c") == 1
            assert calls.take() == []

    def test_a_pin_that_is_invalidated_at_once_needs_its_inputs_like_any_pin(
        self, calls: Calls, store: Any
    ) -> None:
        with line(calls, store) as graph:
            with pytest.raises(MissingValueError, match="'a'"):
                self._set_all(graph, {"b": 5}, then=lambda: graph.invalidate("b"))
            assert graph.freshness("b") is None
            with pytest.raises(MissingValueError, match="'a'"):
                graph.pull("b")
            assert calls.take() == []

    def test_a_pin_that_is_invalidated_at_once_is_computed_from_what_is_true_now(
        self, calls: Calls, store: Any
    ) -> None:
        with line(calls, store) as graph:
            graph.set("a", 1)
            assert graph.pull("c") == 1
            graph.set("a", 2)
            calls.take()
            with graph.batch():
                graph.set("c", 5)
                graph.invalidate("c")
            assert calls.take() == ["b"]
            assert [graph.freshness(node) for node in "abc"] == [FRESH, FRESH, STALE]
            assert graph.pull("c") == 2
            assert calls.take() == ["c"]

    def test_what_a_failed_batch_found_to_be_up_to_date_is_found_out_again(self, calls: Calls) -> None:
        graph = DependencyGraph(
            [
                calls.schema("b", ["s"], total),
                calls.schema("c", ["s"], lambda i, o, b: 1 // 0),
                calls.schema("d", ["b", "c"], total),
            ]
        )
        graph.set("s", 1)
        graph.pull("b")
        with pytest.raises(ZeroDivisionError):
            self._set_all(graph, {"d": 5})
        graph.set("s", 2)
        assert graph.pull("b") == 2

    def test_what_a_failed_batch_touched_is_not_touched(self, calls: Calls) -> None:
        names = [f"s{n}" for n in range(20)]  # more than are looked at one by one
        graph = DependencyGraph(
            [
                calls.schema("many", names, total),
                calls.schema("c", ["s0"], lambda i, o, b: 1 // 0),
                calls.schema("d", ["c"], total),
            ]
        )
        self._set_all(graph, dict.fromkeys(names, 1))
        graph.pull("many")
        graph.set("other", 0)
        assert graph.freshness("many") == FRESH
        with pytest.raises(ZeroDivisionError):
            self._set_all(graph, {"s3": 2, "d": 5})
        assert graph.freshness("many") == FRESH
        graph.set("other", 1)
        assert graph.freshness("many") == FRESH

    def test_pins_come_after_what_they_depend_on(self, calls: Calls, store: Any) -> None:
        """d is pinned on the b that is pinned in the same batch, whatever the order; c in between is made of it."""
        with line(calls, store) as graph:
            with graph.batch():
                graph.set("d", 1000)
                graph.set("b", 50)
                graph.set("e", 1)
                graph.set("a", 5)
            assert calls.take() == ["c"]
            assert [graph.freshness(node) for node in "abcde"] == [FRESH] * 5
            assert [graph.pull(node) for node in "abcde"] == [5, 50, 50, 1000, 1]
            assert calls.take() == []

    def test_if_an_input_of_a_pin_fails_nothing_of_the_batch_is_there(self, calls: Calls, store: Any) -> None:
        names = [f"s{n}" for n in range(20)]  # more than are looked at one by one
        schemas = [
            calls.schema("many", names, total),
            calls.schema("b", ["a"], lambda i, o, b: 10 // i[0]),
            calls.schema("c", ["b"], total),
            calls.schema("d", ["c", "many"], total),
        ]
        with DependencyGraph(schemas, store) as graph:
            for name in names:
                graph.set(name, 1)
            graph.set("a", 1)
            assert graph.pull("d") == 30
            revision = graph.revision
            calls.take()
            with pytest.raises(ZeroDivisionError):
                self._set_all(graph, {"s3": 100, "a": 0, "c": 1})
            assert graph.revision == revision
            assert [graph.freshness(node) for node in "abcd"] == [FRESH] * 4
            assert graph.pull("d") == 30
            assert calls.take() == ["b"]
            graph.set("s4", 2)  # the same number of revision, for something else
            assert graph.freshness("c") == FRESH
            assert graph.pull("d") == 31
            assert calls.take() == ["many", "d"]

    def test_a_computor_may_not_use_the_graph(self, store: Any) -> None:
        graph: DependencyGraph

        def sly(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            graph.set("a", 2)

        graph = DependencyGraph([schema("b", ["a"], sly), schema("c", ["b"], total)], store)
        graph.set("a", 1)
        with pytest.raises(DependencyError, match="own graph"), graph.batch():
            graph.set("c", 1)
        graph.close()


class TestAStoreThatDoesNotTakeIt:
    def test_a_set_that_is_not_written_did_not_happen(self, calls: Calls, tmp_path: Any) -> None:
        graph = line(calls, tmp_path / "graph.db")
        graph.set("a", 1)
        graph.set("e", 1)
        graph.pull("d")
        calls.take()
        db = graph._persistence.kv._db
        db.execute("PRAGMA query_only = on")
        for change in (
            lambda: graph.set("a", 2),
            lambda: graph.set("c", 5),
            lambda: graph.invalidate("b"),
        ):
            with pytest.raises(StoreUnavailableError, match="writable"):
                change()
        assert graph.revision == 2
        assert [graph.freshness(node) for node in "abcd"] == [FRESH] * 4
        assert graph.pull("d") == 2
        assert calls.take() == []
        db.execute("PRAGMA query_only = off")
        graph.set("c", 5)
        assert graph.pull("d") == 6
        graph.close()

    def test_what_was_computed_waits_for_the_next_write(self, calls: Calls, tmp_path: Any) -> None:
        path = tmp_path / "graph.db"
        graph = line(calls, path)
        graph.set("a", 1)
        db = graph._persistence.kv._db
        db.execute("PRAGMA query_only = on")
        with pytest.raises(StoreUnavailableError):
            graph.pull("c")
        with pytest.raises(MissingValueError):  # of two errors, the first
            graph.pull("d")
        assert graph.pull("c") == 1
        assert calls.take() == ["b", "c"]
        db.execute("PRAGMA query_only = off")
        graph.set("e", 1)
        graph.close()
        with line(calls, path) as again:
            assert again.pull("d") == 2
            assert calls.take() == ["d"]
