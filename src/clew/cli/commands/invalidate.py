"""``clew invalidate``: have a node of a dependency graph computed again."""

from __future__ import annotations

import typer

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("invalidate")(invalidate)


def invalidate(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Have a dependency graph's node computed again.

    \b
    Examples:
      clew invalidate events:graph 'photo(p5)' --store events.db

    What depends on the node is computed again if the node's value changes. A node that was never asked for has nothing
    to invalidate.
    """
    with dependency_graph(target, store) as graph:
        graph.invalidate(node)
        told = graph.explain(node)
    if as_json:
        say_json({"node": told.node, "freshness": told.freshness, "revision": told.revision})
    elif told.freshness is None:
        say(f"{told.node} has no value: there is nothing to do")
    else:
        say(f"{told.node} is {told.freshness} at revision {told.revision}")
    return 0
