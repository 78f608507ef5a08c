"""Ctrl-C that Python discards reaches the command all the same."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from clew.cli.interrupts import redeliver_interrupts


class Interrupted:
    """Its finalizer is where Ctrl-C arrives."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_in_a_finalizer_is_raised_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    redeliver_interrupts()
    with pytest.raises(KeyboardInterrupt):
        discard_an_interrupt()


def test_other_discarded_exceptions_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    redeliver_interrupts()
    discarded = SimpleNamespace(exc_type=ValueError)
    sys.unraisablehook(discarded)
    assert reported == [discarded]


def discard_an_interrupt(seconds: float = 300.0) -> None:
    thing = Interrupted()
    del thing
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.01)
