"""Async pulls: what runs concurrently, what is joined, and what is stored when values are set during a pull.

No test sleeps: async computors wait at gates that the test opens.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, Unchanged, schema
from clew.errors import DependencyError, InvalidUnchangedError, MissingValueError, StoreUnavailableError
from clew.incremental import persistence
from tests.incremental.counting import total

FRESH, STALE = "up-to-date", "potentially-outdated"


class Gates:
    """Computors that say that they have begun, and wait until they are let through."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.most = 0
        self._open: dict[str, asyncio.Event] = {}
        self._arrived: dict[str, asyncio.Event] = {}
        self.values: dict[str, Any] = {}

    def _gate(self, gates: dict[str, asyncio.Event], name: str) -> asyncio.Event:
        return gates.setdefault(name, asyncio.Event())

    def schema(self, output: str, inputs: list[str], **more: Any) -> Any:
        async def computor(given: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            name = output.partition("(")[0] + "".join(f"({value})" for value in bindings.values())
            self.begun.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
            self._gate(self._arrived, name).set()
            try:
                await self._gate(self._open, name).wait()
            finally:
                self.running -= 1
            value = self.values.get(name, sum(given))
            if isinstance(value, Exception):
                raise value
            return value

        return schema(output, inputs, computor, **more)

    async def arrival(self, *names: str) -> None:
        """Return when these computors have begun."""
        for name in names:
            await self._gate(self._arrived, name).wait()

    def open(self, *names: str) -> None:
        for name in names:
            self._gate(self._open, name).set()

    def shut(self, name: str) -> None:
        self._gate(self._open, name).clear()
        self._gate(self._arrived, name).clear()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return None if request.param == "memory" else tmp_path / "graph.db"


class TestPulling:
    def test_sync_and_async_computors_together(self, store: Any) -> None:
        async def later(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            await asyncio.sleep(0)
            return {"x": bindings["x"], "n": inputs[0]}

        class Awaitable:
            def __await__(self) -> Any:
                yield
                return 100

        schemas = [
            schema("b", ["a"], total),
            schema("view(x)", ["b"], later),
            schema("odd", ["b"], lambda i, o, b: Awaitable()),
            schema("page(x)", ["view(x)", "odd", "b"], lambda i, o, b: [i[0]["n"], i[1], i[2]]),
        ]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                await graph.aset("a", 1)
                assert await graph.apull("page(x)") == [1, 100, 1]
                assert await graph.apull("page", "x") == [1, 100, 1]
                assert graph.freshness("view(x)") == FRESH
                graph.set("a", 2)
                assert await graph.apull("page(x)") == [2, 100, 2]
                assert graph.pull("page(x)") == [2, 100, 2]
                graph.set("a", 2)
                assert await graph.apull("page(x)") == [2, 100, 2]

        run(test())

    def test_independent_inputs_run_at_the_same_time(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"]), gates.schema("c", ["a"]), schema("d", ["b", "c"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                pull = asyncio.create_task(graph.apull("d"))
                await gates.arrival("b", "c")
                assert gates.running == 2
                gates.open("c", "b")
                assert await pull == 2

        run(test())

    def test_not_more_than_the_bound(self, gates: Gates) -> None:
        schemas = [
            gates.schema("n(x)", ["a"]),
            schema("all", [f"n({x})" for x in range(20)], total),
        ]

        async def test() -> None:
            graph = DependencyGraph(schemas, max_concurrency=3)
            graph.set("a", 1)
            pulls = [asyncio.create_task(graph.apull("all")), asyncio.create_task(graph.apull("n(19)"))]
            while gates.running < 3:
                await asyncio.sleep(0)
            for _ in range(10):  # no other computor begins
                await asyncio.sleep(0)
            assert gates.running == 3
            gates.open(*(f"n({x})" for x in range(20)))
            assert await asyncio.gather(*pulls) == [20, 1]
            assert gates.most == 3
            assert sorted(gates.begun) == sorted(f"n({x})" for x in range(20))

        run(test())

    def test_a_long_chain(self) -> None:
        async def later(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return inputs[0] + 1

        schemas = [schema("n0", ["a"], later)]
        schemas += [schema(f"n{n}", [f"n{n - 1}"], later) for n in range(1, 5_000)]

        async def test() -> None:
            graph = DependencyGraph(schemas)
            graph.set("a", 0)
            assert await graph.apull("n4999") == 5_000

        run(test())

    def test_a_computor_may_not_use_its_graph(self) -> None:
        graph: DependencyGraph

        async def sly(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return await graph.apull("a")

        async def test() -> None:
            nonlocal graph
            graph = DependencyGraph(
                [schema("b", ["a"], sly), schema("c", ["a"], lambda i, o, b: graph.pull("a"))]
            )
            graph.set("a", 1)
            for node in ("b", "c"):
                with pytest.raises(DependencyError, match="own graph"):
                    await graph.apull(node)
            assert await graph.apull("a") == 1

        run(test())


class TestFailing:
    def test_what_runs_beside_a_failure_is_kept(self, gates: Gates, store: Any) -> None:
        schemas = [
            gates.schema("b", ["a"]),
            gates.schema("photo(p)", ["a"]),
            gates.schema("later", ["b"]),
            schema("d", ["b", "photo(1)", "later"], total),
        ]
        gates.values["photo(1)"] = ValueError("no such photo")

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                pull = asyncio.create_task(graph.apull("d"))
                await gates.arrival("b", "photo(1)")
                gates.open("photo(1)")
                while gates.running > 1:
                    await asyncio.sleep(0)
                gates.open("b")
                with pytest.raises(ValueError, match="no such photo") as caught:
                    await pull
                assert caught.value.__notes__ == ["raised by the computor of 'photo(1)' with {'p': 1}"]
                assert graph.freshness("b") == FRESH
                assert graph.freshness("photo(1)") is None
                assert "later" not in gates.begun
                gates.values.clear()
                gates.open("later")
                assert await graph.apull("d") == 3
                assert gates.begun.count("b") == 1

        run(test())

    def test_two_failures(self, gates: Gates) -> None:
        schemas = [gates.schema("b", ["a"]), gates.schema("c", ["a"]), schema("d", ["b", "c"], total)]
        gates.values.update(b=ValueError("b"), c=ValueError("c"))

        async def test() -> None:
            graph = DependencyGraph(schemas)
            graph.set("a", 1)
            gates.open("b", "c")
            with pytest.raises(ValueError, match=r"^[bc]"):
                await graph.apull("d")

        run(test())

    def test_each_way_to_fail(self) -> None:
        def fails(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            raise ValueError("sync")

        async def unchanged(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return Unchanged

        async def test() -> None:
            graph = DependencyGraph(
                [
                    schema("b", ["a"], fails),
                    schema("c", ["a"], unchanged),
                    schema("d", ["c", "missing"], total),
                ]
            )
            with pytest.raises(MissingValueError, match="'a'"):
                await graph.apull("b")
            graph.set("a", 1)
            with pytest.raises(ValueError, match="sync") as caught:
                await graph.apull("b")
            assert caught.value.__notes__ == ["raised by the computor of 'b'"]
            with pytest.raises(InvalidUnchangedError):
                await graph.apull("c")
            graph.set("c", 5)
            graph.set("a", 2)
            assert await graph.apull("c") == 5

        run(test())

    def test_a_computor_that_is_cancelled_from_within(self, gates: Gates) -> None:
        async def gives_up(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            raise asyncio.CancelledError

        async def test() -> None:
            graph = DependencyGraph(
                [schema("b", ["a"], gives_up), gates.schema("c", ["a"]), schema("d", ["b", "c"], total)]
            )
            graph.set("a", 1)
            gates.open("c")
            with pytest.raises(asyncio.CancelledError):
                await graph.apull("d")
            assert graph.freshness("c") == FRESH

        run(test())

    def test_a_pull_that_is_cancelled(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"]), gates.schema("c", ["a"]), schema("d", ["b", "c"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                pull = asyncio.create_task(graph.apull("d"))
                await gates.arrival("b", "c")
                gates.open("b")
                while gates.running > 1:
                    await asyncio.sleep(0)
                pull.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await pull
                assert gates.running == 0
                assert graph._running == {}
                assert graph.freshness("b") == FRESH
                gates.open("c")
                assert await graph.apull("d") == 2
                assert gates.begun.count("b") == 1

        run(test())

    def test_a_pull_that_is_cancelled_while_it_waits_for_its_turn(self, gates: Gates) -> None:
        async def test() -> None:
            graph = DependencyGraph(
                [gates.schema("b", ["a"]), schema("c", ["a"], lambda i, o, b: _answer())], max_concurrency=1
            )
            graph.set("a", 1)
            first = asyncio.create_task(graph.apull("b"))
            await gates.arrival("b")
            second = asyncio.create_task(graph.apull("c"))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            gates.open("b")
            assert await first == 1

        run(test())

    def test_a_store_that_does_not_take_it(self, gates: Gates, tmp_path: Path) -> None:
        schemas = [gates.schema("b", ["a"]), schema("c", ["b", "missing"], total)]

        async def test() -> None:
            graph = DependencyGraph(schemas, tmp_path / "graph.db")
            graph.set("a", 1)
            db = graph._persistence.kv._db
            db.execute("PRAGMA query_only = on")
            gates.open("b")
            with pytest.raises(MissingValueError):  # of two errors, the first
                await graph.apull("c")
            with pytest.raises(StoreUnavailableError):
                graph.set("a", 2)
            assert await graph.apull("b") == 1
            db.execute("PRAGMA query_only = off")
            graph.set("a", 2)
            db.execute("PRAGMA query_only = on")
            with pytest.raises(StoreUnavailableError):
                await graph.apull("b")
            db.execute("PRAGMA query_only = off")
            assert await graph.apull("b") == 2
            graph.close()

        run(test())


async def _answer() -> int:
    return 1


class TestMeanwhile:
    def test_a_running_computation_is_joined(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"]), schema("c", ["b"], total), schema("d", ["b"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                pulls = [asyncio.create_task(graph.apull(node)) for node in ("b", "c", "d")]
                await gates.arrival("b")
                graph.set("unrelated", 1)
                late = asyncio.create_task(graph.apull("c"))
                await asyncio.sleep(0)
                gates.open("b")
                assert await asyncio.gather(*pulls, late) == [1, 1, 1, 1]
                assert gates.begun == ["b"]
                assert graph.freshness("d") == FRESH

        run(test())

    def test_it_is_not_joined_when_a_source_was_touched(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"])]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                first = asyncio.create_task(graph.apull("b"))
                await gates.arrival("b")
                graph.set("a", 2)
                second = asyncio.create_task(graph.apull("b"))
                while len(gates.begun) < 2:
                    await asyncio.sleep(0)
                gates.open("b")
                assert await first == 1  # for the revision that it began with
                assert await second == 2
                assert gates.begun == ["b", "b"]
                assert graph.pull("b") == 2
                assert graph.freshness("b") == FRESH

        run(test())

    def test_a_failure_is_shared_and_a_cancellation_is_not(self, gates: Gates) -> None:
        async def test() -> None:
            graph = DependencyGraph([gates.schema("b", ["a"])])
            graph.set("a", 1)
            first, second = (asyncio.create_task(graph.apull("b")) for _ in range(2))
            await gates.arrival("b")
            gates.values["b"] = ValueError("shared")
            gates.open("b")
            for pull in (first, second):
                with pytest.raises(ValueError, match="shared"):
                    await pull
            assert gates.begun == ["b"]
            gates.values.clear()
            gates.shut("b")
            first, second = (asyncio.create_task(graph.apull("b")) for _ in range(2))
            await gates.arrival("b")
            await asyncio.sleep(0)
            gates.shut("b")
            first.cancel()
            await gates.arrival("b")  # the second one computes it itself
            gates.open("b")
            assert await second == 1
            assert first.cancelled()

        run(test())

    def test_a_cancelled_computation_of_a_sync_computor_is_made_by_who_joined(self) -> None:
        """The computor answers at once the second time."""
        arrived = asyncio.Event()
        answers: list[Any] = []

        def mixed(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            return answers.pop()

        async def forever() -> None:
            arrived.set()
            await asyncio.Event().wait()

        async def test() -> None:
            answers.extend([7, forever()])
            graph = DependencyGraph([schema("b", ["a"], mixed)])
            graph.set("a", 1)
            first, second = (asyncio.create_task(graph.apull("b")) for _ in range(2))
            await arrived.wait()
            await asyncio.sleep(0)
            first.cancel()
            assert await second == 7

        run(test())

    def test_an_older_pull_does_not_overwrite_a_newer_one(self, gates: Gates, store: Any) -> None:
        """And nothing that it computes from the refused value is stored, though it is answered."""
        schemas = [gates.schema("b", ["a"]), gates.schema("c", ["b"]), schema("d", ["c"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                old = asyncio.create_task(graph.apull("d"))
                await gates.arrival("b")
                graph.set("b", 50)  # a pin, while b is being computed: its inputs are up to date
                gates.open("b", "c")
                assert await old == 1
                assert (graph.pull("b"), graph.freshness("c")) == (50, None)
                assert await graph.apull("d") == 50

        run(test())

    def test_an_invalidation_during_a_pull_stays(self, gates: Gates, store: Any) -> None:
        async def test() -> None:
            with DependencyGraph([gates.schema("b", ["a"])], store) as graph:
                graph.set("a", 1)
                gates.open("b")
                await graph.apull("b")
                gates.shut("b")
                graph.set("a", 2)
                pull = asyncio.create_task(graph.apull("b"))
                await gates.arrival("b")
                graph.invalidate("b")
                gates.open("b")
                assert await pull == 2
                assert graph.freshness("b") == STALE
                assert graph.explain("b").verified_at == 2

        run(test())

    def test_whether_a_value_changed_is_judged_when_it_is_written(self, gates: Gates) -> None:
        """Two pulls of two revisions compute b; the older one is written first, and changes it."""
        schemas = [gates.schema("b", ["a"]), schema("c", ["b"], total)]

        async def test() -> None:
            graph = DependencyGraph(schemas)
            gates.open("b")
            graph.set("a", 1)
            assert await graph.apull("c") == 1
            gates.shut("b")
            graph.set("a", 2)
            older = asyncio.create_task(graph.apull("b"))
            await gates.arrival("b")
            graph.set("a", 1)
            newer = asyncio.create_task(graph.apull("b"))
            while len(gates.begun) < 3:
                await asyncio.sleep(0)
            gates.open("b")
            assert await asyncio.gather(older, newer) == [2, 1]
            assert graph.explain("b").changed_at == 3  # 1, then 2, then 1 again
            assert await graph.apull("c") == 1

        run(test())

    def test_two_pulls_of_one_revision_stamp_once(self, gates: Gates) -> None:
        schemas = [
            schema("even", ["a"], lambda i, o, b: i[0] % 2),
            gates.schema("b", ["even", "x"]),
            schema("c", ["b", "even"], total),
        ]

        async def test() -> None:
            graph = DependencyGraph(schemas)
            graph.set("a", 2)
            graph.set("x", 1)
            gates.open("b")
            assert await graph.apull("c") == 1
            gates.shut("b")
            graph.set("x", 2)
            one = asyncio.create_task(graph.apull("c"))
            await gates.arrival("b")
            two = asyncio.create_task(graph.apull("c"))
            await asyncio.sleep(0)
            gates.open("b")
            assert await asyncio.gather(one, two) == [2, 2]
            assert gates.begun == ["b", "b"]

        run(test())

    def test_a_write_of_another_process_during_a_pull(self, gates: Gates, tmp_path: Path) -> None:
        schemas = [gates.schema("b", ["a"])]
        path = tmp_path / "graph.db"

        async def test() -> None:
            graph, other = DependencyGraph(schemas, path), DependencyGraph(schemas, path)
            graph.set("a", 1)
            pull = asyncio.create_task(graph.apull("b"))
            await gates.arrival("b")
            other.set("a", 2)
            assert graph.pull("a") == 2  # which notices, and reads all again
            gates.open("b")
            assert await pull == 1
            assert graph.freshness("b") is None
            assert await graph.apull("b") == 2
            graph.close()
            other.close()

        run(test())

    def test_a_write_of_another_process_while_rows_are_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows of two revisions are not mixed: they are read again, and the node may turn out to be up to date."""
        path = tmp_path / "graph.db"
        schemas = [schema("b", ["a"], total)]

        async def test() -> None:
            graph, other = DependencyGraph(schemas, path), DependencyGraph(schemas, path)
            for value, computes in ((1, False), (2, True)):
                other.set("a", value)
                load = persistence.GraphPersistence.load

                def late(
                    stored: persistence.GraphPersistence,
                    key: str,
                    load: Any = load,
                    computes: bool = computes,
                ) -> Any:
                    row = load(stored, key)
                    if stored is graph._persistence and key == "b":
                        monkeypatch.undo()
                        other.set("a", 10)
                        if computes:
                            other.pull("b")
                    return row

                monkeypatch.setattr(persistence.GraphPersistence, "load", late)
                assert await graph.apull("b") == 10
            graph.close()
            other.close()

        run(test())

    def test_a_computation_in_another_event_loop_is_not_joined(self) -> None:
        entered, leave = threading.Event(), threading.Event()
        begun: list[int] = []

        async def slow(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            begun.append(threading.get_ident())
            if len(begun) == 1:
                entered.set()
                await asyncio.to_thread(leave.wait)
            return inputs[0]

        graph = DependencyGraph([schema("b", ["a"], slow)])
        graph.set("a", 1)
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(asyncio.run(graph.apull("b"))))
        thread.start()
        entered.wait()
        assert asyncio.run(graph.apull("b")) == 1
        leave.set()
        thread.join()
        assert answers == [1]
        assert len(begun) == 2

    def test_many_sources(self, gates: Gates) -> None:
        """A computation is joined, or not, also where sources are bits."""
        names = [f"s{n}" for n in range(30)]

        async def test() -> None:
            graph = DependencyGraph([gates.schema("b", names), schema("c", ["b"], total)])
            for name in names:
                graph.set(name, 1)
            one = asyncio.create_task(graph.apull("c"))
            await gates.arrival("b")
            two = asyncio.create_task(graph.apull("c"))
            await asyncio.sleep(0)
            graph.set("s9", 2)
            three = asyncio.create_task(graph.apull("c"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gates.open("b")
            assert await asyncio.gather(one, two, three) == [30, 30, 31]
            assert gates.begun == ["b", "b"]

        run(test())


class TestSetting:
    def test_a_pin_on_async_inputs(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"]), schema("c", ["b"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                with pytest.raises(DependencyError, match="async"):
                    graph.set("c", 5)
                gates.open("b")
                await graph.aset("c", 5)
                assert [graph.freshness(node) for node in "bc"] == [FRESH, FRESH]
                assert graph.pull("c") == 5

        run(test())

    def test_it_begins_again_when_an_input_became_stale(self, gates: Gates, store: Any) -> None:
        schemas = [gates.schema("b", ["a"]), schema("c", ["b"], total)]

        async def test() -> None:
            with DependencyGraph(schemas, store) as graph:
                graph.set("a", 1)
                pin = asyncio.create_task(graph.aset("c", value=5))
                await gates.arrival("b")
                graph.set("a", 2)
                gates.open("b")
                await pin
                assert gates.begun == ["b", "b"]
                assert [graph.freshness(node) for node in "bc"] == [FRESH, FRESH]
                assert (graph.pull("b"), graph.pull("c")) == (2, 5)

        run(test())

    def test_if_an_input_fails_nothing_is_pinned(self, gates: Gates) -> None:
        async def test() -> None:
            graph = DependencyGraph([gates.schema("b", ["a"]), schema("c", ["b"], total)])
            graph.set("a", 1)
            gates.values["b"] = ValueError("no")
            gates.open("b")
            with pytest.raises(ValueError, match="no"):
                await graph.aset("c", 5)
            assert graph.freshness("c") is None

        run(test())

    def test_within_a_batch_it_waits_for_the_end(self) -> None:
        async def test() -> None:
            graph = DependencyGraph([schema("b", ["a"], total)])
            with graph.batch():
                await graph.aset("b", 5)
                await graph.aset("a", 1)
                assert graph.revision == 0
            assert (graph.pull("a"), graph.pull("b"), graph.revision) == (1, 5, 1)

        run(test())

    def test_a_task_that_outlives_a_batch_loses_nothing(self) -> None:
        async def test() -> None:
            graph = DependencyGraph([schema("b", ["a"], total)])
            is_over = asyncio.Event()

            async def later() -> None:
                await is_over.wait()
                await graph.aset("a", 2)
                await graph.aset("b", 7)

            with graph.batch():
                graph.set("a", 1)
                task = asyncio.create_task(later())
            is_over.set()
            await task
            assert (graph.pull("a"), graph.pull("b"), graph.revision) == (2, 7, 3)

        run(test())
