"""From chosen acts to a query: its parts, its joins, its SQL, and a dry run on sampled rows."""

from __future__ import annotations
