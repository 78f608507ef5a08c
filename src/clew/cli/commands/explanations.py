"""Commands that explain: ``clew why`` a node ran, ``clew diff`` two runs, and ``clew graph``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import msgspec

from clew.cli.declarations import argument, option
from clew.cli.options import JsonOption, PathOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import CommandError, plain, say, say_json
from clew.runtime.loader import load_graph


def why(
    run: RunArgument,
    value: Annotated[str, argument("NAME", "Name of a value or a node.")],
    path: PathOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain why a node ran, or which node wrote a value.

    \b
    Examples:
      clew why flow-1a2b3c answer
      clew why flow-1a2b3c answer --path 'ask#0!0'
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        found = inspector(opened).why(row.run_id, value, path=path)
    if as_json:
        say_json(msgspec.to_builtins(found))
    else:
        say(found)


def diff(
    a: Annotated[str, argument("A", "Id of the first run, or the beginning of one.")],
    b: Annotated[str, argument("B", "Id of the second run, or the beginning of one.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
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


def graph(
    target: Annotated[str, argument("MODULE:GRAPH", "Graph to show: flow:graph is `graph` in flow.py.")],
    form: Annotated[str, option("--format", "FORMAT", "Output format: text, mermaid, dot or svg.")] = "text",
    as_json: JsonOption = False,
) -> None:
    """Describe or draw a graph.

    \b
    Examples:
      clew graph flow:graph
      clew graph flow:graph --format svg > flow.svg
    """
    loaded = load_graph(target)
    if as_json:
        say_json(loaded.describe(json=True))
    elif form == "text":
        say(loaded.describe())
    elif form in ("mermaid", "dot", "svg"):
        say(loaded.draw(cast(Literal["mermaid", "dot", "svg"], form)))
    else:
        raise CommandError(f"unknown format {form!r}", "use text, mermaid, dot or svg")
