"""The result of a run: its status, values, failures, questions and metrics.

A method that runs nodes raises the error of a failed run (`raise_for_error`) unless ``check=False``. The exception is
the one that the node raised, with its type and traceback. A note is added to it, which names the run, the place and the
call that continues the run. `result_of` returns the result that belongs to such an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from clew import display
from clew.engine.history.blockers import blockers
from clew.engine.machine import Machine
from clew.engine.options import Status
from clew.engine.records import Failure, Question, WorkItem
from clew.error_links import link, linked_result
from clew.error_text import line_of, native, safely, set_native
from clew.errors import InputError, RunCancelledError, RunFailedError, UnknownValueError
from clew.graph.names import nearest
from clew.runtime.log.entries.wait_records import SignalRecord
from clew.runtime.log.metrics import SchedulerMetrics, Totals, totals_of
from clew.state import GraphState


class SchedulerState(msgspec.Struct, frozen=True):
    """A snapshot of a run while it executes."""

    active_nodes: int
    queue_depth: int
    completed_steps: int
    cancel_func: Callable[[], None]
    metrics: SchedulerMetrics
    frontier: tuple[WorkItem, ...] = ()


class RunResult:
    """The result of a run, or its progress so far: ``status`` is completed, failed, sleeping, waiting, paused or
    cancelled.

    `failures` lists every failure with its node, path and attempts: those that stopped the run or were confined
    (``on_error="continue"``), then those that a ``rescue`` function replaced. `signals` lists those that no node has
    taken.
    """

    __slots__ = (
        "_is_stored",
        "_machine",
        "_state",
        "_totals",
        "_traceback",
        "failures",
        "questions",
        "run_id",
        "signals",
        "status",
    )

    def __init__(
        self,
        run_id: str,
        machine: Machine,
        status: Status,
        state: Callable[[], GraphState],
        *,
        totals: Callable[[], Totals],
        is_stored: bool = True,
    ) -> None:
        self.run_id = run_id
        self.status: Status = status
        self.failures: tuple[Failure, ...] = machine.failures()
        self.questions: tuple[Question, ...] = (
            machine.questions() if status in ("sleeping", "waiting", "paused", "failed") else ()
        )
        self.signals: tuple[SignalRecord, ...] = ()
        self._machine = machine
        self._state: GraphState | Callable[[], GraphState] = state
        self._totals = totals
        self._is_stored = is_stored
        self._traceback: tuple[Any] | None = None  # of the error, before it was raised the first time

    @property
    def error(self) -> BaseException | None:
        """The first exception in `failures` that was not rescued, or None."""
        return self.failures[0].error if self.failures and not self.failures[0].rescued else None

    def raise_for_error(self) -> None:
        """Raise the error of a failed run, the first confined error of a completed one, or RunCancelledError.

        Return if there is no error, or if the run waits.
        """
        error = self.error
        if self.status == "cancelled":
            error = RunCancelledError(f"run {self.run_id!r} was cancelled")
            link(error, f"run {self.run_id!r} stopped after step {self.last_step}; {self._next_call()}", self)
            raise error
        if error is None:
            if self.status == "failed":
                raise RunFailedError(f"run {self.run_id!r} failed, and its error cannot be read")
            return
        # each raise adds frames to the traceback: begin with the node's own
        self._traceback = self._traceback or (native(error, "__traceback__"),)
        set_native(error, "__traceback__", self._traceback[0])
        link(error, f"run {self.run_id!r} failed: {self.failures[0]}; {self._next_call()}", self)
        raise error

    def _next_call(self) -> str:
        if not self._is_stored:
            return "it is not stored; to continue runs after a failure, use Engine(graph, store=...)"
        if self.status == "completed":
            return f"run the failed nodes again with engine.rerun({self.run_id!r})"
        return f"continue it with engine.resume({self.run_id!r})"

    def _answering(self) -> str:
        if not self._is_stored:
            return "it is not stored; to answer questions, use Engine(graph)"
        how = "answer=..." if len(self.questions) < 2 else "answers={path: ...}"
        return f"answer with engine.resume({self.run_id!r}, {how})"

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
        """Values of finished items whose step is not committed, because the run waits for an answer or is paused."""
        found: dict[str, Any] = {}
        for step in self._machine.root.open_steps:
            for outcome in step.outcomes():
                found.update(outcome.update)
        return found

    @property
    def never_ran(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that never ran, each with its missing inputs."""
        root = self._machine.root
        state = root.working_state
        started = {number for step in root.startable_steps() for number in step.batches}
        return {
            name: state.lacking(i)
            for i, name in enumerate(state.program.names)
            if not state.visits[i] and i not in started
        }

    @property
    def blocked(self) -> Mapping[str, tuple[Failure | Question, ...]]:
        """The nodes that never ran because of failures or open questions, each with these."""
        state = self._machine.root.working_state
        found: list[Failure | Question] = [*self.failures, *self.questions]
        return blockers(state.program, tuple(self.never_ran), found, state.failed) if found else {}

    @property
    def metrics(self) -> SchedulerMetrics:
        """Counters of the whole run so far."""
        return self._totals().metrics()

    def __getitem__(self, name: str) -> Any:
        values = self._machine.root.working_state.values
        try:
            return values[name]
        except KeyError:
            pass
        if self.error is not None:
            raise RunFailedError(
                f"run {self.run_id!r} did not produce {name!r}: {line_of(self.error)} ({self.failures[0]})"
            ) from self.error
        if self.status == "waiting":
            asked = ", ".join(question.path for question in self.questions)
            raise UnknownValueError(
                f"run {self.run_id!r} has not produced {name!r} yet: it waits for an answer to {asked}; "
                f"{self._answering()}"
            )
        if self.status == "sleeping":
            raise UnknownValueError(
                f"run {self.run_id!r} has not produced {name!r} yet: it waits for a time or a signal; call "
                f"engine.resume({self.run_id!r}), or let a worker continue it"
            )
        if self.status == "paused":
            raise UnknownValueError(
                f"run {self.run_id!r} has not produced {name!r} yet: it is paused; call "
                f"engine.resume({self.run_id!r})"
            )
        if self.status == "cancelled":
            raise RunCancelledError(
                f"run {self.run_id!r} was cancelled before it produced {name!r}; call engine.resume({self.run_id!r})"
            )
        raise UnknownValueError(f"run {self.run_id!r} did not produce {name!r}; {nearest(name, values)}")

    def __contains__(self, name: object) -> bool:
        return name in self._machine.root.working_state.values

    def __iter__(self) -> Iterator[str]:
        return iter(self._machine.root.working_state.plain_values())

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or `default` if the run did not produce it."""
        return self._machine.root.working_state.values.get(name, default)

    @property
    def values(self) -> Mapping[str, Any]:
        """All values of the last state."""
        return self._machine.root.working_state.plain_values()

    __store_instead__ = "give one of its values, result['name'], or dict(result.values)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"the result of run {self.run_id!r} cannot be pickled or copied, because it refers to the graph; take"
            " dict(result.values), result.state or result.run_id instead"
        )

    def __repr__(self) -> str:
        error = self.error
        failed = f", error={_cut(safely(lambda: repr(error), line_of(error)))}" if error is not None else ""
        asked = f", questions={len(self.questions)}" if self.questions else ""
        return f"<RunResult {self.run_id!r}: {self.status} after {_steps(self.last_step)}{failed}{asked}>"

    def _repr_html_(self) -> str:
        heading = f"Run {self.run_id!r}: {self.status} after {_steps(self.last_step)}"
        parts = [display.line(heading, display.VERDICTS.get(self.status, "warn"))]
        parts += [
            display.line(_cut(f"{failure}: {line_of(failure.error)}"), "bad") for failure in self.failures
        ]
        if self.questions:
            rows = [(display.cell(each.path), display.value_cell(each.question)) for each in self.questions]
            parts.append(display.table(("asks at", "question"), rows))
            parts.append(display.line(self._answering()))
        rows = [(display.cell(name), display.value_cell(value)) for name, value in self.values.items()]
        return display.page(*parts, display.table(("value", ""), rows))


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def result_of(error: BaseException) -> RunResult | None:
    """Return the result of the run that raised this exception; None if no run did.

    If nested runs raised it, return the result of the outermost one.
    """
    found: RunResult | None = linked_result(error)
    return found


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:297]}..."


def scheduler_state(
    machine: Machine, latency: int, cancel: Callable[[], object], earlier: Totals
) -> SchedulerState:
    """Return the scheduler state of a running machine; `earlier` has the totals of earlier resumptions."""
    total = earlier.plus(totals_of(machine, latency))
    return SchedulerState(
        active_nodes=machine.counters.active,
        queue_depth=len(machine.frontier),
        completed_steps=total.steps,
        cancel_func=lambda: (cancel(), None)[1],
        metrics=total.metrics(),
        frontier=tuple(item.work_item() for item in machine.frontier.items()),
    )


def raiser(check: bool) -> Callable[[RunResult], None]:
    """Return the function that raises the error of a result, or one that does nothing if errors are not checked."""
    if not isinstance(check, bool):
        raise InputError(f"check must be True or False, got {check!r}")
    return _raise_error if check else _ignore_error


def _raise_error(result: RunResult) -> None:
    if result.status == "failed" or result.status == "cancelled":
        result.raise_for_error()


def _ignore_error(result: RunResult) -> None:
    pass
