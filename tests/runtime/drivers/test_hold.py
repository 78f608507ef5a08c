"""Sessions that release their run while every branch waits; re-opening continues it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.runtime.drivers.hold import Hold
from clew.runtime.opener import NO_ANSWER
from clew.testing import VirtualClock

HOUR = 3600.0
_PLAIN = (NO_ANSWER, None, False)


def graph(calls: list[str]) -> Graph:
    @node(output="x")
    def nap(a: int, ctx: Context) -> float:
        calls.append("nap")
        drawn = ctx.random.random()
        ctx.sleep(HOUR)
        return drawn + a

    @node(output="y")
    def wait(a: int, ctx: Context) -> Any:
        calls.append("wait")
        return ctx.wait_for("paid")

    return Graph([nap, wait])


def released(engine: Engine) -> Any:
    """Resume a run as a worker does."""
    hold = Hold("r")

    def opening() -> Any:
        session: Any = engine._execution.resumed(hold, *_PLAIN)
        session.releases = True
        return session

    return engine._execution.drive(hold, opening, False)


def begun(engine: Engine) -> Any:
    hold = engine._execution.new_hold("r")

    def opening() -> Any:
        session = engine._opener.new({"a": 1}, "r", owner=hold.owner)
        session.releases = True
        return session

    return engine._execution.drive(hold, opening, False)


def test_releases_and_wake_ups_do_not_show(tmp_path: Path) -> None:
    calls: list[str] = []
    clock = VirtualClock()
    store = SQLiteStore(tmp_path / "r.db", clock=clock)
    with Engine(graph(calls), store=store, clock=clock) as engine:
        assert begun(engine).status == "sleeping"
        assert engine.store.row("r").status == "sleeping"
        assert engine.store.owner("r") is None
        calls.clear()
        assert released(engine).status == "sleeping"
        assert calls == []  # nothing was due
        clock.advance(HOUR)
        assert released(engine).status == "sleeping"
        assert calls == ["nap"]
        engine.signal("r", "paid", 3)
        result = released(engine)
        assert (result.status, result["y"], calls) == ("completed", 3, ["nap", "wait"])
        made = [each.state.digest for each in engine.history("r")]
        assert engine.replay("r").ok
    with Engine(graph([]), clock=VirtualClock()) as plain:
        session = plain._execution.open_session({"a": 1}, "r")
        plain.store.send("r", "1", "signal", ("paid", 3))
        plain._execution.leave(session)
        plain.resume("r")
        assert [each.state.digest for each in plain.history("r")] == made


def test_a_sleeping_run_is_cancelled_directly(tmp_path: Path) -> None:
    with Engine(graph([]), store=SQLiteStore(tmp_path / "r.db"), clock=VirtualClock()) as engine:
        begun(engine)
        assert engine.cancel("r")
        assert engine.store.row("r").status == "cancelled"
        assert not engine.cancel("r")


def test_a_message_to_another_owner_cancels_its_run(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "r.db")
    with Engine(graph([]), store=store) as engine:
        handle = engine.start({"a": 1}, run_id="r")
        other = Engine(graph([]), store=SQLiteStore(tmp_path / "r.db"))
        assert other.handle("r").cancel()
        assert handle.result(300, check=False).status == "cancelled"
        other.close()
