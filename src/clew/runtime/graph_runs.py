"""The engine behind `Graph.run`."""

from __future__ import annotations

from typing import Any

from clew.engine.program import value_names
from clew.errors import InputError
from clew.graph import Graph
from clew.runtime.engine import Engine
from clew.runtime.settings import RunOptions
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


_OPTIONS = frozenset(RunOptions.__optional_keys__)


def checked(graph: Graph, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a run as its values; raise InputError for one that was meant as an option."""
    if not _OPTIONS.isdisjoint(inputs) and (known := value_names(graph)) is not None:
        for name in inputs:
            if name in _OPTIONS and name not in known:
                raise InputError(
                    f"{name!r} is an option, and not a value of the graph; next to options, give the values as one "
                    f"mapping: graph.run({{...}}, {name}=...)"
                )
    return inputs
