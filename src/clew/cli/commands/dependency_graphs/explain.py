"""``clew explain``: explain why a node is up to date or outdated."""

from __future__ import annotations

import msgspec

from clew.cli.dependency_graphs import NodeArgument, TargetArgument, dependency_graph
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import say, say_json


def explain(
    target: TargetArgument, node: NodeArgument, store: StoreOption = None, as_json: JsonOption = False
) -> int:
    """Explain why a node is up to date or outdated.

    \b
    Examples:
      clew explain events:graph 'event_context(id123)' --store events.db

    The command computes nothing.
    """
    with dependency_graph(target, store) as graph:
        explanation = graph.explain(node)
        name = graph.options["name"]
    if as_json:
        say_json({"graph": name, **msgspec.to_builtins(explanation)})
    else:
        say(explanation)
    return 0
