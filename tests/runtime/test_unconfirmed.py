"""A store that does what it is asked and cannot say so, or cannot be read for a moment: no run is lost to anybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from clew import Context, Engine, Graph, interrupt, node
from clew.errors import StoreUnavailableError
from clew.explore.checking.disk import Disk
from clew.explore.checking.line import Line


@node(output="y")
def double(x: int) -> int:
    return 2 * x


@interrupt(output="ok")
def approve(x: int) -> str:
    return f"pay {x}?"


@contextmanager
def failing(line: Line, operation: str, how: str) -> Iterator[None]:
    """Each such operation fails."""
    line.on_operation = lambda name: how if name == operation else None
    with pytest.raises(StoreUnavailableError, match=operation):
        yield
    line.on_operation = None


def test_a_run_whose_creation_was_not_confirmed_is_gone_on_with_by_the_same_engine() -> None:
    line = Line(Disk())
    with Engine(Graph([double]), store=line) as engine:
        with failing(line, "create", "unconfirmed"):
            engine.run({"x": 2}, run_id="one")
        assert engine.resume("one").state.values["y"] == 4


def test_a_run_whose_creation_was_refused_can_be_started_again() -> None:
    line = Line(Disk())
    with Engine(Graph([double]), store=line) as engine:
        with failing(line, "create", "refused"):
            engine.run({"x": 2}, run_id="one")
        assert engine.run({"x": 2}, run_id="one").state.values["y"] == 4


def test_a_claim_that_was_not_confirmed_keeps_nobody_out() -> None:
    line = Line(Disk())
    with Engine(Graph([approve]), store=line) as engine:
        assert engine.run({"x": 2}, run_id="one").status == "waiting"
        with failing(line, "claim", "unconfirmed"):
            engine.resume("one", answer=True)
        assert engine.resume("one", answer=True).state.values["ok"] is True


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_recordings_that_cannot_be_read_are_no_failure_of_their_node(on_error: str) -> None:
    """The body would have gone on without its call, and the run have ended with that."""
    calls: list[str] = []
    line = Line(Disk())

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
    line = Line(Disk())
    line.on_operation = lambda name: "refused"
    with Engine(Graph([double]), store=line) as engine:
        for _ in range(1_100):
            with pytest.raises(StoreUnavailableError):
                engine.run({"x": 2})
        assert len(engine._opener._left) <= 1_000
