"""Ctrl-C or cancellation at any instant: afterwards the same engine and another process can resume the run at once.

Another process is another store object with another owner's name: an owner of the same process counts as alive, as that
of a living process does.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew import interrupt as question
from clew.errors import EncodeError, RunStateError, UnknownRunError
from clew.stores import Store, WouldWait
from tests.runtime.interrupting import cancel, interrupt

SAMPLE = 10
"""Aimed interrupts of each verb in the normal suite, about."""

# An interrupt between the making of a coroutine and its `await` leaves it unawaited, in any program.
# So may an event loop that was interrupted before anybody could close it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Verb = Callable[["Place", str], Any]


@node(output="b")
def first(a: int) -> int:
    return a + 1


@node(output="c")
def second(b: int, ctx: Context) -> int:
    return int(ctx.record("double", lambda: 2 * b))


@question(output="ok")
def approve(c: int) -> str:
    return f"{c}?"


@node(output="d")
def last(c: int, ok: bool) -> int:
    return c + 1


@node(output="c", name="second")
async def second_async(b: int, ctx: Context) -> int:
    async def double() -> int:
        return 2 * b

    return int(await ctx.record("double", double))


SYNC = Graph([first, second, approve, last])
ASYNC = Graph([first, second_async, approve, last])


class Place:
    """An engine under test, and the store as another process sees it."""

    def __init__(self, opened: Path | Callable[[], Store], graph: Graph, **options: Any) -> None:
        make = partial(SQLiteStore, opened) if isinstance(opened, Path) else opened
        self.engine = Engine(graph, store=make(), **options)
        self.other: Store = make()
        self.documents: dict[str, Any] = {}  # runs of another store
        self._elsewhere = Engine(graph)
        self.run("parent")

    def run(self, run_id: str) -> None:
        assert self.engine.run({"a": 1}, run_id=run_id).status == "waiting"

    def prepare(self, name: str, run_id: str) -> None:
        """Make what a verb needs."""
        if name in NEEDS_A_RUN:
            self.run(run_id)
        elif name == "import":
            self._elsewhere.run({"a": 1}, run_id=run_id)
            self.documents[run_id] = self._elsewhere.export_run(run_id)

    def close(self) -> None:
        self.other.close()
        self.engine.close()

    def check(self, run_id: str) -> None:
        """Nobody has the run: another process could take it now, and this engine goes on with it."""
        try:
            fence = self.other.claim(run_id, "another process", lease=30.0)
        except UnknownRunError:
            self.run(run_id)  # it had not begun: its id is free
        else:
            self.other.release(run_id, fence)
            assert run_id not in self.engine._live
        row = self.other.row(run_id)
        assert row.status in ("waiting", "cancelled", "completed", "paused")
        assert (row.status == "waiting") <= bool(self.engine.result(run_id).questions)
        if self.engine.result(run_id).questions:
            result = self.engine.resume(run_id, answer=True)
        else:
            result = self.engine.resume(run_id)
            if result.status == "waiting":
                result = self.engine.resume(run_id, answer=True)
        assert (result.status, result["d"]) == ("completed", 5)


def run(place: Place, run_id: str) -> None:
    place.engine.run({"a": 1}, run_id=run_id)


def resume(place: Place, run_id: str) -> None:
    place.engine.resume(run_id, answer=True)


def fork(place: Place, run_id: str) -> None:
    place.engine.fork("parent", step=1, run_id=run_id)


def rerun(place: Place, run_id: str) -> None:
    place.engine.rerun("parent", run_id=run_id)


def update(place: Place, run_id: str) -> None:
    place.engine.update(run_id, {"c": 4}, as_node="second")


def stream(place: Place, run_id: str) -> None:
    for _ in place.engine.stream({"a": 1}, run_id=run_id):
        pass


def import_(place: Place, run_id: str) -> None:
    place.engine.import_run(place.documents[run_id])


async def arun(place: Place, run_id: str) -> None:
    await place.engine.arun({"a": 1}, run_id=run_id)


async def aresume(place: Place, run_id: str) -> None:
    await place.engine.aresume(run_id, answer=True)


async def afork(place: Place, run_id: str) -> None:
    await place.engine.afork("parent", step=1, run_id=run_id)


async def arerun(place: Place, run_id: str) -> None:
    await place.engine.arerun("parent", run_id=run_id)


async def astream(place: Place, run_id: str) -> None:
    async for _ in place.engine.astream({"a": 1}, run_id=run_id):
        pass


AVERBS: dict[str, Verb] = {
    "arun": arun,
    "aresume": aresume,
    "afork": afork,
    "arerun": arerun,
    "astream": astream,
}
VERBS: dict[str, Verb] = {
    "run": run,
    "resume": resume,
    "fork": fork,
    "rerun": rerun,
    "stream": stream,
    "import": import_,
    "update": update,
}
NEEDS_A_RUN = ("resume", "aresume", "update")


def aimed(place: Place, name: str, ns: Iterator[int]) -> int:
    """Interrupt a verb at each of these lines, until there are no more; how many there were."""
    verb, count = VERBS[name], 0
    warm = f"{name}-warm"
    place.prepare(name, warm)
    verb(place, warm)  # what is imported or worked out once is no part of a verb
    for n in ns:
        run_id = f"{name}-{n}"
        place.prepare(name, run_id)
        aim = interrupt(n, partial(verb, place, run_id))
        if not aim.has_hit:
            break
        count += 1
        try:
            place.check(run_id)
        except Exception as error:
            error.add_note(f"{name}, interrupted at line {n} of it: {aim.where}")
            raise
    return count


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What is left unawaited or unclosed is found while its warnings are expected."""
    yield
    gc.collect()


