"""``clew set``: a value for a node of a dependency graph."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json
from clew.cli.values import read_file, read_json
from clew.state import from_tree


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("set")(set_)


def set_(
    target: TargetArgument,
    node: NodeArgument,
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="JSON; or @FILE with JSON; or - for standard input."),
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Give a node of a dependency graph a value.

    \b
    Examples:
      clew set events:graph all_events '[{"id": "id123"}]' --store events.db
      clew set events:graph all_events @events.json
      fetch-events | clew set events:graph all_events -

    What is no JSON is taken as text. On a node that is computed the value is a pin: it holds until something that the
    node is made from is set, or it is invalidated.
    """
    import asyncio

    given = _read(value, node)
    with dependency_graph(target, store, create=True) as graph:
        asyncio.run(graph.aset(node, given))
        told = graph.explain(node)
    if as_json:
        say_json({"node": told.node, "origin": told.origin, "revision": told.revision})
    else:
        say(f"{told.node} is {told.origin} at revision {told.revision}")
    return 0


def _read(text: str, node: str) -> Any:
    if text == "-" or text.startswith("@"):
        return from_tree(read_file(text.removeprefix("@")))
    return read_json(text, f"the value of {node}")
