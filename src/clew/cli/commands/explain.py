"""``clew explain``: why a node of a dependency graph is, or is not, up to date."""

from __future__ import annotations

import msgspec
import typer

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(explain)


def explain(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Say why a dependency graph's node is up to date, or not.

    \b
    Examples:
      clew explain events:graph 'event_context(id123)' --store events.db

    Nothing is computed.
    """
    with dependency_graph(target, store) as graph:
        told = graph.explain(node)
    if as_json:
        say_json(msgspec.to_builtins(told))
    else:
        say(told)
    return 0
