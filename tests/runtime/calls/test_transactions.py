"""Writes to the store's own database: committed with the step that made them, exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SQLiteStore, node
from clew.errors import StoreError
from clew.runtime.process import crash_points
from tests.runtime.killed import as_if_killed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "runs.db"
    SQLiteStore(file).close()
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE payments (run TEXT, amount INTEGER CHECK (amount > 0))")
    return file


def payments(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as db:
        return [amount for (amount,) in db.execute("SELECT amount FROM payments ORDER BY rowid")]


PAY = "INSERT INTO payments VALUES (?, ?)"


@node(output="paid")
def pay(amount: int, ctx: Context) -> int:
    with ctx.transaction() as db:
        db.execute(PAY, (ctx.run_id, amount))
    return amount


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_write_is_there_when_the_run_has_ended(file: Path, durability: str) -> None:
    Engine(Graph([pay]), store=SQLiteStore(file), durability=durability).run({"amount": 5})
    assert payments(file) == [5]


def test_it_is_not_there_before_the_node_has_returned(file: Path) -> None:
    found: list[list[int]] = []

    @node(output="paid")
    def look(amount: int, ctx: Context) -> int:
        with ctx.transaction() as db:
            db.execute(PAY, ("r", amount))
        found.append(payments(file))
        return amount

    Engine(Graph([look]), store=SQLiteStore(file)).run({"amount": 5})
    assert found == [[]]


@pytest.mark.parametrize("point", ["before-append", "after-append"])
def test_a_crash_around_the_commit_leaves_step_and_write_or_neither(file: Path, point: str) -> None:
    left: list[SQLiteStore] = []
    crash_points.watch(lambda reached: left.append(as_if_killed(file)) if reached == point else None)
    try:
        Engine(Graph([pay]), store=SQLiteStore(file)).run({"amount": 5}, run_id="r")
    finally:
        crash_points.watch(None)
    store = left[0]
    assert len(payments(store.path)) == len(store.find("r", "step", ""))
    assert Engine(Graph([pay]), store=store).resume("r")["paid"] == 5
    assert payments(store.path) == [5]


def test_an_item_that_waits_for_its_step_has_written_once(file: Path) -> None:
    fail = True

    @node(output="other")
    def shaky(amount: int) -> int:
        if fail:
            raise ValueError
        return amount

    engine = Engine(Graph([pay, shaky]), store=SQLiteStore(file), max_concurrent_nodes=1)
    engine.run({"amount": 5}, run_id="r", check=False)
    assert payments(file) == [5]
    fail = False
    assert engine.resume("r").status == "completed"
    assert payments(file) == [5]


def test_an_attempt_that_failed_writes_nothing(file: Path) -> None:
    @node(output="paid", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def pay_twice(amount: int, ctx: Context) -> int:
        with ctx.transaction() as db:
            db.execute(PAY, (ctx.run_id, amount + ctx.attempt))
        if ctx.attempt == 0:
            raise ValueError
        return amount

    Engine(Graph([pay_twice]), store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == [6]


def test_a_node_whose_result_is_refused_writes_nothing(file: Path) -> None:
    @node(output=("a", "b"))
    def wrong(amount: int, ctx: Context) -> Any:
        with ctx.transaction() as db:
            db.execute(PAY, (ctx.run_id, amount))
        return 1

    assert Engine(Graph([wrong]), store=SQLiteStore(file)).run({"amount": 5}, check=False).status == "failed"
    assert payments(file) == []


@pytest.mark.parametrize("unfit", [1, (1, object())])
def test_a_confined_node_whose_result_is_refused_writes_nothing(file: Path, unfit: Any) -> None:
    @node(output=("a", "b"))
    def wrong(amount: int, ctx: Context) -> Any:
        with ctx.transaction() as db:
            db.execute(PAY, (ctx.run_id, amount))
        return unfit

    result = Engine(Graph([wrong]), store=SQLiteStore(file), on_error="continue").run({"amount": 5})
    assert [failure.path for failure in result.failures] == ["wrong#0"]
    assert payments(file) == []


def test_what_a_block_left_by_an_exception_wanted_is_not_written(file: Path) -> None:
    @node(output="paid")
    def careful(amount: int, ctx: Context) -> int:
        try:
            with ctx.transaction() as db:
                db.execute(PAY, (ctx.run_id, amount))
                raise LookupError
        except LookupError:
            return 0

    Engine(Graph([careful]), store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == []


def test_blocks_of_a_node_are_written_in_order(file: Path) -> None:
    @node(output="paid")
    def twice(amount: int, ctx: Context) -> int:
        with ctx.transaction() as db:
            db.execute(PAY, (ctx.run_id, 1))
        with ctx.transaction() as db:
            db.executemany(PAY, [(ctx.run_id, 2), (ctx.run_id, 3)])
            db.execute("UPDATE payments SET amount = amount * 10 WHERE run = :run", {"run": ctx.run_id})
        return amount

    Engine(Graph([twice]), store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == [10, 20, 30]


def test_what_the_database_refuses_is_raised_in_the_node(file: Path) -> None:
    @node(output="paid")
    def refused(amount: int, ctx: Context) -> str:
        try:
            with ctx.transaction() as db:
                db.execute(PAY, (ctx.run_id, -1))
        except sqlite3.IntegrityError as error:
            return str(error)
        return ""

    result = Engine(Graph([refused]), store=SQLiteStore(file)).run({"amount": 5})
    assert result["paid"] == "CHECK constraint failed: amount > 0"


def test_the_node_does_not_end_the_transaction(file: Path) -> None:
    @node(output="paid")
    def ends(amount: int, ctx: Context) -> None:
        with ctx.transaction() as db:
            db.execute("COMMIT")

    error = Engine(Graph([ends]), store=SQLiteStore(file)).run({"amount": 5}, check=False).error
    assert isinstance(error, ValueError)
    assert "'COMMIT' is not allowed" in str(error)


def test_an_async_node_writes_too(file: Path) -> None:
    @node(output="paid")
    async def apay(amount: int, ctx: Context) -> int:
        with ctx.transaction() as db:
            db.execute(PAY, (ctx.run_id, amount))
        return amount

    Engine(Graph([apay]), store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == [5]


def test_a_node_inside_a_subgraph_writes_too(file: Path) -> None:
    graph = Graph([Graph([pay], name="inner").as_node()])
    Engine(graph, store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == [5]


def test_nodes_beside_each_other_write_in_the_order_of_their_outcomes(file: Path) -> None:
    nodes: list[Callable[..., Any]] = [
        pay.rename(name=f"pay{i}", outputs={"paid": f"p{i}"}) for i in range(3)
    ]
    Engine(Graph(nodes), store=SQLiteStore(file)).run({"amount": 5})
    assert payments(file) == [5, 5, 5]


@pytest.mark.parametrize("verb", ["replay", "rerun"])
def test_neither_replay_nor_rerun_write_again(file: Path, verb: str) -> None:
    engine = Engine(Graph([pay]), store=SQLiteStore(file))
    engine.run({"amount": 5}, run_id="r")
    assert getattr(engine, verb)("r")
    assert payments(file) == [5]


def test_a_store_in_memory_has_no_database() -> None:
    error = Graph([pay]).run({"amount": 5}, check=False).error
    assert isinstance(error, StoreError)
    assert "memory store" in str(error)
