"""Threads: conversations over many runs."""

from __future__ import annotations

import asyncio
import operator
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from clew import (
    END,
    Context,
    Engine,
    Graph,
    GraphState,
    Overwrite,
    SQLiteStore,
    interrupt,
    node,
    route,
)
from clew.errors import (
    GraphWarning,
    InputError,
    MaxStepsError,
    RunStateError,
    ThreadBusyError,
    UnknownRunError,
)
from clew.state import position_of
from clew.stores import Store
from tests.store_fixtures import every_store


class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]


@node(output="messages")
def reply(messages: list[str]) -> list[str]:
    return [f"re: {messages[-1]}"]


CHAT = Graph([reply], state=Chat)


store = every_store


def test_each_turn_continues_from_the_last_state(store: Store) -> None:
    engine = Engine(CHAT, store=store)
    for turn in range(3):
        result = engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
        assert result.status == "completed"
    said = ["m0", "re: m0", "m1", "re: m1", "m2", "re: m2"]
    assert result["messages"] == said
    assert result.state.visits == {"reply": 3}
    assert result.state.get_version("messages") == 5
    thread = engine.thread("t")
    assert (thread.name, thread.head) == ("t", "r2")
    assert [run.run_id for run in thread.runs] == ["r0", "r1", "r2"]
    assert thread.state.get("messages") == said
    assert [c.state.get("messages")[-1] for c in thread.history()] == said
    assert Engine(store=store).thread("t").state.get("messages") == said  # without the graph
    for turn in range(3):
        assert engine.replay(f"r{turn}").ok
    assert list(store.check()) == []
    engine.close()


def test_a_thread_equals_one_run_on_the_whole_conversation(store: Store) -> None:
    """The digests chain: the same turns give the same digests, whatever the store and the run ids."""
    engine, other = Engine(CHAT, store=store, seed=1), Engine(CHAT, seed=1)
    for turn in range(20):
        ours = engine.run({"messages": [f"m{turn}"]}, thread="t")
        theirs = other.run({"messages": [f"m{turn}"]}, thread="other")
        assert ours.state.digest == theirs.state.digest
        assert engine.state(ours.run_id).digest == ours.state.digest
    engine.close()


class Agent(TypedDict):
    messages: Annotated[list[str], operator.add]
    calls: int


@node(output="messages")
def think(messages: list[str]) -> list[str]:
    return ["done"] if messages[-1].startswith("tool") else ["call tool"]


@route(targets=["tool", END])
def decide(messages: list[str]) -> str:
    assert messages[-1] != "hello", "the gate runs after think, never on the input"
    return "tool" if messages[-1] == "call tool" else END


@node(output=("messages", "calls"))
def tool(calls: int = 0) -> tuple[list[str], int]:
    return [f"tool {calls}"], calls + 1


AGENT = Graph([think, decide, tool], state=Agent, entry="think", edges=[("tool", "think")])


def test_a_turn_wakes_what_the_start_of_a_run_wakes(store: Store) -> None:
    engine = Engine(AGENT, store=store)
    for turn in range(3):
        result = engine.run({"messages": ["hello"], **({} if turn else {"calls": 0})}, thread="t")
        assert result["calls"] == turn + 1
    assert result["messages"] == [
        word for turn in range(3) for word in ("hello", "call tool", f"tool {turn}", "done")
    ]
    assert result.state.terminated
    engine.close()


def test_a_source_without_inputs_runs_in_each_turn() -> None:
    @node(output="count")
    def tick(ctx: Context) -> str:
        return str(ctx.uuid4())

    @node(output="said")
    def say(count: str, word: str) -> str:
        return f"{word} {count}"

    engine = Engine(Graph([tick, say]), seed=3)
    said = [engine.run({"word": word}, thread="t")["said"] for word in ("a", "b")]
    assert said[0].split()[1] != said[1].split()[1]  # the seed continues: ids do not repeat
    assert said[1].startswith("b ")


_calls: list[list[str]] = []


