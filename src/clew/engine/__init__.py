"""The pure machine: what runs next, merging in order, planning ahead. No clock, no randomness, no I/O."""

from __future__ import annotations

from clew.engine.machine import Machine
from clew.engine.records import Question, WorkItem
from clew.engine.terms import Options

__all__ = ["Machine", "Options", "Question", "WorkItem"]
