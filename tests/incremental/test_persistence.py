"""A graph in a database: restarts are unobservable, changed schemas are detected, several processes are safe."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import pytest

from clew import DependencyGraph, MemoryStore, PostgresStore, SQLiteStore, schema
from clew.errors import (
    InvalidNodeError,
    MissingValueError,
    StoreCorruptError,
    StoreError,
    StoreVersionError,
)
from clew.incremental import persistence
from clew.stores.factory import open_table
from tests.incremental.counting import Calls, total

FRESH, STALE = "up-to-date", "potentially-outdated"
Opener = Callable[..., DependencyGraph]


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture(params=["file", "sqlite store", "memory store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A place that outlives the graphs on it."""
    if request.param == "file":
        yield tmp_path / "graph.db"
    elif request.param == "memory store":
        yield MemoryStore()
    else:
        store = SQLiteStore(tmp_path / "store.db")
        yield store
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graph.db"


class TestRestart:
    def schemas(self, calls: Calls) -> list[Any]:
        return [
            calls.schema("b", ["a"], total),
            calls.schema("view(x)", ["b"], lambda i, o, b: {"x": b["x"], "b": i[0]}),
            calls.schema("made", (), lambda i, o, b: 5),
            calls.schema("page(x)", ["view(x)", "made"], lambda i, o, b: tuple(i)),
        ]

    def test_nothing_of_it_can_be_seen(self, calls: Calls, store: Any) -> None:
        graph = DependencyGraph(self.schemas(calls), store)
        graph.set("a", 1)
        graph.set("unknown", {"z": 1, "a": 2})
        graph.pull("page(one)")
        graph.pull("page(two)")
        graph.set("view(two)", "pinned")
        graph.set("a", 1)
        graph.pull("page(one)")
        graph.invalidate("made")
        nodes = graph.materialized()
        before = [graph.explain(node) for node in nodes]
        revision = graph.revision
        graph.close()
        calls.take()
        again = DependencyGraph(self.schemas(calls), store)
        assert again.revision == revision
        assert again.materialized() == nodes
        assert [again.explain(node) for node in nodes] == before
        assert calls.take() == []
        assert list(again.pull("unknown")) == ["z", "a"]
        assert again.pull("page(one)") == ({"x": "one", "b": 1}, 5)
        assert calls.take() == ["made"]
        assert again.pull("page(two)") == ({"x": "two", "b": 1}, 5)  # the pin ended when a was touched
        assert calls.take() == ["view(two)", "page(two)"]
        again.close()

    def test_a_pull_that_computes_nothing_writes_nothing(self, calls: Calls, store: Any) -> None:
        graph = DependencyGraph(self.schemas(calls), store)
        graph.set("a", 1)
        graph.pull("page(one)")
        graph.close()
        graph = DependencyGraph(self.schemas(calls), store)
        version = graph._persistence.kv.version()
        graph.pull("page(one)")
        graph.freshness("page(two)")
        graph.explain("page(two)")
        graph.invalidate("page(two)")
        graph.close()
        graph = DependencyGraph(self.schemas(calls), store)
        assert graph._persistence.kv.version() == version
        graph.close()

    def test_a_restart_without_a_close(self, calls: Calls, store: Any) -> None:
        graph = DependencyGraph(self.schemas(calls), store)
        graph.set("a", 1)
        graph.pull("page(one)")
        again = DependencyGraph(self.schemas(calls), store)
        calls.take()
        assert again.pull("page(one)") == ({"x": "one", "b": 1}, 5)
        assert calls.take() == []
        again.set("a", 2)  # the first one notices
        assert graph.freshness("page(one)") == STALE
        assert graph.pull("page(one)") == ({"x": "one", "b": 2}, 5)
        assert again.freshness("page(one)") == FRESH
        again.close()
        graph.close()

    def test_promotions_survive(self, calls: Calls, store: Any) -> None:
        schemas = [
            calls.schema("b", ["a"], total),
            calls.schema("c", ["b"], total),
        ]
        graph = DependencyGraph(schemas, store)
        graph.set("a", 1)
        graph.pull("c")
        graph.set("b", 10)
        graph.close()
        graph = DependencyGraph(schemas, store)
        assert graph.freshness("c") == STALE
        assert graph.pull("c") == 10
        graph.close()

    def test_two_graphs_in_one_place(self, store: Any) -> None:
        one, other = DependencyGraph([], store), DependencyGraph([], store, name="other")
        one.set("a", 1)
        other.set("a", 2)
        assert (one.pull("a"), other.pull("a")) == (1, 2)
        assert (one.revision, other.revision) == (1, 1)
        one.close()
        other.close()

    def test_the_store_of_runs_is_not_disturbed(self, path: Path) -> None:
        from clew import Engine, Graph, node

        @node(output="b")
        def first(a: int) -> int:
            return a + 1

        store = SQLiteStore(path)
        graph = DependencyGraph([schema("x", ["s"], total)], store)
        graph.set("s", 1)
        assert Engine(Graph([first]), store=store).run({"a": 1})["b"] == 2
        assert graph.pull("x") == 1
        graph.close()
        assert [row.status for row in store.rows()] == ["completed"]
        assert list(store.check()) == []
        store.close()


