"""The result of a child in another process: what its run produced, without the machine and the graph."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from clew.runtime.result import RunResult


class CrossedResult(RunResult):
    """A `RunResult` that came from the driver."""

    __slots__ = ("_blocked", "_metrics", "_never_ran")
    _blocked: Mapping[str, Any]
    _metrics: Any
    _never_ran: Mapping[str, tuple[str, ...]]

    @property
    def never_ran(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that never ran, each with its missing inputs."""
        return self._never_ran

    @property
    def blocked(self) -> Mapping[str, Any]:
        """The nodes that never ran because of failures or open questions, each with these."""
        return self._blocked

    @property
    def metrics(self) -> Any:
        """Counters of the whole run so far."""
        return self._metrics


def pack_result(result: RunResult) -> tuple[Any, tuple[Any, ...]]:
    """Return a result as a function and its arguments, as pickle wants it."""
    values = dict(result.values)
    parts = (result.run_id, result.status, result.state, result.failures, result.questions, result.signals)
    more = (result.last_step, values, dict(result.never_ran), dict(result.blocked), result.metrics)
    return _unpack, (*parts, *more, result._is_stored)


def _unpack(
    run_id: str,
    status: Any,
    state: Any,
    failures: Any,
    questions: Any,
    signals: Any,
    last_step: int,
    values: dict[str, Any],
    never_ran: Any,
    blocked: Any,
    metrics: Any,
    is_stored: bool,
) -> RunResult:
    working = SimpleNamespace(values=values, plain_values=lambda: dict(values))
    root = SimpleNamespace(step=last_step, working_state=working, open_steps=())
    machine: Any = SimpleNamespace(root=root, failures=lambda: failures, questions=lambda: questions)
    found = CrossedResult(run_id, machine, status, lambda: state, totals=lambda: metrics, is_stored=is_stored)
    found.signals = signals
    found._never_ran, found._blocked, found._metrics = never_ran, blocked, metrics
    return found
