"""The common part of ``clew fork`` and ``clew rerun``: start a run from an existing run."""

from __future__ import annotations

from collections.abc import Callable

from clew.cli.options import engine_of, find_run, store_at
from clew.cli.run_output import drive, id_of
from clew.runtime import Engine, RunResult

Make = Callable[[Engine, str, str], RunResult]
"""Starts the new run, given an engine, the id of the parent and the id of the new run."""


def make_run(
    run: str,
    kind: str,
    make: Make,
    *,
    run_id: str | None,
    graph: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Find a run, start a run from it, print the result and return the exit code."""
    with store_at(store) as opened:
        row = find_run(opened, run)
        name = id_of(run_id, f"{row.run_id}-{kind}")
        return drive(
            name,
            lambda listeners: engine_of(opened, row, graph, listeners),
            lambda engine: make(engine, row.run_id, name),
            as_json,
        )
