"""A list that takes one message a step: not copied where nobody can tell, and never seen to change by who holds it."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Command, Context, Engine, Graph, SQLiteStore, append, ifelse, node
from clew.state import reducers
from clew.stores import MemoryStore, Store


class Talk(TypedDict, total=False):
    most: int
    a: int
    messages: Annotated[list[Any], append]
    others: Annotated[list[Any], operator.add]


def talking(seen: list[Any], *, hold: bool = False) -> Graph:
    """Appends messages until there are `most`; `seen` gets the identity of the list, or the list itself."""

    @node(output="messages")
    def say(messages: list[Any]) -> int:
        seen.append(messages if hold else id(messages))
        return len(messages)

    @ifelse(when_true="say", when_false=END)
    def more(messages: list[Any], most: int) -> bool:
        return len(messages) < most

    return Graph([say, more], state=Talk)


def stores(tmp_path: Path) -> list[Store]:
    return [MemoryStore(), SQLiteStore(tmp_path / "runs.db", synchronous="off")]


@pytest.mark.parametrize("most", [4_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_list_is_copied_once_for_all_messages(tmp_path: Path, most: int) -> None:
    for store in stores(tmp_path):
        seen: list[Any] = []
        engine = Engine(talking(seen), store=store, max_steps=10**6)
        result = engine.run({"most": most}, run_id="r")
        assert result["messages"] == list(range(most))
        assert len(set(seen)) <= 3
        assert engine.state("r").values["messages"] == list(range(most))
        store.close()


def test_loading_copies_it_once_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = Engine(talking([]), store=SQLiteStore(tmp_path / "runs.db", synchronous="off"))
    engine.run({"most": 2_000}, run_id="r")
    copies = []
    monkeypatch.setattr(
        "clew.engine.updates.merge.fold", lambda *merged: (copies.append(1), reducers.fold(*merged))[1]
    )
    assert len(engine.state("r").values["messages"]) == 2_000
    assert len(copies) <= 3
    engine.close()


def test_a_node_that_keeps_the_list_never_sees_it_change() -> None:
    kept: list[Any] = []
    Engine(talking(kept, hold=True)).run({"most": 50})
    assert [len(each) for each in kept] == list(range(50))


def test_a_state_that_holds_the_list_never_sees_it_change() -> None:
    engine = Engine(talking([]))
    engine.run({"most": 50}, run_id="r")
    states = [checkpoint.state for checkpoint in engine.history("r")]
    assert sorted({len(state.values["messages"]) for state in states}) == list(range(51))
    early = engine.state("r", 3)
    went_on = engine.fork("r", step=3, values={"most": 90})
    assert len(early.values["messages"]) < 3 < len(went_on["messages"]) == 90


def test_what_was_given_to_a_run_stays_as_it_is() -> None:
    mine = ["hello"]
    result = Engine(talking([])).run({"most": 5, "messages": mine})
    assert (mine, len(result["messages"])) == (["hello"], 5)


def test_an_update_that_became_the_value_stays_as_it_is() -> None:
    """The list of an Overwrite is in the record of its step, which must not change afterwards."""
    from clew import Overwrite

    @node(output="others")
    def begin(most: int) -> Any:
        return Overwrite(["first"])

    @node(output="others", after=["begin"])
    def more(most: int) -> list[str]:
        return ["second"]

    engine = Engine(Graph([begin, more], state=Talk))
    engine.run({"most": 1}, run_id="r")
    digests = [checkpoint.digest for checkpoint in engine.history("r")]
    assert digests == [checkpoint.digest for checkpoint in engine.history("r")]
    assert [c.state.values["others"] for c in engine.history("r")] == [[], ["first"], ["first", "second"]]


def test_a_branch_that_was_planned_ahead_never_sees_it_change() -> None:
    """Beside a slow node the talk goes ahead, step after step; what is held of the list is each step's own."""
    ahead = threading.Event()

    @node(output="a")
    def slow(most: int) -> int:
        assert ahead.wait(60)
        return len(kept)

    class Kept(list[Any]):
        def append(self, value: Any) -> None:
            super().append(value)
            if len(self) == 5:
                ahead.set()

    kept = Kept()
    talk = talking(kept, hold=True)
    result = Engine(Graph([slow, *talk.nodes.values()], state=Talk)).run({"most": 30})
    assert result["a"] >= 5  # it did go ahead
    assert result["messages"] == list(range(30))
    assert kept == [list(range(n)) for n in range(30)]