class TestPostgres:
    def test_a_restart(self, calls: Calls, server: Any) -> None:
        place = PostgresStore(server.dsn, schema=f"t_{token_hex(6)}")
        schemas = [calls.schema("view(x)", ["a"], lambda i, o, b: [i[0], b["x"]])]
        graph = DependencyGraph(schemas, place)
        graph.set("a", {"k": 1})
        assert graph.pull("view", "long " * 300) == [{"k": 1}, "long " * 300]
        graph.set("view(y)", "pinned")
        graph.close()
        calls.take()
        again = DependencyGraph(schemas, place)
        assert again.pull("view", "long " * 300) == [{"k": 1}, "long " * 300]
        assert again.pull("view(y)") == "pinned"
        assert calls.take() == []
        with again.batch():
            again.set("a", 2)
            again.set("b", 3)
        assert again.pull("view(y)") == [2, "y"]
        assert len(again.materialized("view(x)")) == 2
        place.close()

    def test_two_processes(self, calls: Calls, server: Any) -> None:
        where = f"t_{token_hex(6)}"
        places = [PostgresStore(server.dsn, schema=where) for _ in range(2)]
        schemas = [calls.schema("b", ["a"], total), calls.schema("c", ["b"], total)]
        one, other = (DependencyGraph(schemas, place) for place in places)
        one.set("a", 1)
        assert other.pull("c") == 1
        other.set("b", 7)
        assert one.freshness("c") == STALE
        assert one.pull("c") == 7
        one.invalidate("b")
        assert other.pull("c") == 1
        assert [graph.revision for graph in (one, other)] == [3, 3]
        for place in places:
            place.close()