def unique(old: list[str], new: list[str]) -> list[str]:
    _calls.append(new)
    return [*old, *(word for word in new if word not in old)]


class Words(TypedDict):
    words: Annotated[list[str], unique]
    count: int


@node(output="count")
def count_words(words: list[str]) -> int:
    return len(words)


def test_a_custom_reducer_is_called_once_for_each_input(store: Store) -> None:
    engine = Engine(Graph([count_words], state=Words), store=store)
    engine.run({"words": ["a"]}, thread="t")
    _calls.clear()
    result = engine.run({"words": ["a", "b"]}, thread="t")
    assert (result["words"], result["count"]) == (["a", "b"], 2)
    assert engine.state(result.run_id).get("words") == ["a", "b"]
    assert engine.resume(result.run_id)["count"] == 2
    assert _calls == [["a", "b"]]
    engine.close()


# -- what a turn finds at the head --------------------------------------------------------------------------------


@interrupt(output="ok")
def ask(messages: list[str]) -> str:
    return f"{messages[-1]}?"


class Asking(TypedDict):
    messages: Annotated[list[str], operator.add]
    ok: bool


def test_a_waiting_head(store: Store) -> None:
    engine = Engine(Graph([ask], state=Asking), store=store)
    assert engine.run({"messages": ["a"]}, thread="t", run_id="r").status == "waiting"
    with pytest.raises(RunStateError) as caught:
        engine.run({"messages": ["b"]}, thread="t")
    assert not isinstance(caught.value, ThreadBusyError)
    with pytest.warns(GraphWarning, match="'ask'"):
        result = engine.run({"messages": ["b"]}, thread="t", drop=True)
    assert (result.status, result.questions[0].question) == ("waiting", "b?")
    assert engine.resume(result.run_id, answer=True)["messages"] == ["a", "b"]
    assert engine.run({"messages": ["c"]}, thread="t").questions[0].question == "c?"
    engine.close()


def test_a_failed_head(store: Store) -> None:
    @node(output="messages")
    def fragile(messages: list[str]) -> list[str]:
        if messages[-1] == "bad":
            raise ValueError("bad")
        return [f"re: {messages[-1]}"]

    engine = Engine(Graph([fragile], state=Chat), store=store)
    engine.run({"messages": ["a"]}, thread="t")
    try:
        engine.run({"messages": ["bad"]}, thread="t", run_id="r1")
    except ValueError:
        pass
    assert store.row("r1").status == "failed"
    with pytest.warns(GraphWarning, match="'fragile'"):
        result = engine.run({"messages": ["c"]}, thread="t")
    assert result["messages"] == ["a", "re: a", "bad", "c", "re: c"]
    engine.close()


def test_callers_wait_for_each_other(store: Store) -> None:
    entered, leave = threading.Event(), threading.Event()

    @node(output="messages")
    def slow(messages: list[str]) -> list[str]:
        entered.set()
        leave.wait(300)
        return [f"re: {messages[-1]}"]

    engine = Engine(Graph([slow], state=Chat), store=store)
    first = threading.Thread(target=engine.run, args=({"messages": ["a"]},), kwargs={"thread": "t"})
    first.start()
    assert entered.wait(300)
    with pytest.raises(ThreadBusyError):
        engine.run({"messages": ["b"]}, thread="t", on_busy="refuse")
    with pytest.raises(ThreadBusyError):
        engine.run({"messages": ["b"]}, thread="t", timeout=0.02)
    leave.set()
    result = engine.run({"messages": ["b"]}, thread="t", timeout=300)
    first.join()
    assert result["messages"] == ["a", "re: a", "b", "re: b"]
    engine.close()


def test_turns_on_an_event_loop(store: Store) -> None:
    @node(output="messages")
    async def slow(messages: list[str]) -> list[str]:
        await asyncio.sleep(0)
        return [f"re: {messages[-1]}"]

    engine = Engine(Graph([slow], state=Chat), store=store)

    async def main() -> list[Any]:
        return await asyncio.gather(*(engine.arun({"messages": [f"m{n}"]}, thread="t") for n in range(8)))

    results = asyncio.run(main())
    said = max((result["messages"] for result in results), key=len)
    assert len(said) == 16
    assert {said[n] for n in range(0, 16, 2)} == {f"m{n}" for n in range(8)}
    assert [said[n] for n in range(1, 16, 2)] == [f"re: {said[n]}" for n in range(0, 16, 2)]
    engine.close()


