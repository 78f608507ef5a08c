"""The children of a simulated process: `ctx.run` in a checked graph.

A child is a separate run on the simulated disk, opened and resumed by the code that an engine uses. It is driven to
its end inside the choice that executes its node, as its `ChildSchedule` says. So every crash point and every operation
of the store inside a child is a point of that choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.explore.checking.child_schedules import ChildSchedule
from clew.explore.checking.simulated_process import Note, SimulatedProcess
from clew.graph import Graph
from clew.runtime.children.child_runs import ChildRun
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.inspection import read_result
from clew.runtime.opener import RunOpener
from clew.runtime.reporting.events import Listener
from clew.runtime.result import RunResult
from clew.runtime.settings import Settings
from clew.stores import Store

Raised = Callable[[str, BaseException], None]


class SimulatedChildren:
    """Runs the children of the items of one process."""

    def __init__(
        self, store: Store, schedule: ChildSchedule, note: Note, on_raise: Raised, place: str = ""
    ) -> None:
        self._store = store
        self._schedule = schedule
        self._note = note
        self._on_raise = on_raise
        self._place = place  # of the process: "" for the run itself, otherwise that of the child with a "/"

    def start(self, session: Session, *call: Any) -> Any:
        """Implement `ctx.run`."""
        return ChildRun(self, session, *call).start()

    def for_child(
        self, graph: Graph, settings: Settings, listeners: tuple[Listener, ...], child_of: tuple[str, str]
    ) -> _ChildDriver:
        """Return the execution of a child on the same disk."""
        opener = RunOpener(graph, self._store, settings, listeners)
        opener.repository.child_of = child_of
        place = f"{self._place}{child_of[1]}/"
        inner = SimulatedChildren(self._store, self._schedule, self._note, self._on_raise, place)
        return _ChildDriver(inner, opener)

    def drive(self, session: Session, opener: RunOpener) -> None:
        """Drive a child to its end."""
        place, schedule = self._place, self._schedule

        def note(effect: Any, occurrence: int) -> None:
            self._note(effect, occurrence, session.run_id, place)

        process = SimulatedProcess(opener, opener.settings, note)
        process.on_raise = lambda path, error: self._on_raise(place + path, error)
        process.start_child = self.start
        process.drive(session)
        while not process.has_ended:
            running = sorted(process.running, key=lambda path: process.running[path].order)
            action = schedule.decide([*running, *process.waiting])
            if action not in process.running:
                process.wake(action)
                continue
            fault = schedule.fault_of(place + action)
            {"": process.complete, "fail": process.fail, "time out": process.time_out}[fault](action)
        process.end()


class _ChildDriver:
    """Drives one child, as `clew.runtime.execution` does."""

    def __init__(self, inner: SimulatedChildren, opener: RunOpener) -> None:
        self._inner = inner
        self.opener = opener

    def drive(self, hold: Hold, opening: Callable[[], Session | RunResult], check: bool) -> RunResult:
        """Open a child and drive it to its end."""
        opened = opening()
        if isinstance(opened, RunResult):
            return opened
        hold.session = opened
        self._inner.drive(opened, self.opener)
        return read_result(self.opener, opened.run_id)

    async def adrive(self, hold: Hold, opening: Callable[[], Session | RunResult], check: bool) -> RunResult:
        """`drive` for an async node. The loop of the node waits for the child."""
        return self.drive(hold, opening, check)
