"""``clew invalidate``: mark a node so that the next pull recomputes it."""

from __future__ import annotations

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json


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
