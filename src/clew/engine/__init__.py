"""The pure machine: decides what runs next, merges updates in order, looks ahead. No clock, randomness or I/O."""

from __future__ import annotations

from clew.engine.machine import Machine
from clew.engine.options import Options
from clew.engine.records import Question, WorkItem

__all__ = ["Machine", "Options", "Question", "WorkItem"]