def test_a_fork_moves_the_head(store: Store) -> None:
    engine = Engine(CHAT, store=store)
    for turn in range(3):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
    engine.fork("r1", thread="t", run_id="f")  # forget the last turn
    assert engine.thread("t").head == "f"
    result = engine.run({"messages": ["again"]}, thread="t")
    assert result["messages"] == ["m0", "re: m0", "m1", "re: m1", "again", "re: again"]
    engine.fork("r2", thread="new")
    assert engine.thread("new").state.get("messages")[-1] == "re: m2"
    engine.close()


def test_the_end_of_a_run_does_not_end_the_thread() -> None:
    engine = Engine(AGENT)
    first = engine.run({"messages": ["hello"], "calls": 0}, thread="t")
    ended = engine.run(first.state.mark_terminated(), thread="ended")
    assert ended.state.terminated
    assert engine.run({"messages": ["hello"]}, thread="ended")["calls"] == 2


def test_errors() -> None:
    engine = Engine(CHAT)
    with pytest.raises(UnknownRunError):
        engine.thread("t")
    with pytest.raises(InputError):
        engine.run({"messages": []}, thread="")
    with pytest.raises(InputError):
        engine.run({"messages": []}, drop=True)
    with pytest.raises(InputError):
        engine.run({"messages": []}, thread="t", on_busy="later")
    engine.run({"messages": ["a"]}, thread="t")
    with pytest.raises(InputError):
        engine.run({"message": ["b"]}, thread="t")
    with pytest.raises(InputError):
        engine.run({"messages": "b"}, thread="t")
    assert len(engine.thread("t").runs) == 1


# -- crashes and storage ------------------------------------------------------------------------------------------

SERVICE = """
import operator, os, sys
from typing import Annotated, TypedDict
from clew import Context, Engine, Graph, SQLiteStore, node

class Chat(TypedDict):
    messages: Annotated[list[str], operator.add]

def model(path, text):
    with open(path, "a") as file:
        file.write(text + "\\n")
    return f"re: {text}"

@node(output="messages")
def reply(messages, ctx: Context):
    said = ctx.record("model", model, sys.argv[2], messages[-1])
    print("called", messages[-1], flush=True)
    return [said]

engine = Engine(Graph([reply], state=Chat, name="chat"), store=SQLiteStore(sys.argv[1]))
for line in sys.stdin:
    engine.run({"messages": [line.strip()]}, thread="t")
    print("done", flush=True)
"""


