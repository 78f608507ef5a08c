"""SQL as syntax trees: which queries are allowed (`guard`), and what their columns are (`output_columns`)."""

from __future__ import annotations
