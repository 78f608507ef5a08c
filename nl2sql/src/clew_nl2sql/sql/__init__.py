"""SQL as a tree: what may be sent (`guard`), and what a query gives back (`outputs`)."""

from __future__ import annotations
