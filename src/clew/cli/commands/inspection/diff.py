"""``clew diff``: show where two runs differ."""

from __future__ import annotations

from typing import Annotated, Any

from clew.cli.declarations import argument
from clew.cli.options import JsonOption, StoreOption, find_run, inspector, store_at
from clew.cli.output import plain, say, say_json


def diff(
    a: Annotated[str, argument("A", "Id of the first run, or the beginning of one.")],
    b: Annotated[str, argument("B", "Id of the second run, or the beginning of one.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the first step where two runs differ.

    \b
    Examples:
      clew diff flow-1a2b3c what-if

    A fork is compared with its parent from the step of the fork. The exit code is 0 even if the runs differ.
    """
    from clew.runtime.review.run_diff import MISSING, RunDiff

    def changes(found: Any) -> list[dict[str, Any]]:
        return [
            {"name": c.name}
            | ({"old": plain(c.old)} if c.old is not MISSING else {})
            | ({"new": plain(c.new)} if c.new is not MISSING else {})
            for c in found
        ]

    def tree(found: RunDiff) -> dict[str, Any]:
        return {
            "a": found.a,
            "b": found.b,
            "same": not found,
            "common": found.common,
            "since": found.since,
            "steps": [
                {
                    "step": step.step,
                    "values": changes(step.values),
                    "items": [
                        {"path": item.path, "only_in": item.only_in, "changes": changes(item.changes)}
                        for item in step.items
                    ],
                }
                for step in found.steps
            ],
            "values": changes(found.values),
            "status": list(found.status),
            "ends": list(found.ends),
        }

    with store_at(store) as opened:
        one, other = find_run(opened, a), find_run(opened, b)
        found = inspector(opened).diff(one.run_id, other.run_id)
    if as_json:
        say_json(tree(found))
    else:
        say(found)
    return 0