def test_a_hundred_turns_killed_at_random(tmp_path: Path) -> None:
    """Between and inside turns. No message is lost or repeated, and no recorded call is made twice."""
    (tmp_path / "service.py").write_text(SERVICE)
    store, calls = tmp_path / "runs.db", tmp_path / "calls.txt"
    choose = random.Random(7)
    kills, turn = 0, 0
    service: subprocess.Popen[str] | None = None
    while turn < 100:
        if service is None:
            service = subprocess.Popen(
                [sys.executable, str(tmp_path / "service.py"), str(store), str(calls)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
                env=os.environ,
            )
            assert service.stdin is not None
            assert service.stdout is not None
        service.stdin.write(f"m{turn}\n")
        service.stdin.flush()
        killed_after = choose.choice([f"called m{turn}", "done"]) if choose.random() < 0.12 else None
        word = ""
        while word not in ("done", killed_after):
            word = service.stdout.readline().strip()
            assert word, "the service ended"
        turn += 1
        if killed_after is not None:
            service.send_signal(signal.SIGKILL)
            service.communicate()
            service, kills = None, kills + 1
    assert service is not None
    service.communicate()
    assert kills > 5
    with Engine(store=str(store)) as engine:
        thread = engine.thread("t")
        assert thread.state.get("messages") == [said for n in range(100) for said in (f"m{n}", f"re: m{n}")]
        assert len(thread.runs) == 100
        assert list(engine.store.check()) == []
    assert calls.read_text().split() == [f"m{n}" for n in range(100)]


def test_the_steps_of_a_turn(store: Store) -> None:
    engine = Engine(CHAT, store=store)
    for turn in range(3):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
    assert [engine.state("r2", step).step for step in (2, 3)] == [2, 3]
    for step in (0, 1, 4):
        with pytest.raises(UnknownRunError, match=r"has steps 2 to 3$"):
            engine.state("r2", step)
    engine.close()


# -- pruning ------------------------------------------------------------------------------------------------------


def test_old_turns_can_be_pruned(store: Store) -> None:
    engine = Engine(CHAT, store=store)
    for turn in range(12):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn:02}")
    before, digest = engine.thread("t").state, engine.thread("t").state.digest
    old = [f"r{turn:02}" for turn in range(9)]
    assert engine.prune(keep=3, dry_run=True) == old
    assert len(engine.thread("t").runs) == 12
    assert engine.prune(keep=3) == old
    thread = engine.thread("t")
    assert (thread.head, thread.state, thread.state.digest) == ("r11", before, digest)
    assert [run.run_id for run in thread.runs] == ["r09", "r10", "r11"]
    assert [each.step_id for each in thread.history()] == [9, 10, 10, 11, 11, 12]
    assert all(engine.replay(run.run_id).ok for run in thread.runs)
    assert list(store.check()) == []
    for turn in range(12, 30):
        result = engine.run({"messages": [f"m{turn}"]}, thread="t")
    assert len(result["messages"]) == 60
    assert len(engine.prune(keep=0)) == 20  # all but the head
    assert engine.thread("t").state == result.state
    assert engine.prune(keep=0) == []
    engine.close()


def test_pruning_keeps_what_other_runs_need(store: Store) -> None:
    engine = Engine(Graph([ask], state=Asking), store=store)
    for turn in range(4):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
        engine.resume(f"r{turn}", answer=True)
    engine.fork(
        "r1", run_id="f", step=1, values={"messages": Overwrite(["x"])}
    )  # a fork, not a turn: it waits
    engine.run({"messages": ["open"]}, thread="t", run_id="r4")
    assert engine.prune(keep=0) == ["r0", "r2", "r3"]  # r1 is the parent of a fork
    assert [run.run_id for run in engine.thread("t").runs] == ["r4"]
    assert engine.resume("r4", answer=False).status == "completed"
    assert engine.resume("f", answer=True).status == "completed"
    assert all(readable(engine, run_id) for run_id in ("r1", "f", "r4"))
    engine.close()


def test_a_turn_that_another_process_executes_is_not_changed_by_pruning(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    engine, other = Engine(CHAT, store=SQLiteStore(path)), Engine(store=SQLiteStore(path))
    for turn in range(4):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
    events = engine.stream({"messages": ["live"]}, thread="t", run_id="r4")
    next(events)
    assert other.prune(keep=0) == ["r0", "r1", "r2"]  # r4 needs r3
    assert [event.kind for event in events][-1] == "run_finished"
    assert [run.run_id for run in other.thread("t").runs] == ["r3", "r4"]
    assert list(other.store.check()) == []
    for each in (engine, other):
        each.close()


# -- reruns and forks of turns ------------------------------------------------------------------------------------


def readable(engine: Engine, run_id: str) -> bool:
    """Whether a run can be read, verified and replayed."""
    state = engine.state(run_id)
    return engine.history(run_id)[-1].digest == state.digest and engine.replay(run_id).ok


def test_a_turn_can_be_run_again(store: Store) -> None:
    engine = Engine(CHAT, store=store)
    for turn in (1, 2):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"t{turn}")
    again = engine.rerun("t2", run_id="again")
    assert again["messages"] == engine.state("t2").get("messages")
    forced = engine.rerun("t2", run_id="forced", force=["reply"])
    assert forced["messages"] == again["messages"]
    other = engine.rerun("t2", run_id="other", values={"messages": Overwrite(["x"])})
    assert other["messages"] == ["x", "re: x"]
    assert all(readable(engine, run_id) for run_id in ("again", "forced", "other", "t2"))
    assert engine.run({"messages": ["m3"]}, thread="t")["messages"][-1] == "re: m3"
    engine.close()


