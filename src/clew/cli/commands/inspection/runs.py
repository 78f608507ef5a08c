"""``clew runs``: list the runs in a store."""

from __future__ import annotations

from typing import Annotated, Any

from clew import Engine
from clew.cli.declarations import flag, option
from clew.cli.options import JsonOption, StoreOption, graph_option, store_at
from clew.cli.output import command, fitted, local_time, note, say, say_json, say_table
from clew.cli.selection import selecting
from clew.errors import StoreCorruptError
from clew.runtime.log.run_rows import opened_row
from clew.runtime.review.json_documents import error_json, time_json
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow, Store
from clew.stores.protocol import LAST, OWN_STEP


@selecting
def runs(
    chosen: RunFilter,
    limit: Annotated[int, option("--limit", "N", "List at most N runs.")] = 100,
    cursor: Annotated[str | None, option("--cursor", "CURSOR", "Continue where the last list ended.")] = None,
    children: Annotated[
        bool, flag("--children", "Also list children: runs that a node of another run started.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the newest runs in the store.

    The list is sorted from oldest to newest.

    \b
    Examples:
      clew runs
      clew runs --status failed --json
      clew runs --attribute tenant=acme --after 2030-01-31T00:00:00Z
      clew runs --children

    If the store has older runs, a note shows how to list them.
    """
    given: RunFilter = {**chosen, "children": children}
    with store_at(store) as opened:
        page = Engine(store=opened).runs(limit=limit, cursor=cursor, **given)
        found = [row_json(opened, row) for row in page]
        times = [local_time(row.updated) for row in page]
        lost = [lost_remark(opened, row) for row in page]
    if page.cursor is not None:
        note(f"there are older runs; list them with --cursor {page.cursor}")
    if as_json:
        say_json(found)
    elif not found:
        has_others = bool({*chosen} - {"status"})
        say(
            "no runs match"
            if has_others
            else f"no runs with status {chosen['status']}"
            if chosen
            else "no runs"
        )
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
                    remark or _remark(row),
                )
                for row, time, remark in zip(found, times, lost)
            ],
        )
    return 0


def lost_remark(store: Store, row: RunRow) -> str:
    """Return what to do about a run whose process is gone, or an empty text."""
    if row.status != "running" or row.child_of is not None:
        return ""
    owner = store.owner(row.run_id)
    is_lost = owner is None or not owner.holds
    return (
        f"its process is gone; continue it with: {command('resume', row.run_id, graph=graph_option(row))}"
        if is_lost
        else ""
    )


def row_json(store: Store, row: RunRow) -> dict[str, Any]:
    """Return a run as JSON data."""
    row = opened_row(row) if isinstance(row.error, bytes) else row
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
        "attributes": dict(row.attributes),
        "error": None if error is None else error_json(error),
    }


_ERROR = 160  # columns; `clew show` has the whole message


def _remark(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        first, _, more = str(row["error"]["message"]).partition("\n")
        text = f"{row['error']['type'].rpartition(':')[2]}: {first}"
        return fitted(f"{text} …" if more and len(text) < _ERROR else text, _ERROR)
    if row["child_of"] is not None:
        return f"child of {row['child_of']} at {row['place']}"
    return f"fork of {row['parent']} at step {row['parent_step']}" if row["parent"] is not None else ""
