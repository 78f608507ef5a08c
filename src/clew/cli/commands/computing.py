"""The commands about dependency graphs: ``pull``, ``set``, ``invalidate`` and ``explain``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import typer

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import plain, say, say_as, say_json
from clew.cli.values import read_file, read_json
from clew.state import from_tree


def pull(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Compute and print the current value of a node.

    \b
    Examples:
      clew pull events:graph 'event_context(id123)' --store events.db
      clew pull events:graph meta_events --json

    Only outdated nodes are computed. All results are stored in the database.
    """
    import asyncio

    with dependency_graph(target, store, create=True, pulled=node) as graph:
        value = asyncio.run(graph.apull(node))
        if as_json:
            explanation = graph.explain(node)
            say_json({"node": explanation.node, "value": plain(value), "revision": explanation.revision})
        else:
            say(json.dumps(plain(value), indent=2, ensure_ascii=False))
    return 0


def set_(
    target: TargetArgument,
    node: NodeArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="Value as JSON, @FILE to read JSON from a file, or - for standard input."
        ),
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

    Anything that is not valid JSON is treated as a string. Setting a computed node pins its value until one of its
    inputs is set or the node is invalidated.
    """
    import asyncio

    given = _read(value, node)
    with dependency_graph(target, store, create=True) as graph:
        asyncio.run(graph.aset(node, given))
        status = graph.explain(node)
    say_as(
        as_json,
        {"node": status.node, "origin": status.origin, "revision": status.revision},
        f"{status.node} is {status.origin} at revision {status.revision}",
    )
    return 0


def _read(text: str, node: str) -> Any:
    if text == "-" or text.startswith("@"):
        return from_tree(read_file(text.removeprefix("@")))
    return read_json(text, f"the value of {node}")


def invalidate(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Mark a node so that the next pull recomputes it.

    \b
    Examples:
      clew invalidate events:graph 'photo(p5)' --store events.db

    Dependents are recomputed if the value of the node changes. Does nothing for a node without a value.
    """
    with dependency_graph(target, store) as graph:
        graph.invalidate(node)
        status = graph.explain(node)
    if as_json:
        say_json({"node": status.node, "freshness": status.freshness, "revision": status.revision})
    elif status.freshness is None:
        say(f"{status.node} has no value; nothing to invalidate")
    else:
        say(f"{status.node} is {status.freshness} at revision {status.revision}")
    return 0


def explain(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Explain why a node is up to date or outdated.

    \b
    Examples:
      clew explain events:graph 'event_context(id123)' --store events.db

    Computes nothing.
    """
    with dependency_graph(target, store) as graph:
        explanation = graph.explain(node)
    say_as(as_json, msgspec.to_builtins(explanation), explanation)
    return 0
