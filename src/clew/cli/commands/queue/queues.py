"""``clew queues``: count the runs in the queues."""

from __future__ import annotations

import msgspec

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import count, say, say_json, say_line, say_table
from clew.runtime.workers.unserved import Unserved, unserved_runs


def queues(store: StoreOption = None, as_json: JsonOption = False) -> int:
    """Count the runs in each queue.

    Also list the runs that no worker can take.

    \b
    Examples:
      clew queues
      clew queues --json

    A worker takes only runs of its own graphs, which it recognizes by their structure.
    """
    with store_at(store) as opened:
        found, lacking = opened.queues(), unserved_runs(opened)
    if as_json:
        say_json(
            {
                "queues": [msgspec.to_builtins(each) for each in found],
                "unserved": [msgspec.to_builtins(each) for each in lacking],
            }
        )
        return 0
    if not found:
        say("no runs are queued")
    else:
        say_table(
            ("queue", "ready", "later", "taken", "waiting for"),
            [
                (
                    each.queue,
                    str(each.ready),
                    str(each.later),
                    str(each.taken),
                    "" if each.oldest is None else f"{each.oldest:.0f} s",
                )
                for each in found
            ],
        )
    for each in lacking:
        say_line(described(each))
    return 0


def described(lacking: Unserved) -> str:
    """Return a line about runs that no living worker can take."""
    more = f", and {lacking.count - len(lacking.runs)} more" if lacking.count > len(lacking.runs) else ""
    start = f"clew worker {lacking.target or 'MODULE:GRAPH'}"
    return (
        f"no worker has the graph {lacking.graph or lacking.structure[:12]!r} of {count(lacking.count, 'run')} "
        f"({', '.join(lacking.runs)}{more}); start one with: {start}"
    )
