"""Combine the results of several sources, with DuckDB over the artifacts."""

from __future__ import annotations