def test_a_turn_after_a_fork_with_values_that_has_no_step(store: Store) -> None:
    engine = Engine(Graph([ask], state=Asking), store=store)
    engine.run({"messages": ["a"]}, thread="t", run_id="r1")
    engine.resume("r1", answer=True)
    fork = engine.fork("r1", step=0, values={"messages": Overwrite(["b"])}, thread="t", run_id="f")
    assert (fork.status, fork.last_step) == ("waiting", 0)
    with pytest.warns(GraphWarning):
        engine.run({"messages": ["c"]}, thread="t", run_id="r2", drop=True)
    assert engine.state("r2").get("messages") == ["b", "c"]
    assert engine.resume("r2", answer=True)["messages"] == ["b", "c"]
    assert engine.run({"messages": ["d"]}, thread="t", run_id="r3").questions[0].question == "d?"
    assert all(readable(engine, run_id) for run_id in ("f", "r2", "r3"))
    engine.close()


def test_a_fork_of_a_fork_can_be_run_again(store: Store) -> None:
    @node(output="said")
    def say(word: str, tone: str) -> str:
        return f"{word} {tone}"

    engine = Engine(Graph([say]), store=store)
    engine.run({"word": "a", "tone": "x"}, run_id="r")
    engine.fork("r", step=0, values={"tone": "y"}, run_id="f1")
    engine.fork("f1", step=0, run_id="f2")
    engine.rerun("f2", run_id="q")
    assert engine.state("q").get("said") == "a y"
    assert engine.state("f2").get_version("tone") == engine.state("f1").get_version("tone")
    assert all(readable(engine, run_id) for run_id in ("f1", "f2", "q"))
    assert list(store.check()) == []
    engine.close()


def test_a_turn_counts_its_own_steps(store: Store) -> None:
    """`max_steps` limits each turn, also after a resume, a fork, a rerun or an update of it."""
    engine = Engine(CHAT, store=store, max_steps=3)
    for turn in range(6):
        engine.run({"messages": [f"m{turn}"]}, thread="t", run_id=f"r{turn}")
    paused = engine.run({"messages": ["p"]}, thread="t", run_id="p", stop_before=["reply"])
    assert (paused.status, position_of(paused.state).began) == ("paused", 6)
    assert engine.resume("p").status == "completed"
    assert engine.replay("p").ok
    assert engine.rerun("p", run_id="again")["messages"] == engine.state("p").get("messages")
    assert engine.fork("p", step=6, run_id="f", thread="t").status == "completed"
    assert engine.update("f", {"messages": ["by hand"]}).status == "paused"
    assert engine.resume("f").status == "completed"
    state = engine.run({"messages": ["end"]}, thread="t").state
    restored = GraphState.from_checkpoint(state.to_checkpoint())
    assert position_of(restored).began == position_of(state).began == 9
    engine.close()


@pytest.mark.filterwarnings("ignore::clew.errors.GraphWarning")
def test_a_turn_that_does_not_settle(store: Store) -> None:
    @node(output="count")
    def more(count: int) -> int:
        return count + 1

    @node(output="seen")
    def see(count: int) -> int:
        return count

    engine = Engine(Graph([more, see], edges=[("see", "more")]), store=store, max_steps=3)
    for turn in (1, 2):
        with pytest.raises(MaxStepsError, match="in 3 steps"):
            engine.run({"count": 0}, thread="t", run_id=f"r{turn}")
        assert engine.result(f"r{turn}").last_step == 3 * turn
    engine.close()
