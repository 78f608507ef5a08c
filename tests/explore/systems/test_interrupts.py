"""Ctrl-C waits until a system has finished what it does."""

from __future__ import annotations

import signal

import pytest

from clew.explore.systems import RedisSystem
from clew.explore.systems.interrupts import uninterrupted
from clew.explore.systems.postgres.deltas import Deltas
from clew.explore.systems.postgres.savepoints import Savepoints
from clew.explore.systems.sqlite.system import SQLiteSystem


def test_an_interrupt_is_raised_at_the_end() -> None:
    done = []

    @uninterrupted
    def inner() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("inner")

    @uninterrupted
    def outer() -> None:
        inner()
        done.append("outer")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            outer()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["inner", "outer"]


@pytest.mark.parametrize("system", [Deltas, Savepoints, RedisSystem, SQLiteSystem])
@pytest.mark.parametrize("method", ["observe", "checkpoint", "rollback", "release"])
def test_systems_finish_what_they_do(system: type, method: str) -> None:
    assert hasattr(getattr(system, method), "__wrapped__")
