"""Results of several sources as one, by DuckDB over the artifacts."""

from __future__ import annotations
