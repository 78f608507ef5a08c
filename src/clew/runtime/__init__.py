"""Run graphs: the engine, its drivers, events and results."""

from __future__ import annotations

from clew.runtime.engine import Engine
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.metrics import SchedulerMetrics
from clew.runtime.reporting.events import Event
from clew.runtime.result import RunResult, SchedulerState, result_of
from clew.runtime.settings import EngineOptions

__all__ = [
    "Checkpoint",
    "Engine",
    "EngineOptions",
    "Event",
    "RunResult",
    "SchedulerMetrics",
    "SchedulerState",
    "result_of",
]
