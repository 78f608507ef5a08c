"""The writer: what is written when, what is dropped when, and that nothing is written after something failed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SideEffectPolicy, SQLiteStore, node
from clew.engine.records import FinishedItem, Outcome, Question, Start, Step
from clew.errors import EncodeError, StoreError
from clew.runtime.calls.recorder import ItemCalls, Recorder
from clew.runtime.log.background_writer import BackgroundWriter, Work
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.codec import EntryEncoder
from clew.runtime.log.run_log import read_log
from clew.runtime.log.writer import LogWriter
from clew.state import GraphState
from clew.stores import LogEntry, RunRow
from tests.runtime.killed import as_if_killed


class Pile:
    """Takes the place of a store; refuses the selected append."""

    defers = False

    def __init__(self, refuse: int = -1) -> None:
        self.appended: list[list[str]] = []
        self.calls = 0
        self.refuse = refuse

    def append(self, run_id: str, entries: Any, fence: int, **more: Any) -> None:
        self.calls += 1
        if self.calls - 1 == self.refuse:
            raise StoreError("the disk is full")
        self.appended.append([f"{entry.kind} {entry.n}" for entry in entries])


def writer(pile: Pile, durability: Any = "sync") -> LogWriter:
    encoder = EntryEncoder({"": "00" * 32}, 0.0)
    return LogWriter(pile, "r", 1, durability=durability, encoder=encoder)


def step(number: int, value: Any = 1) -> Step:
    return Step("", number, (Outcome("n", number - 1, -1, {"a": value}),))


def written(kept: LogWriter, record: Any) -> None:
    kept.write([record])
    kept.barrier()


# -- after a failure ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_after_a_write_that_failed_nothing_is_written(durability: str) -> None:
    pile = Pile(refuse=1)
    kept = writer(pile, durability)
    kept.write([step(1)])
    kept.barrier()
    for number in (2, 3):
        with pytest.raises(StoreError):
            written(kept, step(number))
    with pytest.raises(StoreError):
        kept.close()
    assert (pile.appended, pile.calls) == ([["step 1"]], 2)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_after_a_value_without_an_encoding_nothing_is_written(durability: str) -> None:
    """What came before it is kept; what comes after it would leave a hole."""
    pile = Pile()
    kept = writer(pile, durability)
    with pytest.raises(EncodeError):
        kept.write([step(1), step(2, object())])
    with pytest.raises(EncodeError):
        kept.write([step(3)])
    with pytest.raises(EncodeError):
        kept.close()
    assert pile.appended == [["step 1"]]


def test_closing_writes_nothing_after_a_failure() -> None:
    pile = Pile()
    kept = writer(pile, "exit")
    kept.write([step(1)])
    kept._failure = StoreError("the disk is full")
    with pytest.raises(StoreError):
        kept.close()
    assert pile.calls == 0


def test_work_after_a_failure_is_discarded() -> None:
    """Also what had piled up behind the append that failed."""
    entered, go, made = threading.Event(), threading.Event(), []

    def append(work: Work) -> None:
        made.append([entry.n for entry in work[0]])
        entered.set()
        assert go.wait(300)
        raise StoreError("the disk is full")

    background = BackgroundWriter(append)
    background.put(([LogEntry("step", "", 1, b"")], (), {}, ()))
    assert entered.wait(300)
    background.put(([LogEntry("step", "", 2, b"")], (), {}, ()))
    go.set()
    background.close()
    assert made == [[1]]
    assert isinstance(background.failure, StoreError)
    with pytest.raises(StoreError, match="the disk is full"):
        background.put(([LogEntry("step", "", 3, b"")], (), {}, ()))
    assert made == [[1]]


# -- finished items ---------------------------------------------------------------------------------------------------


def finished(value: Any, n: int = 0) -> FinishedItem:
    return FinishedItem("", Outcome("n", 0, -1, {"a": value}), (), n)


def test_entries_of_finished_items_are_numbered_and_dropped_with_their_step() -> None:
    dropped: list[Any] = []

    class Dropping(Pile):
        def append(self, run_id: str, entries: Any, fence: int, **more: Any) -> None:
            super().append(run_id, entries, fence)
            dropped.extend(more.get("drop", ()))

    pile = Dropping()
    kept = writer(pile)
    kept.write([finished(1)])
    kept.write([finished(2)])
    assert (pile.appended, dropped) == ([["journal 0"], ["journal 1"]], [])
    kept.write([step(1)])
    assert dropped == [("journal", "n#0", 0), ("journal", "n#0", 1)]


def test_no_finished_items_are_left_of_a_run(tmp_path: Path) -> None:
    slow_may_end = threading.Event()

    @node(output="b")
    def fast(a: int) -> int:
        return a

    @node(output="c")
    def then(b: int) -> int:
        slow_may_end.set()
        return b

    @node(output="d")
    def slow(a: int) -> int:
        assert slow_may_end.wait(300)
        return a

    engine = Engine(Graph([fast, then, slow]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"a": 1}, run_id="r")
    assert {entry.kind for entry in engine.store.entries("r")} == {"step"}


# -- what entries mean together ------------------------------------------------------------------------------------


def read(*records: Any) -> Any:
    return read_log(RunRow("r"), GraphState(), records, "error")


def test_the_later_of_two_entries_of_a_finished_item_counts() -> None:
    assert read(finished(2, 1), finished(1, 0)).finished["n#0"].update == {"a": 2}
    assert read(finished(1, 0), finished(2, 1)).finished["n#0"].update == {"a": 2}


def test_inner_steps_are_those_of_the_last_attempt_around_them() -> None:
    def inner(epoch: int) -> Step:
        return Step("sub#0/", 1, (Outcome("n", 0, -1, {"a": epoch}),), (epoch,))

    starts = [Start("sub#0/", {}, frozenset(), (epoch,)) for epoch in (0, 1)]
    log = read(*starts, inner(0))
    assert log.frames["sub#0/"] == (starts[1], [])
    assert read(*starts, inner(0), inner(1)).frames["sub#0/"][1] == [inner(1)]


def test_a_finished_item_has_no_open_question() -> None:
    assert list(read(Question("n#0", "n", "sure?", 1)).asked) == ["n#0"]
    assert read(Question("n#0", "n", "sure?", 1), finished(1)).asked == {}
    assert read(Question("n#0!1", "n", "made?", 1), finished(1)).asked == {}


# -- recordings ----------------------------------------------------------------------------------------------------


def recorded(
    n: int, response: Any = None, error: Any = None, *, attempt: int = 0, resumption: int = 0
) -> RecordedCall:
    return RecordedCall(
        "n#0", attempt, 0, "call", ((), {}), response, error, 0.0, 0.0, False, (), resumption, n
    )


def test_of_several_recordings_of_a_call_the_last_one_holds() -> None:
    """A call that raised, and was made again because the run had failed, has two."""
    first, last = recorded(0, error=ValueError("no")), recorded(1, "yes", resumption=1)
    assert list(ItemCalls([last, first]).candidates((), 0, (0,))) == [last]


def test_before_recordings_are_looked_up_what_this_session_has_is_written() -> None:
    events: list[str] = []

    class Session:
        run_id = "r"

        def before_call(self) -> None:
            events.append("before call")

    class Frame:
        epoch = (1,)

    class Item:
        path, frame = "sub#0/n#0", Frame()

    def recall(path: str) -> list[RecordedCall | CallIntent]:
        events.append("look up")
        return []

    Recorder(Session(), recall)._history(Item())
    assert events == ["before call", "look up"]


def test_what_a_late_attempt_records_is_let_fall(tmp_path: Path) -> None:
    """Its item has finished without it: nobody would look the recording up, and a later run of the path must not."""
    entered, go, over = threading.Event(), threading.Event(), threading.Event()

    def call() -> str:
        entered.set()
        assert go.wait(300)
        return "late"

    @node(output="b", timeout=1.0, retry=RetryPolicy(max_attempts=50, base_delay=1e-9))
    def act(a: int, ctx: Context) -> str:
        if ctx.attempt:
            return "in time"
        try:
            return str(ctx.record("call", call))
        finally:
            over.set()

    @node(output="c")
    def after(b: str) -> str:
        go.set()
        assert over.wait(300)
        return b

    engine = Engine(Graph([act, after]), store=SQLiteStore(tmp_path / "runs.db"))
    assert engine.run({"a": 1}, run_id="r")["c"] == "in time"
    assert entered.is_set()
    assert engine.store.find("r", "call", "act#0") == []


# -- before effects ------------------------------------------------------------------------------------------------


def test_in_async_mode_all_is_written_before_a_node_with_effects_is_called(tmp_path: Path) -> None:
    file, found = tmp_path / "runs.db", []

    @node(output="b")
    def before(a: int) -> int:
        return a

    @node(output="c", side_effects=SideEffectPolicy(recordable=True))
    def act(b: int) -> int:
        found.append(len(as_if_killed(file).find("r", "step", "")))
        return b

    store = SQLiteStore(file)
    append, go = store.append, threading.Event()

    def slowly(*args: Any, **more: Any) -> None:
        go.wait(0.05)  # a store that is behind
        append(*args, **more)

    store.append = slowly
    Engine(Graph([before, act]), store=store, durability="async").run({"a": 1}, run_id="r")
    assert found == [1]


def test_a_background_writer_that_is_too_far_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.runtime.log.background_writer.LAG", 3)
    entered, go, done = threading.Event(), threading.Event(), threading.Event()
    made: list[int] = []

    def append(work: Work) -> None:
        entered.set()
        assert go.wait(300)
        made.extend(entry.n for entry in work[0])

    def put_all() -> None:
        for number in range(6):
            background.put(([LogEntry("step", "", number, b"")], (), {}, ()))
        done.set()

    background = BackgroundWriter(append)
    thread = threading.Thread(target=put_all)
    thread.start()
    assert entered.wait(300)
    while background._behind < 4:
        time.sleep(0.001)
    assert not done.wait(0.2), "it went on although nothing was appended"
    assert background._behind == 4
    go.set()
    assert done.wait(300)
    thread.join()
    background.join()
    assert made == list(range(6))


@pytest.mark.parametrize("kind, count", [("call", 1), ("step", 3)])
def test_what_cannot_be_done_again_and_what_is_much_is_appended_without_waiting_for_more(
    monkeypatch: pytest.MonkeyPatch, kind: str, count: int
) -> None:
    monkeypatch.setattr("clew.runtime.log.background_writer.MOMENT", 3600.0)
    monkeypatch.setattr("clew.runtime.log.background_writer.ENOUGH", 3)
    appended = threading.Event()
    background = BackgroundWriter(lambda work: appended.set())
    background.put(([LogEntry(kind, "", n, b"") for n in range(count)], (), {}, ()))
    assert appended.wait(300)


def test_new_work_wakes_an_idle_thread() -> None:
    appended = {kind: threading.Event() for kind in ("call", "step")}
    background = BackgroundWriter(lambda work: appended[work[0][0].kind].set())
    for kind, came in appended.items():  # the first one starts the thread
        background.put(([LogEntry(kind, "", 1, b"")], (), {}, ()))
        assert came.wait(300)
        with background._turn:
            assert background._thread is not None
    background.close()


def test_what_may_be_done_again_is_appended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.runtime.log.background_writer.MOMENT", 3600.0)
    made: list[list[int]] = []
    background = BackgroundWriter(lambda work: made.append([entry.n for entry in work[0]]))
    for number in range(3):
        background.put(([LogEntry("step", "", number, b"")], (), {}, ()))
    background.join()
    background.put(([LogEntry("step", "", 3, b"")], (), {}, ()))
    (left,) = background.close()
    assert (made, [entry.n for entry in left[0]]) == ([[0, 1, 2]], [3])


def test_a_writer_whose_run_cannot_get_to_the_disk_has_failed() -> None:
    class Broken(Pile):
        def sync(self) -> None:
            raise StoreError("the disk is gone")

    kept = LogWriter(
        Broken(), "r", 1, durability="async", encoder=EntryEncoder({"": "00" * 32}, 0.0), owes=True
    )
    for use in (kept.barrier, lambda: kept.write([step(1)]), kept.close):
        with pytest.raises(StoreError, match="the disk is gone"):
            use()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_failed_writer_raises_its_error_on_every_use(durability: str) -> None:
    kept = writer(Pile(), durability)
    kept._failure = StoreError("the disk is full")
    for use in (lambda: kept.write([step(1)]), kept.barrier, kept.close):
        with pytest.raises(StoreError, match="the disk is full"):
            use()
