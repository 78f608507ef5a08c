"""``clew pull``: compute and print the current value of a node."""

from __future__ import annotations

import json

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import plain, say, say_json


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