class TestChangedSchemas:
    def opened(self, path: Path, *schemas: Any) -> DependencyGraph:
        return DependencyGraph(schemas, path)

    def test_another_version_is_computed_again_and_what_depends_on_it(self, calls: Calls, path: Path) -> None:
        def schemas(version: Any) -> list[Any]:
            return [
                calls.schema("b(x)", ["a"], lambda i, o, b: f"{o} {version}", version=version),
                calls.schema("c(x)", ["b(x)"], lambda i, o, b: i[0].upper()),
                calls.schema("other", ["a"], total),
            ]

        with self.opened(path, *schemas(1)) as graph:
            graph.set("a", 1)
            graph.pull("c(1)")
            graph.pull("c(2)")
            graph.pull("other")
        for _ in range(2):  # opening twice changes it once
            with self.opened(path, *schemas(2)) as graph:
                assert graph.revision == 2
                assert [graph.freshness(n) for n in ("b(1)", "c(1)", "other", "a")] == [
                    STALE,
                    STALE,
                    FRESH,
                    FRESH,
                ]
        calls.take()
        with self.opened(path, *schemas(2)) as graph:
            assert graph.pull("c(1)") == "NONE 1 2"
            assert graph.pull("other") == 1
            assert calls.take() == ["b(1)", "c(1)"]
            assert graph.freshness("c(2)") == STALE
        with self.opened(path, *schemas(2)) as graph:
            assert graph.freshness("c(1)") == FRESH
            assert graph.pull("c(2)") == "NONE 1 2"

    @pytest.mark.parametrize(
        "output, inputs",
        [("view(x)", ["a", "b"]), ("view(x)", ["b"]), ("view(y)", ["a"])],
    )
    def test_other_inputs_or_variables(
        self, calls: Calls, path: Path, output: str, inputs: list[str]
    ) -> None:
        with self.opened(path, calls.schema("view(x)", ["a"], total)) as graph:
            graph.set("a", 1)
            graph.set("b", 10)
            graph.pull("view(v)")
        calls.take()
        with self.opened(path, calls.schema(output, inputs, total)) as graph:
            assert graph.freshness("view(v)") == STALE
            assert graph.pull("view(v)") == sum({"a": 1, "b": 10}[name] for name in inputs)
            assert calls.take() == ["view(v)"]

    def test_inputs_that_were_never_pulled(self, calls: Calls, path: Path) -> None:
        """c gets inputs that are missing, or were left stale long before c and d were last verified."""
        b = calls.schema("b", ["x"], total)
        d = calls.schema("d", ["c"], total)
        with self.opened(path, b, calls.schema("c", ["a"], total), d) as graph:
            graph.set("x", 1)
            graph.pull("b")
            graph.set("x", 2)
            graph.set("a", 1)
            graph.pull("d")
        calls.take()
        for node in ("c", "d"):
            with (
                self.opened(path, b, calls.schema("c", ["b", "y"], total), d) as graph,
                pytest.raises(MissingValueError, match="'y'"),
            ):
                graph.pull(node)
        assert calls.take() == ["b"]
        with self.opened(path, b, calls.schema("c", ["a"], total), d) as graph:
            graph.set("x", 3)
            graph.set("a", 1)
            graph.pull("d")
        calls.take()
        with self.opened(path, b, calls.schema("c", ["b"], total), d) as graph:
            assert graph.pull("d") == 3
            assert calls.take() == ["b", "c", "d"]

    def test_spaces_are_no_change(self, calls: Calls, path: Path) -> None:
        with self.opened(path, calls.schema("view(x)", ["a"], total)) as graph:
            graph.set("a", 1)
            graph.pull("view(v)")
        with self.opened(path, calls.schema("view( x )", ["a()"], total)) as graph:
            assert graph.freshness("view(v)") == FRESH

    def test_a_set_value_outlives_schemas_of_nodes_without_inputs(self, path: Path) -> None:
        made = schema("a", (), lambda i, o, b: 5)
        with self.opened(path, made) as graph:
            graph.set("a", 1)
        with self.opened(path, schema("a", (), made.computor, version=2)) as graph:
            assert graph.pull("a") == 1
        with self.opened(path, schema("b", ["a"], total)) as graph:  # a is an implicit source now
            assert graph.pull("b") == 1
        with self.opened(path, made, schema("b", ["a"], total)) as graph:
            assert (graph.freshness("b"), graph.pull("a")) == (FRESH, 1)

    def test_a_computed_value_does_not(self, calls: Calls, path: Path) -> None:
        with self.opened(path, calls.schema("a", (), lambda i, o, b: 5, version=1)) as graph:
            assert graph.pull("a") == 5
        with self.opened(path, calls.schema("a", (), lambda i, o, b: 6, version=2)) as graph:
            assert graph.freshness("a") == STALE
            assert graph.pull("a") == 6

    def test_a_source_that_gets_a_schema(self, path: Path) -> None:
        seen: list[Any] = []

        def remember(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            seen.append(old)
            return inputs[0]

        with self.opened(path, schema("c", ["b"], total)) as graph:
            graph.set("a", 1)
            graph.set("b", 7)
            assert graph.pull("c") == 7
        with self.opened(path, schema("c", ["b"], total), schema("b", ["a"], remember)) as graph:
            assert [graph.freshness(node) for node in "bc"] == [STALE, STALE]
            assert graph.pull("c") == 1
            assert seen == [7]

    def test_a_derived_atom_that_lost_its_schema_is_unset_until_it_is_set(
        self, calls: Calls, path: Path
    ) -> None:
        c = calls.schema("c", ["b"], total)
        with self.opened(path, calls.schema("b", ["a"], total), c) as graph:
            graph.set("a", 1)
            graph.pull("c")
        with self.opened(path, c) as graph:
            assert graph.freshness("b") is None
            assert graph.freshness("c") == STALE
            with pytest.raises(MissingValueError, match="'b'"):
                graph.pull("c")
            assert graph.orphans() == ["b"]
            assert graph.materialized() == ["a", "c"]
            graph.set("b", 1)
            assert graph.orphans() == []
            calls.take()
            assert graph.pull("c") == 1
        with self.opened(path, c) as graph:
            assert [graph.freshness(node) for node in "abc"] == [FRESH] * 3

    def test_a_source_that_lost_its_computor_is_unset(self, path: Path) -> None:
        with self.opened(path, schema("a", (), lambda i, o, b: 5), schema("b", ["a"], total)) as graph:
            graph.pull("b")
        with self.opened(path, schema("a"), schema("b", ["a"], total)) as graph:
            assert graph.freshness("a") is None
            assert graph.freshness("b") == STALE
            assert graph.materialized() == ["b"]
            with pytest.raises(MissingValueError):
                graph.pull("b")

    def test_orphans_are_dropped_by_prune_and_nothing_else_is(self, path: Path) -> None:
        schemas = [schema("b(x)", ["a"], total), schema("c", ["a"], total), schema("file(x)")]
        with self.opened(path, *schemas) as graph:
            graph.set("a", 1)
            graph.set("file(f)", 2)
            for node in ("b(1)", "b(2)", "c"):
                graph.pull(node)
            graph.set("b(3)", 5)
            assert graph.orphans() == []
        with self.opened(path, schemas[1]) as graph:
            assert graph.orphans() == ["b(1)", "b(2)"]
            with pytest.raises(InvalidNodeError):
                graph.pull("b(1)")
            assert graph.prune() == ["b(1)", "b(2)"]
            assert graph.orphans() == graph.prune() == []
            assert graph.materialized() == ["a", "c"]
        with self.opened(path, *schemas) as graph:
            assert graph.pull("file(f)") == 2
            assert graph.freshness("b(1)") is None
            assert graph.freshness("b(3)") == STALE
            assert graph.freshness("c") == FRESH

    def test_an_input_that_no_schema_matches_any_more(self, path: Path) -> None:
        behind = [schema("g(x)", ["f(x)", "other(x)", "a"], total), schema("h(x)", ["g(x)"], total)]
        with DependencyGraph(
            [schema("f(x)", ["a"], total), schema("other(x)", ["a"], total), *behind], path
        ) as graph:
            graph.set("a", 1)
            graph.pull("h(1)")
            graph.pull("h(2)")
        with DependencyGraph(
            [schema("f(1)", ["a"], total), schema("other(1)", ["a"], total), *behind], path
        ) as graph:
            assert graph.materialized("h(x)") == ["h(1)", "h(2)"]
            for node in ("g(2)", "h(2)"):
                assert graph.freshness(node) == STALE
                explanation = graph.explain(node)
                assert explanation.reason.startswith("it cannot be computed: no schema matches 'f(2)'")
                assert explanation.reason.endswith("it is an input of 'g(2)'")
                assert "potentially-outdated" in str(explanation)
                with pytest.raises(InvalidNodeError, match="an input of 'g\\(2\\)'"):
                    graph.pull(node)
            assert [one.node for one in graph.explain("g(2)").inputs] == ["a"]
            assert "g(2)" in graph.draw(nodes=True).replace("#40;", "(").replace("#41;", ")")
            assert graph.pull("h(1)") == 3
            graph.invalidate("h(2)")
            assert graph.freshness("h(2)") == STALE

    def test_a_new_schema_touches_nothing(self, path: Path) -> None:
        with self.opened(path, schema("b", ["a"], total)) as graph:
            graph.set("a", 1)
            graph.pull("b")
        with self.opened(path, schema("b", ["a"], total), schema("c(x)", ["b"], total)) as graph:
            assert graph.revision == 1
            assert graph.freshness("b") == FRESH


class TestSeveralProcesses:
    def test_each_sees_what_the_other_did(self, calls: Calls, path: Path) -> None:
        schemas = [calls.schema("b", ["a"], total), calls.schema("c(x)", ["b"], total)]
        one, other = DependencyGraph(schemas, path), DependencyGraph(schemas, path)
        one.set("a", 1)
        assert other.pull("c(1)") == 1
        assert one.freshness("c(1)") == FRESH
        with other.batch():
            other.set("a", 2)
            one.set("z", 1)  # while a batch of the other is open
        assert (one.pull("c(1)"), one.pull("z")) == (2, 1)
        other.set("b", 7)
        one.invalidate("c(1)")
        assert other.explain("c(1)").reason.startswith("it was invalidated")
        assert (one.pull("c(1)"), other.pull("c(1)")) == (7, 7)
        one.close()
        other.close()

    def test_another_process_writes_while_the_inputs_of_a_pin_are_computed(self, path: Path) -> None:
        """The inputs that are still to come are those of the graph as it is then."""
        during: list[Callable[[], Any]] = []

        def first(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            while during:
                during.pop()()
            return inputs[0]

        schemas = [schema("b1", ["s"], first), schema("b2", ["s"], total), schema("b3", ["s"], total)]
        schemas.append(schema("d", ["b1", "b2", "b3"], total))
        one, other = DependencyGraph(schemas, path), DependencyGraph(schemas, path)
        one.set("s", 0)
        one.pull("d")
        one.set("s", 1)
        during.append(lambda: other.set("s", 2))
        one.set("d", 100)
        for graph in (one, other, DependencyGraph(schemas, path)):
            assert [graph.pull(node) for node in ("s", "b1", "b2", "b3", "d")] == [2, 2, 2, 2, 100]
            graph.close()

    def test_a_write_between_two_looks_is_refused_and_made_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another process writes after this one has looked, and before it writes."""
        schemas = [schema("b", ["a"], total), schema("c", ["b"], total)]
        one, other = DependencyGraph(schemas, path), DependencyGraph(schemas, path)
        one.set("a", 1)
        one.pull("c")
        look = persistence.GraphPersistence.is_current
        between: list[Callable[[], Any]] = []

        def is_current(stored: persistence.GraphPersistence) -> bool:
            answer = look(stored)
            while stored is one._persistence and between:
                between.pop()()
            return answer

        monkeypatch.setattr(persistence.GraphPersistence, "is_current", is_current)
        between.append(lambda: other.set("a", 2))
        one.set("new", 5)  # a source
        assert (one.pull("a"), one.pull("new"), one.revision) == (2, 5, 3)
        between.append(lambda: other.set("a", 3))
        one.set("c", 50)  # a pin, on the inputs that the other has made stale
        assert (one.freshness("b"), one.pull("b"), one.pull("c")) == (FRESH, 3, 50)
        between.append(lambda: other.set("a", 4))
        one.invalidate("a")
        assert one.pull("c") == 4
        one.set("a", 5)
        between.append(lambda: other.set("a", 6))
        assert one.pull("c") == 6  # what it had read is read again
        one.set("a", 7)
        between.append(lambda: other.pull("c"))  # which the first one then finds done
        assert one.pull("c") == 7
        one.close()
        other.close()

    def test_a_write_while_computors_run(self, path: Path) -> None:
        """The pull answers for the revision that it began with; and nothing of it is kept."""
        other = DependencyGraph([], path)
        meanwhile = [lambda: other.set("a", 2), lambda: None]

        def slow(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            meanwhile.pop(0)()
            return inputs[0]

        with DependencyGraph([schema("b", ["a"], slow), schema("c", ["b"], total)], path) as graph:
            graph.set("a", 1)
            assert graph.pull("c") == 1
            assert graph.freshness("c") is None
            assert graph.pull("c") == 2
        other.close()

    def test_a_write_during_a_prune(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with DependencyGraph([schema("b(x)", ["a"], total)], path) as graph:
            graph.set("a", 1)
            graph.pull("b(1)")
        one, other = DependencyGraph([], path), DependencyGraph([], path)
        drop = persistence.GraphPersistence.drop

        def late(stored: persistence.GraphPersistence, keys: Any) -> None:
            monkeypatch.undo()
            other.set("a", 2)
            drop(stored, keys)

        monkeypatch.setattr(persistence.GraphPersistence, "drop", late)
        assert one.prune() == ["b(1)"]
        assert one.pull("a") == 2
        one.close()
        other.close()

    def test_schemas_that_two_open_at_once(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = persistence.GraphPersistence._schema_changes
        schemas = [schema("b", ["a"], total)]

        def late(stored: persistence.GraphPersistence, *given: Any) -> Any:
            monkeypatch.undo()
            DependencyGraph(schemas, path).close()
            return changed(stored, *given)

        monkeypatch.setattr(persistence.GraphPersistence, "_schema_changes", late)
        with DependencyGraph(schemas, path) as graph:
            graph.set("a", 1)
            assert graph.pull("b") == 1

    def test_processes_that_set_at_once_lose_nothing(self, path: Path) -> None:
        DependencyGraph([], path).close()
        program = (
            "import sys\nfrom clew import DependencyGraph\n"
            f"graph = DependencyGraph([], {str(path)!r})\n"
            "for n in range(30):\n"
            "    graph.set(f'p{sys.argv[1]}_{n}', n)\n"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        processes = [subprocess.Popen([sys.executable, "-c", program, str(n)], env=env) for n in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
        with DependencyGraph([], path) as graph:
            assert graph.revision == 90
            assert len(graph.materialized()) == 90

    def test_a_forked_process(self, path: Path) -> None:
        graph = DependencyGraph([schema("b", ["a"], total)], path)
        graph.set("a", 1)
        graph.pull("b")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                graph.set("a", 2)
                code = 0 if graph.pull("b") == 2 else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert graph.pull("b") == 2
        graph.close()


class TestWriting:
    def test_a_long_pull_is_written_in_parts(self, path: Path) -> None:
        schemas = [schema("n(0)", ["a"], total)]
        schemas += [schema(f"n({n})", [f"n({n - 1})"], total) for n in range(1, 1100)]
        with DependencyGraph(schemas, path) as graph:
            graph.set("a", 1)
            before = graph._persistence.kv.version()
            graph.pull("n(1099)")
            assert graph._persistence.kv.version() >= before + 3

    def test_a_graph_forgets_what_the_database_has(self, calls: Calls, path: Path) -> None:
        schemas = [calls.schema("view(x)", ["a"], total)]
        with DependencyGraph(schemas, path, max_nodes_in_memory=100) as graph:
            graph.set("a", 1)
            for n in range(500):
                graph.pull("view", n)
                assert len(graph._table.nodes) <= 103
            assert len(calls.take()) == 500
            assert [graph.pull("view", n) for n in range(500)] == [1] * 500
            assert calls.take() == []


class TestDamage:
    def write(self, path: Path, key: str, data: bytes) -> None:
        kv = open_table(path, "graph graph")
        kv.write([(key, data)])
        kv.close()

    @pytest.fixture
    def damaged(self, path: Path) -> Iterator[Callable[[str, bytes], DependencyGraph]]:
        schemas = [schema("b", ["a"], total)]
        with DependencyGraph(schemas, path) as graph:
            graph.set("a", 1)
            graph.pull("b")
        opened: list[DependencyGraph] = []

        def damage(key: str, data: bytes) -> DependencyGraph:
            self.write(path, key, data)
            opened.append(DependencyGraph(schemas, path))
            return opened[-1]

        yield damage
        for graph in opened:
            graph.close()

    def test_up_to_date_without_a_value(self, damaged: Any) -> None:
        graph = damaged("n/b", msgspec.msgpack.encode([1, 1, 0, 1, 0, b""]))
        with pytest.raises(StoreCorruptError, match="'b' has no value"):
            graph.pull("b")

    def test_a_row_that_cannot_be_read(self, damaged: Any) -> None:
        graph = damaged("n/b", b"\xc1")
        with pytest.raises(StoreCorruptError, match="'n/b' cannot be read"):
            graph.pull("b")

    def test_a_schema_that_cannot_be_read(self, damaged: Any) -> None:
        with pytest.raises(StoreCorruptError, match="'s/b' cannot be read"):
            damaged("s/b", b"\xc1")

    def test_a_newer_format(self, damaged: Any) -> None:
        with pytest.raises(StoreVersionError):
            damaged("meta", msgspec.msgpack.encode([9, 1]))

    def test_a_flipped_bit(self, path: Path) -> None:
        with DependencyGraph([], path) as graph:
            graph.set("a", "something long enough to be found")
        data = bytearray(path.read_bytes())
        data[data.index(b"long enough")] ^= 1
        path.write_bytes(data)
        with DependencyGraph([], path) as graph, pytest.raises(StoreCorruptError, match="'n/a' is damaged"):
            graph.pull("a")

    def break_row(self, path: Path, key: str) -> None:
        """Change bytes behind the checksum's back."""
        with sqlite3.connect(path) as db:
            assert db.execute("UPDATE kv_rows SET crc = crc + 1 WHERE key = ?", (key,)).rowcount == 1
        db.close()

    @pytest.fixture
    def schemas(self) -> list[Any]:
        return [
            schema("b", ["a"], total),
            schema("c", ["b"], total),
            schema("leaf", (), lambda i, o, b: 7 if o is None else o),
            schema("view(x)", ["c", "leaf"], lambda i, o, b: tuple(i)),
        ]

    @pytest.fixture
    def broken(self, path: Path, schemas: list[Any]) -> Callable[[str], DependencyGraph]:
        def damage(key: str) -> DependencyGraph:
            with DependencyGraph(schemas, path) as graph:
                graph.set("a", 1)
                graph.set("free", 2)
                graph.pull("view(x)")
            self.break_row(path, f"n/{key}")
            return DependencyGraph(schemas, path)

        return damage

    @pytest.mark.parametrize("key", ["a", "b", "leaf", "free"])
    def test_a_value_that_is_set_repairs_it(
        self, broken: Any, path: Path, schemas: list[Any], key: str
    ) -> None:
        with broken(key) as graph:
            with pytest.raises(StoreCorruptError):
                graph.pull(key)
            graph.set(key, 40)
            assert graph.pull(key) == 40
            expected = {"a": (40, 7), "b": (40, 7), "leaf": (1, 40), "free": (1, 7)}[key]
            assert graph.pull("view(x)") == expected
        with DependencyGraph(schemas, path) as graph:
            assert (graph.pull(key), graph.pull("view(x)")) == (40, expected)

    @pytest.mark.parametrize("key", ["b", "leaf"])
    def test_what_is_invalidated_is_computed_again(
        self, broken: Any, path: Path, schemas: list[Any], key: str
    ) -> None:
        with broken(key) as graph:
            graph.invalidate(key)
        with DependencyGraph(schemas, path) as graph:
            assert (graph.freshness(key), graph.freshness("view(x)")) == (None, STALE)
            assert key not in graph.materialized()
            assert graph.pull("view(x)") == (1, 7)
            assert key in graph.materialized()

    def test_a_source_that_is_invalidated_has_to_be_set(
        self, broken: Any, path: Path, schemas: list[Any]
    ) -> None:
        with broken("a") as graph:
            graph.invalidate("a")
            assert graph.explain("a").reason == "it was never set"
        with DependencyGraph(schemas, path) as graph:
            assert (graph.freshness("a"), graph.freshness("c")) == (None, STALE)
            with pytest.raises(MissingValueError):
                graph.pull("c")
            graph.set("a", 2)
            assert graph.pull("c") == 2

    def test_a_repair_that_fails_changes_nothing(self, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any, **__: Any) -> int:
            raise StoreError("disk full")

        with broken("b") as graph:
            with monkeypatch.context() as patch:
                patch.setattr(graph._persistence.kv, "write", full)
                with pytest.raises(StoreError, match="disk full"):
                    graph.invalidate("b")
            with pytest.raises(StoreCorruptError):
                graph.pull("b")

    @pytest.mark.parametrize("key", ["a", "b", "leaf", "free", "view(x)"])
    def test_the_other_nodes_can_be_listed_and_drawn(
        self, broken: Any, path: Path, schemas: list[Any], key: str
    ) -> None:
        with broken(key) as graph:
            assert graph.materialized() == ["a", "b", "c", "free", "leaf", "view(x)"]
            assert graph.orphans() == []
            drawn = graph.draw("svg", nodes=True)
            assert "checksum mismatch" in drawn
            assert all(name in drawn for name in graph.materialized())
        with DependencyGraph([*schemas[:3], schema("free", (), total), schema("other(x)")], path) as graph:
            assert graph.orphans() == ([] if key == "view(x)" else ["view(x)"])

    def test_a_place_that_is_none(self) -> None:
        with pytest.raises(StoreError, match="expected None, a path"):
            DependencyGraph([], 5)

    def test_a_file_of_another_program(self, path: Path) -> None:
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE theirs (x)")
        db.close()
        with pytest.raises(StoreError, match="another program"):
            DependencyGraph([], path)


class TestThreads:
    @pytest.mark.parametrize("is_kept", [False, True])
    def test_pulls_and_sets_from_several_threads(self, path: Path, is_kept: bool) -> None:
        schemas = [
            schema("sum", ["a", "b"], total),
            schema("twice", ["sum"], lambda i, o, b: 2 * i[0]),
            schema("view(x)", ["twice", "sum"], lambda i, o, b: (i[0], i[1])),
        ]
        graph = DependencyGraph(schemas, path if is_kept else None)
        with graph.batch():
            graph.set("a", 0)
            graph.set("b", 0)
        errors: list[Any] = []

        def change() -> None:
            for n in range(60):
                with graph.batch():
                    graph.set("a", n)
                    graph.set("b", -n)

        def look() -> None:
            for n in range(60):
                if graph.pull("view", n % 7) != (0, 0) or graph.pull("twice") != 0:
                    errors.append(n)

        threads = [threading.Thread(target=work) for work in (change, change, look, look)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert graph.revision == 121
        graph.close()


def test_a_database_that_lost_its_revision_is_damaged(path: Path) -> None:
    """Counting from 0 again would find old values to be newer than what is set."""
    schemas = [schema("b", ["a"], total)]
    with DependencyGraph(schemas, path) as graph:
        graph.set("a", 1)
        graph.pull("b")
        graph._persistence.kv.write([("meta", None)])
    with pytest.raises(StoreCorruptError, match="revision"):
        DependencyGraph(schemas, path)


def test_arrays_and_bytes_are_stored_as_they_are(tmp_path: Path) -> None:
    import numpy as np

    content, path = bytes(range(256)) * 1024, tmp_path / "graph.db"
    array = np.arange(100_000, dtype="int64")
    calls: list[str] = []

    def double(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        calls.append("double")
        return inputs[0] * 2

    def opened() -> DependencyGraph:
        return DependencyGraph([schema("double", ["array"], double)], path)

    with opened() as graph:
        graph.set("array", array)
        graph.set("content", content)
        assert (graph.pull("double") == array * 2).all()
    with opened() as graph:
        assert graph.pull("content") == content
        assert (graph.pull("array") == array).all()
        assert (graph.pull("double") == array * 2).all()
        assert calls == ["double"]
        graph.set("array", array.copy())
        assert (graph.pull("double") == array * 2).all()
        assert calls == ["double"]
        graph.set("array", array + 1)
        assert (graph.pull("double") == (array + 1) * 2).all()
    size = sum(file.stat().st_size for file in tmp_path.iterdir() if file.is_file())
    assert size < 1.15 * (2 * array.nbytes + len(content)) + 200_000
    with sqlite3.connect(path) as db:
        rows = [row for table in _tables(db) for row in db.execute(f'SELECT * FROM "{table}"')]
    db.close()
    assert any(content in bytes(cell) for row in rows for cell in row if isinstance(cell, bytes))


def _tables(db: sqlite3.Connection) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def test_large_values_that_differ_only_in_the_order_of_dicts_are_equal(tmp_path: Path) -> None:
    import numpy as np

    calls: list[str] = []

    def name(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> list[str]:
        calls.append("names")
        return sorted(inputs[0])

    rows = {f"row {number}": {"n": number} for number in range(10_000)}  # large JSON, without large contents
    arrays = {name: np.full(10_000, name == "b") for name in "ab"} | {"text": "t" * 100_000}
    with DependencyGraph([schema("names", ["x"], name)], tmp_path / "graph.db") as graph:
        for value in (rows, arrays):
            graph.set("x", value)
            assert graph.pull("names") == sorted(value)
            seen = len(calls)
            graph.set("x", dict(reversed(value.items())))
            graph.pull("names")
            assert len(calls) == seen
        arrays["a"][0] = True
        graph.set("x", arrays)
        graph.pull("names")
        assert len(calls) == 3


def test_a_comparison_of_large_values_does_not_encode_their_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    with DependencyGraph([], tmp_path / "graph.db") as graph:
        graph.set("x", [np.zeros(100_000)])
        monkeypatch.setattr(
            "clew.state.values.scalars.base64", lambda *_: pytest.fail("the array became Base64")
        )
        graph.set("x", [np.ones(100_000)])
        assert graph.pull("x")[0][0] == 1.0
