"""A store that does what it is asked and cannot say so, or cannot be read for a moment: no run is lost to anybody."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from clew import Context, Engine, Graph, SQLiteStore, interrupt, node
from clew.errors import StoreUnavailableError, UnknownRunError
from clew.explore.checking.faulty_store import FaultyStore
from clew.explore.checking.simulated_disk import SimulatedDisk


@node(output="y")
def double(x: int) -> int:
    return 2 * x


@interrupt(output="ok")
def approve(x: int) -> str:
    return f"pay {x}?"


@contextmanager
def failing(line: FaultyStore, operation: str, how: str) -> Iterator[None]:
    """Each such operation fails."""
    line.on_operation = lambda name: how if name == operation else None
    with pytest.raises(StoreUnavailableError, match=operation):
        yield
    line.on_operation = None


def test_a_run_whose_creation_was_not_confirmed_is_gone_on_with_by_the_same_engine() -> None:
    line = FaultyStore(SimulatedDisk())
    with Engine(Graph([double]), store=line) as engine:
        with failing(line, "create", "unconfirmed"):
            engine.run({"x": 2}, run_id="one")
        assert engine.resume("one").state.values["y"] == 4


def test_a_run_whose_creation_was_refused_can_be_started_again() -> None:
    line = FaultyStore(SimulatedDisk())
    with Engine(Graph([double]), store=line) as engine:
        with failing(line, "create", "refused"):
            engine.run({"x": 2}, run_id="one")
        assert engine.run({"x": 2}, run_id="one").state.values["y"] == 4


def test_a_claim_that_was_not_confirmed_keeps_nobody_out() -> None:
    line = FaultyStore(SimulatedDisk())
    with Engine(Graph([approve]), store=line) as engine:
        assert engine.run({"x": 2}, run_id="one").status == "waiting"
        with failing(line, "claim", "unconfirmed"):
            engine.resume("one", answer=True)
        assert engine.resume("one", answer=True).state.values["ok"] is True


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_recordings_that_cannot_be_read_are_no_failure_of_their_node(on_error: str) -> None:
    """The body would have gone on without its call, and the run have ended with that."""
    calls: list[str] = []
    line = FaultyStore(SimulatedDisk())

    @node(output="sent")
    def send(ok: bool, ctx: Context) -> str:
        try:
            ctx.record("send", calls.append, "sent")
        except Exception:
            return "not sent"
        return "sent"

    with Engine(Graph([approve, send]), store=line, on_error=on_error) as engine:
        assert engine.run({"x": 2}, run_id="one").status == "waiting"
        with failing(line, "find", "refused"):
            engine.resume("one", answer=True)
        assert engine.resume("one").state.values["sent"] == "sent"
    assert calls == ["sent"]


def test_a_store_that_stays_away_does_not_make_an_engine_grow() -> None:
    line = FaultyStore(SimulatedDisk())
    line.on_operation = lambda name: "refused"
    with Engine(Graph([double]), store=line) as engine:
        for _ in range(1_100):
            with pytest.raises(StoreUnavailableError):
                engine.run({"x": 2})
        assert len(engine._opener._unreleased) <= 1_000


def test_a_claim_of_a_run_that_is_pruned_keeps_nobody_out() -> None:
    line = FaultyStore(SimulatedDisk())
    with Engine(Graph([double]), store=line) as engine:
        engine.run({"x": 2}, run_id="one")
        with failing(line, "claim", "unconfirmed"):
            engine.prune(keep=0)
        assert engine.prune(keep=0) == ["one"]


def test_a_run_that_is_deleted_while_it_is_forked_has_no_fork() -> None:
    line = FaultyStore(SimulatedDisk())
    with Engine(Graph([double]), store=line) as engine:
        engine.run({"x": 2}, run_id="one")

        def delete_first(operation: str) -> None:
            if operation == "create":
                line._store.delete("one")

        line.on_operation = delete_first
        with pytest.raises(UnknownRunError, match="run 'one' does not exist"):
            engine.fork("one", step=0, run_id="two")
        line.on_operation = None
        assert engine.runs() == []


def test_a_write_that_the_store_cannot_try_out_is_no_failure_of_its_node(tmp_path: Path) -> None:
    """The body would have gone on without it, and the run have ended with that."""
    store = SQLiteStore(tmp_path / "runs.db", timeout=0.0)

    @node(output="paid")
    def pay(x: int, ctx: Context) -> str:
        try:
            with ctx.transaction() as db:
                db.execute("CREATE TABLE paid (x INTEGER)")
        except Exception:
            return "not paid"
        return "paid"

    with Engine(Graph([pay]), store=store) as engine:
        session = engine._execution.open_session({"x": 1}, run_id="one")
        item = session.take()
        assert item is not None
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # another process writes, and takes its time
            assert session.call(item) == "not paid"
            other.execute("ROLLBACK")
        session.returned(item, 0, "not paid", 0.0, 0.0)
        with pytest.raises(StoreUnavailableError, match=r"another process has locked"):
            engine._execution.close_session(session)
        store.release("one", session.fence)
        engine._execution.leave(session)
        assert engine.resume("one").state.values["paid"] == "paid"
