"""A store in memory."""

from __future__ import annotations