def test_a_reducer_that_raises_leaves_a_list_beside_it_as_it_was() -> None:
    @node(writes=["messages", "others"])
    def both(most: int) -> dict[str, Any]:
        return {"messages": "a message", "others": "no list"}

    engine = Engine(Graph([both], state=Talk))
    result = engine.run({"most": 1, "others": []}, run_id="r", check=False)
    assert (result.status, result["messages"]) == ("failed", [])


def test_who_holds_it_is_counted() -> None:
    values: dict[str, Any] = {"it": []}
    assert reducers.may_grow(append, values, "it", [1])
    assert reducers.may_grow(operator.add, values, "it", [[1]])
    assert not reducers.may_grow(operator.add, values, "it", [(1,)])
    assert not reducers.may_grow(append, values, "it", [reducers.Overwrite([])])
    assert not reducers.may_grow(reducers.merge, values, "it", [{}])
    holder = values["it"]
    assert not reducers.may_grow(append, values, "it", [1])
    del holder
    assert reducers.may_grow(append, values, "it", [1])
    walk = iter(values["it"])
    assert not reducers.may_grow(append, values, "it", [1])
    del walk
    values["tuple"] = ()
    assert not reducers.may_grow(append, values, "tuple", [1])


class Appending(TypedDict):
    messages: Annotated[list[Any], append]


class Adding(TypedDict):
    messages: Annotated[list[Any], operator.add]


@pytest.mark.parametrize("state", [Appending, Adding])
def test_a_node_that_chooses_itself_again_does_not_copy_it_either(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: type
) -> None:
    """Nothing but this node runs, so nothing takes the place of what the step before it left behind."""

    @node(writes=["messages"], goto=["say", END])
    def say(messages: list[Any]) -> Command:
        number = len(messages)
        update = {"messages": number if state is Appending else [number]}
        return Command(update=update, goto="say" if number < 999 else END)

    copies = []
    monkeypatch.setattr(
        "clew.engine.updates.merge.fold", lambda *merged: (copies.append(1), reducers.fold(*merged))[1]
    )
    for store in stores(tmp_path):
        copies.clear()
        result = Engine(Graph([say], state=state), store=store).run({"messages": []})
        assert result["messages"] == list(range(1_000))
        assert len(copies) <= 2
        store.close()


# -- a million messages --------------------------------------------------------------------------------------------


