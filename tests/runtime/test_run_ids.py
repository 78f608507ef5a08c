"""Which strings may name a run."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore
from clew.errors import InputError


def double(a: int) -> int:
    return 2 * a


GRAPH = Graph([double])

BAD = [
    "",
    "a\nb",
    "\x1b[31m",
    "\x7f",
    "\x9b31m",
    "a\u2028b",
    "\ud800",
    "x" * 256,
    7,
    b"r",
    "\u200b",
    "\ufeff\u200d",
    "  ",
]
GOOD = ["r", "x" * 255, "mit Leerzeichen", "日本", "a/b:c", "😀", "👩\u200d👧"]


@pytest.mark.parametrize("run_id", BAD)
def test_an_id_that_could_not_be_printed_is_rejected(run_id: str) -> None:
    engine = Engine(GRAPH)
    with pytest.raises(InputError):
        engine.run({"a": 1}, run_id=run_id)
    assert engine.runs() == []


@pytest.mark.parametrize("run_id", BAD)
def test_forks_and_reruns_follow_the_same_rule(run_id: str) -> None:
    engine = Engine(GRAPH)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(InputError):
        engine.fork("r", step=0, run_id=run_id)
    with pytest.raises(InputError):
        engine.rerun("r", run_id=run_id)
    assert [row.run_id for row in engine.runs()] == ["r"]


@pytest.mark.parametrize("run_id", GOOD)
def test_any_text_of_one_line_is_an_id(run_id: str) -> None:
    assert Engine(GRAPH).run({"a": 1}, run_id=run_id).run_id == run_id


VERBS: dict[str, Callable[[Engine, Any], Any]] = {
    "resume": lambda engine, run: engine.resume(run),
    "aresume": lambda engine, run: asyncio.run(engine.aresume(run)),
    "result": lambda engine, run: engine.result(run),
    "state": lambda engine, run: engine.state(run),
    "history": lambda engine, run: engine.history(run),
    "why": lambda engine, run: engine.why(run, "double"),
    "fork": lambda engine, run: engine.fork(run, step=0),
    "rerun": lambda engine, run: engine.rerun(run),
    "replay": lambda engine, run: engine.replay(run),
    "update": lambda engine, run: engine.update(run, {"a": 2}),
    "handle": lambda engine, run: engine.handle(run),
    "cancel": lambda engine, run: engine.cancel(run),
    "delete": lambda engine, run: engine.delete(run),
    "export_run": lambda engine, run: engine.export_run(run),
    "stream": lambda engine, run: list(engine.stream(run_id=run, answer=1)),
    "diff": lambda engine, run: engine.diff("r", run),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("is_durable", [False, True])
def test_an_existing_run_is_named_by_a_string(verb: str, is_durable: bool, tmp_path: Path) -> None:
    with Engine(GRAPH, store=SQLiteStore(tmp_path / "runs.db") if is_durable else None) as engine:
        result = engine.run({"a": 1}, run_id="r")
        for run in (result, uuid.uuid4(), ["r"], 5, b"r"):
            with pytest.raises(InputError, match="string"):
                VERBS[verb](engine, run)
        with pytest.raises(InputError, match="give its run_id, 'r'"):
            VERBS[verb](engine, result)
        assert [row.run_id for row in engine.runs()] == ["r"]
