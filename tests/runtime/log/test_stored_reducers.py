"""A reducer that generates ids, on durable stores: values are equal at every read, digests fit, and no verb that reads
calls it.

The reducer is like LangGraph's ``add_messages``: it gives each message an id, and replaces messages that have a known
one. Called again, it would give other ids.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest

import clew
from clew import Engine, Graph, SQLiteStore, ifelse, node
from clew.cli.commands.doctor import examine
from clew.errors import GraphWarning
from clew.stores import Store

calls: list[int] = []


def add_messages(left: list[Any], right: Any) -> list[Any]:
    """Append messages, each with an id of its own; one with a known id takes the place of the older one."""
    calls.append(1)
    merged = list(left)
    for message in right if isinstance(right, list) else [right]:
        given = {**message, "id": message.get("id") or str(uuid4())}
        known = [i for i, each in enumerate(merged) if each["id"] == given["id"]]
        if known:
            merged[known[0]] = given
        else:
            merged.append(given)
    return merged


class Talk(TypedDict, total=False):
    n: int
    slow: int
    seen: str
    messages: Annotated[list[Any], add_messages]


@node(writes=("messages", "n"))
def say(n: int, messages: list[Any]) -> dict[str, Any]:
    update: list[Any] = [{"text": f"turn {n}"}]
    if messages:
        update.append({**messages[-1], "text": "edited"})
    return {"messages": update, "n": n + 1}


@ifelse(when_true="say", when_false="look")
def more(n: int) -> bool:
    return n < 6


@node(output="slow")
def beside(n: int) -> int:
    return n


@node(output="seen")
def look(messages: list[Any]) -> str:
    return repr(messages)


def graph() -> Graph:
    return Graph([say, more, beside, look], state=Talk)


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    if request.param == "sqlite":
        yield lambda: SQLiteStore(tmp_path / "runs.db")
    else:
        yield request.getfixturevalue("open_postgres")


START: dict[str, Any] = {"n": 0, "messages": []}


def readings(engine: Engine, run_id: str) -> list[Any]:
    """What every verb that reads says of the values of a run."""
    state = engine.state(run_id)
    found = [state.get("messages"), engine.result(run_id).state.get("messages")]
    history = engine.history(run_id)
    found += [history[-1].state.get("messages"), engine.state(run_id, step=state.step).get("messages")]
    assert [each.digest for each in history] == [engine.state(run_id, step=e.step_id).digest for e in history]
    (
        engine.why(run_id, "messages"),
        engine.frontier(run_id),
        engine.export_run(run_id),
        engine.diff(run_id, run_id),
    )
    return found


def test_every_read_gives_what_the_commit_made(open_store: Callable[[], Store]) -> None:
    result = Engine(graph(), store=open_store()).run(START, run_id="r")
    made = result.state.get("messages")
    assert [each["text"] for each in made] == ["edited"] * 5 + ["turn 5"]
    calls.clear()
    for engine in (Engine(graph(), store=open_store()), Engine(store=open_store())):
        assert readings(engine, "r") == [made] * 4
    assert engine.state("r").digest == result.state.digest
    assert examine(engine.store)["damage"] == []
    assert calls == []


def test_a_fork_keeps_the_ids_and_calls_the_reducer_for_new_steps_only(
    open_store: Callable[[], Store],
) -> None:
    engine = Engine(graph(), store=open_store())
    engine.run(START, run_id="r")
    before = engine.state("r", step=5).get("messages")
    calls.clear()
    fork = engine.fork("r", step=5, values={"n": 4}, run_id="f")
    made = fork.state.get("messages")
    assert [each["id"] for each in made[: len(before)]] == [each["id"] for each in before]
    assert len(calls) == sum(
        1 for each in engine.history("f")[1:] for item in each.items if item.startswith("say")
    )
    calls.clear()
    assert readings(Engine(store=open_store()), "f") == [made] * 4
    assert examine(engine.store)["damage"] == []
    assert calls == []


def test_a_replay_calls_no_reducer_and_a_rerun_does(open_store: Callable[[], Store]) -> None:
    engine = Engine(graph(), store=open_store())
    engine.run(START, run_id="r")
    calls.clear()
    assert engine.replay("r").ok
    assert calls == []
    again = engine.rerun("r", run_id="again").state.get("messages")
    assert calls
    assert [each["text"] for each in again] == [each["text"] for each in engine.state("r").get("messages")]


PROGRAM = """
    import os, signal, sys
    from clew import Engine, SQLiteStore
    from tests.runtime.log import test_stored_reducers as here

    from clew import node

    @node(output="seen")
    def look(messages):
        os.kill(os.getpid(), signal.SIGKILL)

    graph = here.Graph([here.say, here.more, here.beside, look], state=here.Talk)
    Engine(graph, store=SQLiteStore(sys.argv[1])).run(here.START, run_id="r")
"""


def test_a_killed_run_is_resumed_with_the_ids_that_it_had(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    source = Path(clew.__file__).parents[1]
    where = os.pathsep.join([str(source), str(Path(__file__).parents[3])])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(file)], env={**os.environ, "PYTHONPATH": where}
    )
    assert done.returncode == -signal.SIGKILL
    here = import_module("tests.runtime.log.test_stored_reducers")  # as the program knows it
    here.calls.clear()
    before = Engine(store=SQLiteStore(file)).state("r").get("messages")
    assert len(before) == 6
    engine = Engine(here.graph(), store=SQLiteStore(file))
    with pytest.warns(GraphWarning):  # the code of `look` is another
        result = engine.resume("r")
    assert (result.state.get("messages"), result["seen"]) == (before, repr(before))
    assert here.calls == []  # no step was committed again
