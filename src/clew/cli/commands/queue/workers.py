"""``clew workers``: list the workers of a store."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import say, say_json, say_line, say_table
from clew.errors import StoreError
from clew.runtime.review.json_documents import time_json
from clew.runtime.workers.presence import different_codes, graphs_of
from clew.stores import WorkerRow


def workers(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """List the workers and their runs.

    Also list the graphs for which workers have different code.

    \b
    Examples:
      clew workers
      clew workers --json

    Dead workers are listed for an hour.
    """
    with store_at(store) as opened:
        with suppress(StoreError):  # a store that is read-only; its leases tell who is alive
            opened.expire()
        rows = opened.workers()
    found = [_worker_json(row) for row in rows if graphs_of(row)]
    codes = different_codes(rows)
    if as_json:
        say_json({"workers": found, "different_code": [msgspec.to_builtins(each) for each in codes]})
        return 0
    if not found:
        say("no workers")
        return 0
    say_table(
        ("worker", "host", "process", "state", "busy", "queues", "graphs"),
        [
            (
                each["label"] or each["owner"],
                each["host"],
                str(each["pid"]),
                each["state"],
                f"{each['executes']}/{each['slots']}",
                ",".join(each["queues"]),
                ",".join(graph["graph"] for graph in each["graphs"]),
            )
            for each in found
        ],
    )
    for each in codes:
        names = "; ".join(f"{name} has {code}" for name, code in each.workers.items())
        say_line(f"different code for graph {each.graph!r}: {names}")
    return 0


def _worker_json(row: WorkerRow) -> dict[str, Any]:
    """Return a worker as JSON data."""
    info = row.info
    state = "dead" if not row.is_alive else "draining" if info.get("draining") else "alive"
    return {
        "owner": row.owner,
        "label": row.label,
        "host": row.host,
        "pid": row.pid,
        "state": state,
        "started": time_json(row.started),
        "expires_in": round(row.expires_in, 3),
        "slots": info.get("slots", 0),
        "executes": info.get("executes", 0) if row.is_alive else 0,
        "queues": info.get("queues", []),
        "graphs": [msgspec.to_builtins(each) for each in graphs_of(row)],
        "running": [each["run"] for each in info.get("running", ())],
        "troubles": info.get("troubles", []),
    }
