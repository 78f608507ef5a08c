"""``clew pull``: the value of a node of a dependency graph, brought up to date."""

from __future__ import annotations

import json

import typer

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import plain, say, say_json


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("pull")(pull)


def pull(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Say the value of a dependency graph's node, up to date.

    \b
    Examples:
      clew pull events:graph 'event_context(id123)' --store events.db
      clew pull events:graph meta_events --json

    Only what is outdated, and what changed above it, is computed; all of it is kept in the database.
    """
    import asyncio

    with dependency_graph(target, store, create=True, pulled=node) as graph:
        value = asyncio.run(graph.apull(node))
        if as_json:
            told = graph.explain(node)
            say_json({"node": told.node, "value": plain(value), "revision": told.revision})
        else:
            say(json.dumps(plain(value), indent=2, ensure_ascii=False))
    return 0