def appended(count: int, folder: Path) -> dict[str, Any]:
    """What ``tests/runtime/million.py`` says about that many messages."""
    program = Path(__file__).parents[1] / "million.py"
    done = subprocess.run(
        [sys.executable, program, str(count), folder / "runs.db"],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def per_step(one: dict[str, Any], other: dict[str, Any], what: str) -> float:
    return float((other[what] - one[what]) / (other["messages"] - one["messages"]))


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_messages_one_by_one_cost_the_same_each(tmp_path: Path, count: int) -> None:
    found = appended(count, tmp_path)
    laps, state = found["laps"], found["state"]
    assert [lap["messages"] for lap in laps] == [count // 10 * n for n in range(11)]
    # What is written: one entry a step, and in the last tenth as many bytes as in the second, but for longer numbers.
    assert {per_step(one, other, "entries") for one, other in pairwise(laps)} == {1.0}
    assert per_step(laps[9], laps[10], "bytes") <= per_step(laps[1], laps[2], "bytes") + 8
    # Processor time without snapshots: what a step takes does not depend on how many there were.
    if count > 100_000:
        times = [per_step(one, other, "seconds") for one, other in pairwise(laps[1:])]
        assert median(times[-3:]) <= 1.6 * min(times[:3]), times
    # Memory: the messages themselves and little more; at its peak, in a snapshot, the state a second time.
    growth = laps[10]["memory"] - laps[1]["memory"]
    assert growth <= 1.3 * state + 8e6
    assert found["peak"] <= laps[1]["memory"] + 2.2 * state + 24e6
    # Loading: a snapshot and the steps after it, not all of them, in less memory than the state takes twice more.
    loading = found["loading"]
    assert (loading["messages"], loading["first"], int(loading["last"])) == (count, "0000000", count - 1)
    assert loading["rows"] == count - (found["snapshots"][-1]["step"] if found["snapshots"] else 0)
    assert found["snapshots"]
    assert loading["peak"] <= laps[1]["memory"] + 3.2 * state + 24e6
    # The snapshots together weigh a fraction of the steps.
    assert sum(snapshot["bytes"] for snapshot in found["snapshots"]) < 0.15 * laps[10]["bytes"]


# -- bytes on the disk ---------------------------------------------------------------------------------------------


def size_after(steps: int, folder: Path) -> int:
    """Bytes of a file after a run of so many steps, each of which appends a message of 133 bytes."""

    @node(writes=["messages"], goto=["say", END])
    def say(messages: list[Any]) -> Command:
        number = len(messages)
        message = {"role": "assistant", "content": f"{number:06} " + "x" * 93}
        assert len(json.dumps(message, separators=(",", ":"))) <= 133
        return Command(update={"messages": [message]}, goto="say" if number + 1 < steps else END)

    store = SQLiteStore(folder / f"{steps}.db", synchronous="off")
    Engine(Graph([say], state=Adding), store=store).run({"messages": []})
    store.close()
    return (folder / f"{steps}.db").stat().st_size


def test_a_step_takes_its_payload_and_little_more_and_the_same_at_any_length(tmp_path: Path) -> None:
    sizes = {steps: size_after(steps, tmp_path) for steps in (100, 1_000, 4_000)}
    SQLiteStore(tmp_path / "empty.db").close()
    empty = (tmp_path / "empty.db").stat().st_size  # every table takes a page
    assert (sizes[1_000] - empty) / 1_000 <= 133 + 150
    each = [(sizes[1_000] - sizes[100]) / 900, (sizes[4_000] - sizes[1_000]) / 3_000]
    assert max(each) <= 133 + 150, each  # a busy machine has longer durations to write
    assert max(each) / min(each) < 1.2, each  # a file grows by pages


# -- loading is bounded --------------------------------------------------------------------------------------------


def read_to_load(engine: Engine, run_id: str, step: int | None = None) -> int:
    """Bytes of entries and large contents that are read to load a state."""
    store = engine.store
    found: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def entries(self, *args: Any, **more: Any) -> Any:
            entries = store.entries(*args, **more)
            found.append(sum(len(e.body) for e in entries))
            return entries

        def within(self, *args: Any, **more: Any) -> Any:
            entries = store.within(*args, **more)
            found.append(sum(len(e.body) for e in entries))
            return entries

        def last(self, *args: Any) -> Any:
            entry = store.last(*args)
            found.append(len(entry.body) if entry is not None else 0)
            return entry

        def blob(self, digest: str) -> bytes:
            content = store.blob(digest)
            found.append(len(content))
            return content

    Engine(engine.graph, store=Counting()).state(run_id, step)
    return sum(found)


def writing(size: int) -> Graph:
    """Writes a document of `size` bytes, again and again."""

    @node(output="document")
    def write(n: int) -> str:
        return f"{n}" + "x" * size

    @node(output="n")
    def count(document: str, n: int = 0) -> int:
        return n + 1

    @ifelse(when_true="write", when_false=END)
    def more(n: int, most: int) -> bool:
        return n < most

    return Graph([write, count, more])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_large_values_do_not_make_loading_longer_with_every_step(tmp_path: Path, durability: str) -> None:
    store = SQLiteStore(tmp_path / "runs.db", synchronous="off")
    engine = Engine(writing(100_000), store=store, durability=durability)
    engine.run({"n": 0, "most": 60}, run_id="r")
    steps = engine.state("r").step
    for step in (None, steps // 2, steps // 3):
        assert read_to_load(engine, "r", step) < 1_500_000


def test_weight_goes_on_where_a_log_ends(tmp_path: Path) -> None:
    """A run in many sessions of a few steps each is loaded as quickly as one in one session."""
    store = SQLiteStore(tmp_path / "runs.db", synchronous="off")

    @node(output="document")
    def write(n: int) -> str:
        return f"{n}" + "x" * 100_000

    @node(output="n")
    def count(document: str, ctx: Context, n: int = 0) -> int:
        ctx.interrupt(f"again? {n}")
        return n + 1

    @ifelse(when_true="write", when_false=END)
    def more(n: int, most: int) -> bool:
        return n < most

    engine = Engine(Graph([write, count, more]), store=store)
    result = engine.run({"n": 0, "most": 40}, run_id="r")
    while result.status == "waiting":
        result = engine.resume("r", answer=True)
    assert result.status == "completed", result.error
    assert read_to_load(engine, "r") < 1_500_000


def test_a_run_that_is_written_at_its_end_has_snapshots_like_any(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db", synchronous="off")
    found = {}
    for durability in ("sync", "exit"):
        engine = Engine(talking([]), store=store, durability=durability, max_steps=10**6)
        engine.run({"most": 6_000}, run_id=durability)
        found[durability] = [entry.n for entry in store.find(durability, "snapshot", "")]
        for step in (5_000, 10_001):
            assert read_to_load(engine, durability, step) < 4_000_000
        assert engine.state(durability).digest == engine.history(durability)[-1].digest
    assert found["exit"]
    assert len(found["exit"]) >= len(found["sync"]) - 1
