"""What describes a candidate, and how certain the planner is of it."""

from __future__ import annotations
