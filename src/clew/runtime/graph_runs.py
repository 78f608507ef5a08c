"""The engine behind `Graph.run`."""

from __future__ import annotations

from typing import Any

from clew.graph import Graph
from clew.runtime.engine import Engine
from clew.stores.memory.store import NOWHERE


def engine_of(graph: Graph, options: dict[str, Any]) -> Engine:
    """Return an engine for `Graph.run`. Unless the options name a store, its runs are stored nowhere.

    Without options, the graph keeps the engine for later runs, unless its nodes would share cached results.
    """
    if not options:
        kept: Engine | None = graph._engine
        if kept is None:
            kept = Engine(graph, store=NOWHERE)
            if not graph.has_cached_nodes:
                graph._engine = kept
        return kept
    return Engine(graph, **{"store": NOWHERE, **options})
