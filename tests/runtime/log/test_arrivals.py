"""A run that is read from a snapshot knows which nodes have arrived at a join."""

from __future__ import annotations

from pathlib import Path

from clew import Context, Engine, Graph, SQLiteStore, all_of, ifelse, node

ROUNDS = 40


@node(output="first")
def prepare(seed: int) -> int:
    return seed


@node(output="text")
def grow(seed: int, text: str = "") -> str:
    return "x" * 70_000 + str(len(text))  # large, so that snapshots are soon worth their size


@node(output="count")
def tally(text: str, count: int = 0) -> int:
    return count + 1


@ifelse(when_true="approve", when_false="grow")
def is_enough(count: int) -> bool:
    return count > ROUNDS


@node(output="approval")
def approve(ctx: Context, count: int) -> object:
    return ctx.interrupt("go on?")


@node(output="done", after=all_of("prepare", "approve"))
def publish(first: int) -> str:
    return "published"


def test_a_join_runs_after_its_run_was_resumed_from_a_snapshot(tmp_path: Path) -> None:
    graph, path = Graph([prepare, grow, tally, is_enough, approve, publish]), tmp_path / "runs.db"
    with Engine(graph, store=SQLiteStore(path)) as engine:
        assert engine.run({"seed": 1}, run_id="r").status == "waiting"
        assert list(engine.store.find("r", "snapshot", ""))
    with Engine(graph, store=SQLiteStore(path)) as engine:
        assert engine.resume("r", answer=True)["done"] == "published"
