"""``clew threads``: list the threads in a store."""

from __future__ import annotations

from typing import Any

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import local_time, say, say_json, say_table
from clew.runtime.review.json_documents import time_json


def threads(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """List the threads in the store, each with its last run.

    \b
    Examples:
      clew threads
      clew threads --json
    """
    with store_at(store) as opened:
        rows = {row.run_id: row for row in opened.rows(of="")}
        turns: dict[str | None, int] = {None: 0}
        for row in rows.values():  # a run is newer than its parent
            turns[row.run_id] = 1 + turns.get(row.parent, 0)
        found = [(name, rows[head]) for name, head in opened.threads() if head in rows]
    if as_json:
        say_json([_thread_json(name, row, turns[row.run_id]) for name, row in found])
    elif not found:
        say("no threads")
    else:
        say_table(
            ("thread", "head", "status", "turns", "changed", "graph"),
            [
                (
                    name,
                    row.run_id,
                    row.status,
                    str(turns[row.run_id]),
                    local_time(row.updated),
                    row.target or row.graph,
                )
                for name, row in found
            ],
        )
    return 0


def _thread_json(name: str, row: Any, turns: int) -> dict[str, Any]:
    return {
        "thread": name,
        "head": row.run_id,
        "status": row.status,
        "turns": turns,
        "graph": row.graph,
        "target": row.target,
        "updated": time_json(row.updated),
    }
