"""``clew set``: set the value of a node of a dependency graph."""

from __future__ import annotations

from typing import Annotated, Any

from clew.cli.declarations import argument
from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json
from clew.cli.values import read_file, read_json
from clew.state import from_tree


def set_(
    target: TargetArgument,
    node: NodeArgument,
    value: Annotated[
        str, argument("VALUE", "Value as JSON, @FILE to read JSON from a file, or - for standard input.")
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set the value of a node of a dependency graph.

    \b
    Examples:
      clew set events:graph all_events '[{"id": "id123"}]' --store events.db
      clew set events:graph all_events @events.json
      fetch-events | clew set events:graph all_events -

    Anything that is not valid JSON is treated as a string. Setting a computed node pins its value
    until the node, or a source that it depends on, is set or invalidated.
    """
    import asyncio

    given = _read(value, node)
    with dependency_graph(target, store, create=True) as graph:
        asyncio.run(graph.aset(node, given))
        status = graph.explain(node)
    if as_json:
        say_json({"node": status.node, "origin": status.origin, "revision": status.revision})
    else:
        say(f"{status.node} is {status.origin} at revision {status.revision}")
    return 0


def _read(text: str, node: str) -> Any:
    if text == "-" or text.startswith("@"):
        return from_tree(read_file(text.removeprefix("@")))
    return read_json(text, f"the value of {node}")
