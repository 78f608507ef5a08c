"""The clock of a worker follows that of its store, also if the machine is busy while it is measured."""

from __future__ import annotations

import pytest

from clew.runtime.workers.store_clock import StoreClock
from clew.stores import MemoryStore

AHEAD = 1000.0


class Machine:
    """A machine that is suspended for some seconds before the store answers, and for some before the answer is read."""

    virtual = False

    def __init__(self, *pauses: tuple[float, float]) -> None:
        self.now = 0.0
        self._pauses = list(pauses)

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def answer(self) -> float:
        before, after = self._pauses.pop(0)
        self.now += before
        found = self.now + AHEAD
        self.now += after
        return found


@pytest.mark.parametrize(
    "pauses, error",
    [
        ([(0.0, 0.0)], 0.0),
        ([(0.001, 0.002)], 0.001),
        ([(30.0, 0.0), (0.0, 0.0)], 0.0),  # it was suspended
        ([(0.0, 30.0), (0.0, 2.0), (0.001, 0.002)], 0.001),
        ([(0.02, 0.05), (0.0, 0.2), (0.3, 0.0)], 0.02),  # the best of a slow server
    ],
)
def test_the_shortest_answer_counts(
    monkeypatch: pytest.MonkeyPatch, pauses: list[tuple[float, float]], error: float
) -> None:
    machine, store = Machine(*pauses), MemoryStore()
    monkeypatch.setattr(store, "time", machine.answer)
    clock = StoreClock(machine, store)
    clock.measure()
    assert machine._pauses == []
    assert abs(clock.time() - machine.now - AHEAD) <= error
