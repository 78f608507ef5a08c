"""The engine behind `Graph.run`."""

from __future__ import annotations

import inspect
from typing import Any

from clew.engine.program import value_names
from clew.errors import InputError
from clew.graph import Graph
from clew.graph.names import similar
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
    for name in options:
        if name in _OF_ENGINES:
            raise InputError(f"graph.run has no option {name!r}; use Engine(graph).run(values, {name}=...)")
    return Engine(graph, **{"store": NOWHERE, **options})


_OPTIONS = frozenset(RunOptions.__optional_keys__)
_OF_ENGINES = frozenset(inspect.signature(Engine.run).parameters) - {"self", "values", "turn"} - _OPTIONS
"""Options of `Engine.run`, for runs that are stored."""


def checked(graph: Graph, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a run as its values; raise InputError for one that was meant as an option."""
    if all(name in graph.inputs for name in inputs) or (known := value_names(graph)) is None:
        return inputs
    for name in inputs:
        if name not in known:
            option = (
                name if name in _OPTIONS | _OF_ENGINES else similar(name, (*known, *_OPTIONS, *_OF_ENGINES))
            )
            if option in _OPTIONS:
                raise InputError(
                    f"{name!r} is {_option(name, option)}, and not a value of the graph; next to options, give the "
                    f"values as one mapping: graph.run({{...}}, {option}=...)"
                )
            if option in _OF_ENGINES:
                raise InputError(
                    f"{name!r} is {_option(name, option)} of an engine, and not a value of the graph; use "
                    f"Engine(graph).run({{...}}, {option}=...)"
                )
    return inputs


def _option(name: str, option: str) -> str:
    return "an option" if name == option else f"no option (did you mean {option!r}?)"