@pytest.fixture(params=["sync", "async"])
def durability(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def steps_of(place: Place, name: str) -> int:
    """How many lines a verb executes."""
    run_id = f"{name}-count"
    for twice in ("1", "2"):
        place.prepare(name, run_id + twice)
        aim = interrupt(10**9, partial(VERBS[name], place, run_id + twice))
    return 10**9 - aim._left


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("graph", [SYNC, ASYNC], ids=["sync", "async"])
def test_an_interrupt_leaves_no_run_stuck(tmp_path: Path, name: str, graph: Graph, durability: str) -> None:
    place = Place(tmp_path / "runs.db", graph, durability=durability)
    stride = max(1, steps_of(place, name) // SAMPLE)
    assert aimed(place, name, iter(range(1, 10**9, stride))) >= SAMPLE - 2
    place.close()


@pytest.mark.parametrize("name", ["run", "resume"])
@pytest.mark.parametrize("graph", [SYNC, ASYNC], ids=["sync", "async"])
def test_an_interrupt_leaves_no_run_stuck_in_postgres(
    open_postgres: Callable[[], Store], name: str, graph: Graph
) -> None:
    place = Place(open_postgres, graph)
    stride = max(1, steps_of(place, name) // SAMPLE)
    assert aimed(place, name, iter(range(1, 10**9, stride))) >= SAMPLE - 2
    place.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("graph", [SYNC, ASYNC], ids=["sync", "async"])
def test_an_interrupt_at_any_line_leaves_no_run_stuck(
    tmp_path: Path, name: str, graph: Graph, durability: str
) -> None:
    place = Place(tmp_path / "runs.db", graph, durability=durability)
    assert aimed(place, name, iter(range(1, 10**9))) > 300
    place.close()


def on_a_loop(name: str) -> Verb:
    """An async verb, in a loop that the caller runs: an interrupt comes wherever the loop is."""

    def verb(place: Place, run_id: str) -> None:
        asyncio.run(AVERBS[name](place, run_id))

    return verb


VERBS |= {name: on_a_loop(name) for name in AVERBS}


@pytest.fixture
def waiting_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of which nothing is done at once: whatever a loop asks of it is waited for."""

    def at_once(self: SQLiteStore) -> SQLiteStore:
        raise WouldWait

    monkeypatch.setattr(SQLiteStore, "at_once", at_once)
    return tmp_path / "runs.db"


@pytest.mark.parametrize("name", AVERBS)
def test_a_cancellation_leaves_no_run_stuck(waiting_store: Path, name: str, durability: str) -> None:
    """At each wait of the verb, and before its first one."""
    place = Place(waiting_store, ASYNC, durability=durability)
    n, verb = 0, AVERBS[name]
    while True:
        run_id = f"{name}-{n}"
        if name in NEEDS_A_RUN:
            place.run(run_id)
        if not cancel(n, partial(verb, place, run_id)):
            break
        try:
            place.check(run_id)
        except Exception as error:
            error.add_note(f"{name}, cancelled at its wait {n}")
            raise
        n += 1
    assert n > 3
    place.close()


@pytest.mark.parametrize("name", AVERBS)
def test_an_interrupt_of_a_loop_that_waits_leaves_no_run_stuck(waiting_store: Path, name: str) -> None:
    place = Place(waiting_store, ASYNC)
    stride = max(1, steps_of(place, name) // SAMPLE)
    assert aimed(place, name, iter(range(1, 10**9, stride))) >= SAMPLE - 2
    place.close()


@pytest.mark.parametrize("verb", ["run", "arun"])
def test_a_stream_that_is_dropped_before_its_first_event_leaves_no_run_stuck(
    tmp_path: Path, verb: str
) -> None:
    place = Place(tmp_path / "runs.db", SYNC if verb == "run" else ASYNC)
    events = place.engine.stream({"a": 1}, run_id="r")
    del events
    gc.collect()
    place.check("r")
    place.close()


def test_another_process_resumes_what_was_interrupted(tmp_path: Path) -> None:
    """A process of its own, while this one lives and holds the store."""
    path = tmp_path / "runs.db"
    place = Place(path, SYNC)
    interrupt(steps_of(place, "run") // 2, partial(run, place, "r"))
    child = (
        "from tests.runtime.drivers.test_interrupts import SYNC\n"
        "from clew import Engine\n"
        f"with Engine(SYNC, store={str(path)!r}) as engine:\n"
        "    engine.resume('r')\n"
        "    print(engine.resume('r', answer=True)['d'])\n"
    )
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5"]
    place.close()


@pytest.mark.parametrize("is_kept", [False, True], ids=["before the answer", "after the answer"])
def test_an_interrupted_answer_is_kept_or_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    place = Place(tmp_path / "runs.db", SYNC)
    append = SQLiteStore.append

    def interrupted(*args: Any, **more: Any) -> None:
        if is_kept:
            append(*args, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SQLiteStore, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.engine.resume("parent", answer=True)
    assert place.other.row("parent").status == "cancelled"
    assert len(place.engine.result("parent").questions) == (0 if is_kept else 1)
    if is_kept:
        with pytest.raises(RunStateError):
            place.engine.resume("parent", answer=False)
        assert place.engine.resume("parent").status == "completed"
    else:
        assert place.engine.resume("parent").status == "waiting"
        assert place.engine.resume("parent", answer=True).status == "completed"
    place.close()


def test_an_answer_that_cannot_be_stored_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    place = Place(tmp_path / "runs.db", SYNC)
    before = place.other.row("parent")
    with pytest.raises(EncodeError):
        place.engine.resume("parent", answer=object())
    after = place.other.row("parent")
    assert (after.status, after.updated, after.error) == (before.status, before.updated, before.error)
    place.check("parent")
    place.close()


@pytest.mark.parametrize("after", ["create", "append", "update"])
def test_an_import_that_is_interrupted_after_a_write_leaves_all_of_the_run_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    place = Place(tmp_path / "runs.db", SYNC)
    place.prepare("import", "r")
    write = getattr(SQLiteStore, after)

    def interrupted(*args: Any, **more: Any) -> None:
        write(*args, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SQLiteStore, after, interrupted)
        with suppress(KeyboardInterrupt):
            import_(place, "r")
    assert ("r" in [row.run_id for row in place.other.rows()]) == (after != "create")
    place.check("r")
    place.close()
