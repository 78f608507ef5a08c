"""The pure machine: what runs next, merging in order, planning ahead. No clock, no randomness, no I/O."""

from __future__ import annotations

from clew.engine.machine import Machine
from clew.engine.options import Options
from clew.engine.records import Question, WorkItem

__all__ = ["Machine", "Options", "Question", "WorkItem"]
