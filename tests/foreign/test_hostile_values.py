"""Values that break careless code: arrays in exceptions, integers too long to print, results read during a change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import RunStateError
from clew.stores import Store
from tests.store_fixtures import local_store

store = local_store

HUGE = 2**20_000 - 1


@pytest.mark.parametrize("rescued", [False, True])
def test_an_array_is_the_only_argument_of_an_exception(store: Store, rescued: bool) -> None:
    @node(output="a", rescue=(lambda error: "saved") if rescued else None)
    def check(points: int) -> str:
        raise ValueError(np.array([1, 2]))

    engine = Engine(Graph([check]), store=store)
    result = engine.run({"points": 1}, run_id="r", check=False)
    assert result.status == ("completed" if rescued else "failed")
    assert engine.result("r").status == result.status
    error: Any = engine.result("r").failures[0].error
    assert error.args[0].tolist() == [1, 2]
    assert engine.export_run("r")["run_id"] == "r"
    assert engine.resume("r", check=False).status == result.status


def test_a_question_with_an_integer_that_is_too_long_to_print(store: Store) -> None:
    @node(output="b")
    def ask(a: int, ctx: Context) -> Any:
        return ctx.interrupt(HUGE)

    engine = Engine(Graph([ask]), store=store)
    assert engine.run({"a": 1}, run_id="r").questions[0].question == HUGE
    with pytest.raises(RunStateError):
        engine.resume("r")
    assert engine.resume("r", answer=3)["b"] == 3


def test_a_node_reads_an_integer_that_is_too_long_to_print(store: Store) -> None:
    @node(output="b")
    def odd(a: int, huge: int = HUGE) -> bool:
        return (HUGE + huge + a) % 2 == 1

    graph = Graph([odd])
    assert Engine(graph, store=store).run({"a": 1})["b"] is True
    assert len(graph.code_hash) == 64


def test_a_result_is_read_while_another_engine_continues_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @interrupt(output="b")
    def ask(a: int) -> str:
        return "b?"

    @node(output="c")
    def end(b: int) -> int:
        return b + 1

    graph = Graph([ask, end])
    Engine(graph, store=SQLiteStore(tmp_path / "runs.db")).run({"a": 1}, run_id="r")
    reader = SQLiteStore(tmp_path / "runs.db")
    engine, read = Engine(graph, store=reader), reader.row

    def row_and_then_an_answer(run_id: str) -> Any:
        found = read(run_id)
        monkeypatch.setattr(reader, "row", read)
        Engine(graph, store=SQLiteStore(tmp_path / "runs.db")).resume("r", answer=1)
        return found

    monkeypatch.setattr(reader, "row", row_and_then_an_answer)
    result = engine.result("r")
    assert (result.status, dict(result.values)) == ("completed", {"a": 1, "b": 1, "c": 2})


@pytest.mark.parametrize(
    "words, code", [(["a=\u00e9\u4e2d"], 0), (["a=" + "[" * 50_000], 2)], ids=["not ASCII", "nested"]
)
def test_arguments_of_the_command_line(tmp_path: Path, words: list[str], code: int) -> None:
    (tmp_path / "flow.py").write_text(
        "from clew import Graph, node\ngraph = Graph([node(lambda a: a, name='n', output='b')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "clew", "run", "flow:graph", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"unexpected" not in done.stderr
