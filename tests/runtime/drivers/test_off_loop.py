"""Nothing waits for a store on the event loop: not while a run is opened, nor while it runs, nor at its end.

No test looks at a clock. The store is let go when the loop has ticked a number of times while somebody waited for it; a
loop that waits itself never ticks, and the store's own patience ends in an error.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    PostgresStore,
    RunResult,
    SideEffectPolicy,
    SQLiteStore,
    node,
    route,
)
from clew.errors import InputError, StoreUnavailableError
from clew.runtime.process.thread_pool import DaemonThreadPool
from clew.runtime.reporting.events import Event
from clew.stores import WouldWait
from tests.stores.servers import PostgresServer

TICKS = 20


class Gate:
    """A store that keeps everybody waiting, from `shut` until the loop has ticked."""

    def __init__(self, shut: Callable[[], None], open_again: Callable[[], None]) -> None:
        self._shut, self._open = shut, open_again
        self.is_shut = False
        self._ticking: asyncio.Task[None] | None = None

    def shut(self) -> None:
        """On the loop: from now on the store does not answer."""
        self._shut()
        self.is_shut = True
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        for _ in range(TICKS):
            await asyncio.sleep(0.002)
        self.is_shut = False
        await asyncio.to_thread(self._open)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def locked(path: Path) -> Iterator[Gate]:
    """A writer of another program, at a SQLite file."""
    with closing(SQLiteStore(path)):
        pass
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        yield Gate(
            lambda: other.execute("BEGIN IMMEDIATE") and None, lambda: other.execute("COMMIT") and None
        )


def visiting(gate: Gate, seen: list[Any], shut_in: str) -> Callable[[str], None]:
    """What a node does: it notes whether the store is shut, and shuts it if it is the one to do so."""

    def visit(name: str) -> None:
        seen.append((name, gate.is_shut))
        if name == shut_in:
            gate.shut()

    return visit


def steps(gate: Gate, seen: list[Any], *, shut_in: str = "") -> Graph:
    """A chain of async nodes with a context."""
    visit = visiting(gate, seen, shut_in)

    @node(output="b")
    async def first(a: int, ctx: Context) -> int:
        visit("first")
        return a + 1

    @node(output="c")
    async def second(b: int, ctx: Context) -> int:
        visit("second")
        return b + 1

    @node(output="d")
    async def third(c: int, ctx: Context) -> int:
        visit("third")
        return c + 1

    return Graph([first, second, third])


def plain_steps(gate: Gate, seen: list[Any], *, shut_in: str = "") -> Graph:
    """A chain of async nodes without one: these are awaited in place, one after the other."""
    visit = visiting(gate, seen, shut_in)

    @node(output="b")
    async def first(a: int) -> int:
        visit("first")
        return a + 1

    @node(output="c")
    async def second(b: int) -> int:
        visit("second")
        return b + 1

    @node(output="d")
    async def third(c: int) -> int:
        visit("third")
        return c + 1

    return Graph([first, second, third])


IN_ORDER = [("first", False), ("second", False), ("third", False)]


@pytest.mark.parametrize("make", [steps, plain_steps])
@pytest.mark.parametrize("shut_in", ["first", "third"])
def test_a_step_waits_for_its_commit_beside_the_loop(
    path: Path, locked: Gate, make: Callable[..., Graph], shut_in: str
) -> None:
    """Also the last one, and the end of the run; and no step is seen by the next before it is committed."""
    seen: list[Any] = []
    with Engine(make(locked, seen, shut_in=shut_in), store=SQLiteStore(path)) as engine:
        result = asyncio.run(engine.arun({"a": 1}, run_id="r"))
        assert (result.status, result["d"]) == ("completed", 4)
        assert engine.result("r")["d"] == 4
    assert seen == IN_ORDER


def opening(engine: Engine, verb: str) -> Any:
    if verb == "arun":
        return engine.arun({"a": 1}, run_id="new")
    if verb == "aresume":
        return engine.aresume("failed")
    if verb == "afork":
        return engine.afork("done", step=1, run_id="new")
    return engine.arerun("done", run_id="new")


@pytest.mark.parametrize("verb", ["arun", "aresume", "afork", "arerun"])
def test_a_run_is_opened_beside_the_loop(path: Path, locked: Gate, verb: str) -> None:
    seen: list[Any] = []
    fails: list[bool] = []

    @node(output="b")
    async def first(a: int) -> int:
        if fails:
            raise ValueError("not yet")
        seen.append(locked.is_shut)
        return a + 1

    async def main() -> RunResult:
        locked.shut()
        result: RunResult = await opening(engine, verb)
        return result

    with Engine(Graph([first]), store=SQLiteStore(path)) as engine:
        assert engine.run({"a": 1}, run_id="done").status == "completed"
        fails.append(True)
        assert engine.run({"a": 1}, run_id="failed", check=False).status == "failed"
        fails.clear()
        seen.clear()
        result = asyncio.run(main())
        assert (result.status, result["b"]) == ("completed", 2)
    assert True not in seen


def test_a_result_that_is_there_is_read_beside_the_loop(open_postgres: Callable[[], PostgresStore]) -> None:
    here: list[int] = []

    class Noted(PostgresStore):
        def row(self, run_id: str) -> Any:
            here.append(threading.get_ident())
            return super().row(run_id)

    @node(output="b")
    def first(a: int) -> int:
        return a + 1

    store = open_postgres()
    store.__class__ = Noted
    with Engine(Graph([first]), store=store) as engine:
        engine.run({"a": 1}, run_id="r")
        here.clear()
        assert asyncio.run(engine.aresume("r"))["b"] == 2
    assert here
    assert threading.get_ident() not in here


def test_a_stream_tells_of_a_step_when_it_is_committed(path: Path, locked: Gate) -> None:
    seen: list[Any] = []
    told: list[tuple[str, bool]] = []

    async def main() -> None:
        event: Event
        async for event in engine.astream({"a": 1}, run_id="r"):
            told.append((event.kind, locked.is_shut))

    with Engine(steps(locked, seen, shut_in="first"), store=SQLiteStore(path)) as engine:
        asyncio.run(main())
    assert [shut for kind, shut in told if kind == "step_committed"] == [False, False, False]
    assert [kind for kind, _ in told][-1] == "run_finished"
    assert seen == IN_ORDER


def test_a_stream_that_cannot_be_opened_raises(path: Path) -> None:
    async def main(engine: Engine) -> None:
        async for _ in engine.astream({"a": 1}, run_id=""):
            pass

    engine = Engine(Graph([node(lambda a: a, name="same")]), store=SQLiteStore(path))
    with engine, pytest.raises(InputError):
        asyncio.run(main(engine))


@pytest.mark.parametrize("on_ambiguous", ["retry", "fail"])
def test_a_recorded_call_is_kept_beside_the_loop(path: Path, locked: Gate, on_ambiguous: str) -> None:
    order: list[Any] = []

    async def call(name: str) -> str:
        order.append((name, locked.is_shut))
        return name

    @node(output="b", side_effects=SideEffectPolicy(recordable=True))
    async def first(a: int, ctx: Context) -> str:
        locked.shut()
        one = await ctx.record("one", call, "one")  # its recording waits, and the node for it
        two = await ctx.record("two", call, "two")
        return one + two

    with Engine(Graph([first]), store=SQLiteStore(path), on_ambiguous=on_ambiguous) as engine:
        result = asyncio.run(engine.arun({"a": 1}, run_id="r"))
        assert result["b"] == "onetwo"
        assert [entry.n for entry in engine.store.find("r", "call", "first#0")] == [0, 1]
    assert order[1] == ("two", False)


def test_recordings_of_an_earlier_process_are_read_beside_the_loop(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[bool] = []
    store = SQLiteStore(path)
    fails = [True]

    async def call() -> str:
        return "called"

    @node(output="b")
    async def first(a: int, ctx: Context) -> str:
        value: str = await ctx.record("call", call)
        if fails:
            fails.clear()
            raise ValueError("not yet")
        return value

    find = SQLiteStore.find

    def noted(self: SQLiteStore, *args: Any) -> Any:
        here.append(threading.current_thread() is threading.main_thread())
        return find(self, *args)

    with Engine(Graph([first]), store=store) as engine:
        assert engine.run({"a": 1}, run_id="r", check=False).status == "failed"
        monkeypatch.setattr(SQLiteStore, "find", noted)
        assert asyncio.run(engine.aresume("r"))["b"] == "called"
    assert here
    assert not any(here)


def test_items_beside_each_other_go_on_while_one_is_written(path: Path, locked: Gate) -> None:
    went_on: list[bool] = []

    async def call() -> int:
        return 1

    @node(output="b")
    async def records(a: int, ctx: Context) -> int:
        locked.shut()
        return int(await ctx.record("call", call))

    @node(output="c")
    async def beside(a: int) -> int:
        while not locked.is_shut:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        went_on.append(locked.is_shut)
        return 2

    with Engine(Graph([records, beside]), store=SQLiteStore(path)) as engine:
        assert asyncio.run(engine.arun({"a": 1})).values == {"a": 1, "b": 1, "c": 2}
    assert went_on == [True]


def test_a_snapshot_is_written_beside_the_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[bool] = []
    append = SQLiteStore.append

    def noted(self: SQLiteStore, run_id: str, entries: Any, *args: Any, **kwargs: Any) -> None:
        if any(entry.kind == "snapshot" for entry in entries):
            here.append(threading.current_thread() is threading.main_thread())
        append(self, run_id, entries, *args, **kwargs)

    monkeypatch.setattr(SQLiteStore, "append", noted)

    @node(writes=["text", "n"])
    async def longer(n: int) -> dict[str, Any]:
        return {"text": f"{n}" * 60_000, "n": n + 1}

    @route(targets=["longer", END])
    def again(n: int) -> str:
        return "longer" if n < 9 else END

    with Engine(Graph([longer, again]), store=SQLiteStore(path)) as engine:
        assert asyncio.run(engine.arun({"n": 1}, run_id="r")).status == "completed"
        assert engine.store.last("r", "snapshot", "", 10**6) is not None
    assert here
    assert not any(here)


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_what_is_written_later_is_written_beside_the_loop_too(
    path: Path, locked: Gate, durability: str
) -> None:
    seen: list[Any] = []
    with Engine(
        plain_steps(locked, seen, shut_in="second"), store=SQLiteStore(path), durability=durability
    ) as engine:
        assert asyncio.run(engine.arun({"a": 1}, run_id="r"))["d"] == 4
        assert engine.result("r")["d"] == 4


def test_a_store_that_stays_shut_is_an_error_and_the_run_goes_on_later(path: Path, locked: Gate) -> None:
    seen: list[Any] = []
    with Engine(plain_steps(locked, seen, shut_in=""), store=SQLiteStore(path, timeout=0.0)) as engine:

        @asynccontextmanager
        async def shut() -> AsyncIterator[None]:
            locked._shut()
            yield
            locked._open()

        async def main() -> None:
            async with shut():
                with pytest.raises(StoreUnavailableError):
                    await engine.arun({"a": 1}, run_id="r")
            assert (await engine.arun({"a": 1}, run_id="r"))["d"] == 4

        asyncio.run(main())


def test_the_store_that_does_not_wait(path: Path, locked: Gate) -> None:
    with closing(SQLiteStore(path)) as store:
        at_once = store.at_once()
        assert at_once.rows() == []
        assert store.at_once() is at_once is at_once.at_once()
        locked._shut()
        assert at_once.rows() == []  # who reads waits for nobody
        with pytest.raises(WouldWait):
            at_once.claim("r", "me", lease=1.0)
        locked._open()


class TestPostgres:
    """A server of its own, because it is stopped."""

    @pytest.fixture
    def own(self, server: PostgresServer) -> Iterator[PostgresServer]:
        own = PostgresServer()
        own.start()
        yield own
        own.remove()

    @pytest.fixture
    def gate(self, own: PostgresServer) -> Gate:
        return Gate(own.stop, own.start)

    @pytest.mark.parametrize("make", [steps, plain_steps])
    def test_the_loop_goes_on_while_the_server_restarts(
        self, own: PostgresServer, gate: Gate, make: Callable[..., Graph]
    ) -> None:
        seen: list[Any] = []
        with Engine(make(gate, seen, shut_in="first"), store=PostgresStore(own.dsn)) as engine:
            assert asyncio.run(engine.arun({"a": 1}, run_id="r"))["d"] == 4
        assert seen == IN_ORDER

    def test_also_while_a_run_is_opened(self, own: PostgresServer, gate: Gate) -> None:
        async def main() -> RunResult:
            gate.shut()
            return await engine.arun({"a": 1}, run_id="r")

        with Engine(steps(gate, []), store=PostgresStore(own.dsn)) as engine:
            assert asyncio.run(main())["d"] == 4


def test_nothing_of_a_run_uses_postgres_on_the_loop(open_postgres: Callable[[], PostgresStore]) -> None:
    here: list[str] = []
    loop_thread = threading.get_ident()

    class Watched(PostgresStore):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if not name.startswith("_") and callable(found) and threading.get_ident() == loop_thread:
                here.append(name)
            return found

    async def call() -> int:
        return 1

    @node(output="b", side_effects=SideEffectPolicy(recordable=True))
    async def first(a: int, ctx: Context) -> int:
        return int(await ctx.record("call", call))

    @node(output="c")
    async def second(b: int) -> int:
        return b + 1

    async def main() -> None:
        here.clear()
        assert (await engine.arun({"a": 1}, run_id="r"))["c"] == 2
        assert (await engine.aresume("r"))["c"] == 2
        assert (await engine.afork("r", step=1))["c"] == 2
        assert (await engine.arerun("r"))["c"] == 2
        async for _ in engine.astream({"a": 1}):
            pass

    store = open_postgres()
    store.__class__ = Watched
    with Engine(Graph([first, second]), store=store) as engine:
        asyncio.run(main())
        assert set(here) <= {"at_once"}  # it only answers whether the store waits


def test_threads_are_as_many_as_they_may_be() -> None:
    threads = DaemonThreadPool(most=2, idle=30.0)
    hold, seen = threading.Event(), set()

    def work() -> None:
        seen.add(threading.get_ident())
        hold.wait(300)

    futures = [threads.submit(work) for _ in range(6)]
    hold.set()
    for future in futures:
        future.result(timeout=300)
    assert len(seen) <= 2
    threads.shutdown()


def test_an_idle_thread_ends_and_another_begins() -> None:
    threads = DaemonThreadPool(most=1, idle=0.0)
    for _ in range(50):
        assert threads.submit(threading.get_ident).result(timeout=300)
    threads.shutdown()
