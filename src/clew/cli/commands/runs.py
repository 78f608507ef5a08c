"""``clew runs``: list the runs in a store."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import CommandError, local_time, say, say_json, say_table
from clew.errors import StoreCorruptError
from clew.runtime.log.run_rows import STATUSES, opened_row
from clew.runtime.review.json_documents import error_json, time_json
from clew.stores import RunRow, Store
from clew.stores.protocol import LAST, OWN_STEP


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command("runs")(runs)


def runs(
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="STATUS", help=f"List only runs with this status: {', '.join(STATUSES)}."
        ),
    ] = None,
    children: Annotated[
        bool, typer.Option("--children", help="Also list children: runs that a node of another run started.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the runs in the store, oldest first.

    \b
    Examples:
      clew runs
      clew runs --status failed --json
      clew runs --children
    """
    if status is not None and status not in STATUSES:
        raise CommandError(f"unknown status {status!r}", f"use one of {', '.join(STATUSES)}")
    with store_at(store) as opened:
        rows = opened.rows(status, of=None if children else "")
        found = [row_json(opened, row) for row in rows]
        times = [local_time(row.updated) for row in rows]
    if as_json:
        say_json(found)
    elif not found:
        say("no runs" if status is None else f"no runs with status {status}")
    else:
        say_table(
            ("run", "status", "steps", "changed", "graph", ""),
            [
                (
                    row["run_id"],
                    row["status"],
                    str(row["steps"]),
                    time,
                    row["target"] or row["graph"],
                    _remark(row),
                )
                for row, time in zip(found, times)
            ],
        )
    return 0


def row_json(store: Store, row: RunRow) -> dict[str, Any]:
    """Return a run as JSON data."""
    row = opened_row(row)
    error = StoreCorruptError(row.damage) if row.damage else row.error
    last = None
    if not row.damage:
        try:
            last = store.last(row.run_id, OWN_STEP, "", LAST)
        except StoreCorruptError as damage:
            error = damage
    return {
        "run_id": row.run_id,
        "status": row.status,
        "steps": last.n if last is not None else row.parent_step or 0,
        "graph": row.graph,
        "target": row.target,
        "created": time_json(row.created),
        "updated": time_json(row.updated),
        "parent": row.parent,
        "parent_step": row.parent_step,
        "child_of": row.child_of,
        "place": row.place,
        "error": None if error is None else error_json(error),
    }


def _remark(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        return str(
            row["error"]["type"].rpartition(":")[2] + ": " + row["error"]["message"].partition("\n")[0]
        )
    if row["child_of"] is not None:
        return f"child of {row['child_of']} at {row['place']}"
    return f"fork of {row['parent']} at step {row['parent_step']}" if row["parent"] is not None else ""
