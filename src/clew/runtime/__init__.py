"""Run graphs: the engine, its drivers, events and results."""

from __future__ import annotations

from clew.runtime.engine import Engine
from clew.runtime.events import Event
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.metrics import SchedulerMetrics
from clew.runtime.result import RunResult, SchedulerState, result_of

__all__ = ["Checkpoint", "Engine", "Event", "RunResult", "SchedulerMetrics", "SchedulerState", "result_of"]
