"""What a run gives back: its status, its values, and what can be said about how it went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from clew.engine.machine import Machine
from clew.engine.options import Status
from clew.engine.records import Failure, Question, WorkItem
from clew.error_text import line_of, safely
from clew.errors import RunCancelledError, RunFailedError, UnknownValueError
from clew.graph.names import nearest
from clew.runtime.log.metrics import SchedulerMetrics, Totals, totals_of
from clew.state import GraphState


class SchedulerState(msgspec.Struct, frozen=True):
    """A run while it runs."""

    active_nodes: int
    queue_depth: int
    completed_steps: int
    cancel_func: Callable[[], None]
    metrics: SchedulerMetrics
    frontier: tuple[WorkItem, ...] = ()


class RunResult:
    """The end of a run, or where it stands: ``status`` is completed, failed, waiting or cancelled."""

    __slots__ = ("_machine", "_state", "_totals", "failures", "questions", "run_id", "status")

    def __init__(
        self,
        run_id: str,
        machine: Machine,
        status: Status,
        state: Callable[[], GraphState],
        *,
        totals: Callable[[], Totals],
    ) -> None:
        self.run_id = run_id
        self.status: Status = status
        self.failures: tuple[Failure, ...] = machine.failures() if status == "failed" else ()
        self.questions: tuple[Question, ...] = machine.questions() if status in ("waiting", "failed") else ()
        self._machine = machine
        self._state: GraphState | Callable[[], GraphState] = state
        self._totals = totals

    @property
    def error(self) -> BaseException | None:
        """Why the run failed: the error of the first of `failures`, as the node raised it."""
        return self.failures[0].error if self.failures else None

    @property
    def state(self) -> GraphState:
        """The last state of the chain."""
        if not isinstance(self._state, GraphState):
            self._state = self._state()
        return self._state

    @property
    def last_step(self) -> int:
        """The number of the last step."""
        return self._machine.root.step

    @property
    def provisional(self) -> Mapping[str, Any]:
        """What branches have finished beyond the last step, while one waits: committed when the answer comes."""
        levels = self._machine.root.open_steps
        found: dict[str, Any] = {}
        for level in levels:
            for outcome in level.outcomes():
                found.update(outcome.update)
        return found

    @property
    def never_ran(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that never ran, each with the inputs that it lacked."""
        root = self._machine.root
        view, began = (
            root.working_state,
            {number for level in root.startable_steps() for number in level.batches},
        )
        return {
            name: view.lacking(i)
            for i, name in enumerate(view.program.names)
            if not view.visits[i] and i not in began
        }

    @property
    def metrics(self) -> SchedulerMetrics:
        """Counters of the run, from its beginning to where it stands."""
        return self._totals().metrics()

    def __getitem__(self, name: str) -> Any:
        values = self._machine.root.working_state.values
        try:
            return values[name]
        except KeyError:
            pass
        if self.error is not None:
            raise RunFailedError(
                f"run {self.run_id!r} failed before it made {name!r}: {line_of(self.error)} ({self.failures[0]})"
            ) from self.error
        if self.status == "waiting":
            asked = ", ".join(question.path for question in self.questions)
            raise UnknownValueError(
                f"run {self.run_id!r} has not made {name!r} yet: it waits for an answer to {asked}; go on with "
                f"engine.resume({self.run_id!r}, answer=...)"
            )
        if self.status == "cancelled":
            raise RunCancelledError(
                f"run {self.run_id!r} was cancelled before it made {name!r}; go on with engine.resume({self.run_id!r})"
            )
        raise UnknownValueError(f"run {self.run_id!r} made no {name!r}; {nearest(name, values)}")

    def __contains__(self, name: object) -> bool:
        return name in self._machine.root.working_state.values

    def __iter__(self) -> Iterator[str]:
        return iter(self._machine.root.working_state.plain_values())

    def get(self, name: str, default: Any = None) -> Any:
        """A value, or `default` if the run did not make it."""
        return self._machine.root.working_state.values.get(name, default)

    @property
    def values(self) -> Mapping[str, Any]:
        """All values at the end of the chain."""
        return self._machine.root.working_state.plain_values()

    def __repr__(self) -> str:
        told = (
            f", error={safely(lambda: repr(self.error), line_of(self.error))}"
            if self.error is not None
            else ""
        )
        asked = f", questions={len(self.questions)}" if self.questions else ""
        return f"<RunResult {self.run_id!r}: {self.status} after {self.last_step} steps{told}{asked}>"


def scheduler_state(
    machine: Machine, latency: int, cancel: Callable[[], object], earlier: Totals
) -> SchedulerState:
    """A machine that is being driven, in the words of the specification; `earlier` is what others counted before."""
    total = earlier.plus(totals_of(machine, latency))
    return SchedulerState(
        active_nodes=machine.counters.active,
        queue_depth=len(machine.frontier),
        completed_steps=total.steps,
        cancel_func=lambda: (cancel(), None)[1],
        metrics=total.metrics(),
        frontier=tuple(item.work_item() for item in machine.frontier.items()),
    )
