"""The options of an engine, checked when the engine is created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.runtime.process.clock import SYSTEM_CLOCK, Clock
from clew.runtime.reporting.observers import Followers, Observer
from clew.state.number_checks import is_int, is_number
from clew.state.type_names import a
from clew.stores import Store

if TYPE_CHECKING:
    from concurrent.futures import Executor


Durability: TypeAlias = Literal["sync", "async", "exit"]
OnError: TypeAlias = Literal["stop", "continue"]
OnConflict: TypeAlias = Literal["error", "last"]
OnAmbiguous: TypeAlias = Literal["retry", "fail", "ask"]


class ScheduleOptions(TypedDict, total=False):
    """The options that decide what a run does, as keyword arguments."""

    max_concurrent_nodes: int
    queue_depth: int
    default_node_timeout: float | None
    seed: int | None
    on_error: OnError
    on_conflict: OnConflict
    on_ambiguous: OnAmbiguous
    check_mutation: bool


class EngineOptions(ScheduleOptions, total=False):
    """The options of an engine, as keyword arguments."""

    executor: Executor | None
    check: bool
    max_steps: int
    durability: Durability
    lease: float
    publish: bool
    import_string: str
    clock: Clock


class StoreOptions(EngineOptions, total=False):
    """The options of an engine, and where it stores and sends what happens."""

    store: Store | str | PathLike[str] | None
    listeners: Followers


class RunOptions(StoreOptions, total=False):
    """The options of `Graph.run`: those of an engine and of its `run`."""

    progress: bool


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an engine."""

    max_concurrent_nodes: int = 8
    queue_depth: int = 1024
    default_node_timeout: float | None = 30.0
    seed: int | None = None
    executor: Executor | None = None
    max_steps: int = 10_000
    on_error: OnError = "stop"
    on_conflict: OnConflict = "error"
    on_ambiguous: OnAmbiguous = "retry"
    check: bool = True
    check_mutation: bool = False
    durability: Durability = "sync"
    lease: float = 30.0
    publish: bool = False  # store what nodes emit, for handles in other processes
    import_string: str = ""  # MODULE:GRAPH, stored with the runs
    clock: Clock = SYSTEM_CLOCK

    @property
    def crosses(self) -> bool:
        """Whether the executor runs nodes in other processes: then none runs inline, or on the event loop."""
        return self.executor is not None and hasattr(self.executor, "desk")


DEFAULTS = Settings()
_ELSEWHERE = {
    **{
        name: f"a run: engine.run(values, {name}=...)"
        for name in ("run_id", "thread", "attributes", "progress", "stop_before", "stop_after")
    },
    **{name: f"a node: @node({name}=...)" for name in ("retry", "rescue", "cache", "timeout", "after")},
}
"""Options of runs and nodes that people give to an engine."""

_INSTEAD = {  # executors that pickle what they run
    "ProcessPoolExecutor": "processes()",
    "Client": "dask(client)",
    "ClientExecutor": "dask(client)",
}


def read_settings(options: Mapping[str, Any], store: Store) -> Settings:
    """Return settings from keyword options; raise DefinitionError for an unknown name or an invalid value.

    What a memory store has does not outlive the process: there, no call is ambiguous, and nothing is published.
    """
    if not options:
        return DEFAULTS
    for name, value in options.items():
        if name not in _RULES:
            raise DefinitionError(f"the engine has no option {name!r}; {_advice(name)}")
        is_valid, expected = _RULES[name]
        if not is_valid(value):
            raise DefinitionError(f"{name} must {expected} got {value!r}")
        if name == "executor" and (instead := _INSTEAD.get(type(value).__name__)) is not None:
            raise DefinitionError(
                f"{a(type(value))} cannot run nodes; use clew.runtime.executors.{instead}, whose nodes have "
                f"their context, and whose processes can be lost or killed one by one"
            )
    if not store.encodes:
        options = {**options, "on_ambiguous": "retry", "publish": False}
    return Settings(**options)


def graph_of(graph: Any) -> Graph:
    """Return the argument if it is a graph."""
    if not isinstance(graph, Graph):
        raise DefinitionError(f"Engine expects a graph, got {graph!r}; write Engine(Graph([...]))")
    return graph


def listeners_of(listeners: Any) -> Followers:
    """Return the listeners as a tuple of functions and observers."""
    if not isinstance(listeners, Iterable) or isinstance(listeners, (str, Mapping)):
        raise DefinitionError(f"listeners must be a list of functions that take an event, got {listeners!r}")
    functions = tuple(listeners)
    for function in functions:
        if not callable(function) and not isinstance(function, Observer):
            raise DefinitionError(
                f"listeners must be a list of functions that take an event; {function!r} is not callable"
            )
    return functions


def store_of(store: Any) -> Store:
    """Return a store; open it if a file or a URL is given."""
    if hasattr(store, "encodes"):
        found: Store = store
        return found
    if isinstance(store, (str, PathLike)):
        from clew.stores.factory import open_store

        return open_store(store)
    raise DefinitionError(f"store must be a store, a file path or a postgresql:// URL, got {store!r}")


def _advice(name: str) -> str:
    if name in _ELSEWHERE:
        return f"it belongs to {_ELSEWHERE[name]}"
    return f"{nearest(name, _RULES)} (if you pass options, pass values as one mapping)"


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _is_clock(value: Any) -> bool:
    verbs = ("time", "monotonic", "advance")
    return not isinstance(value, type) and all(callable(getattr(value, verb, None)) for verb in verbs)


Rule: TypeAlias = tuple[Callable[[Any], bool], str]
"""Whether a value is valid, and what the message says that it must be."""


def _choice(alternatives: Any) -> Rule:
    names = get_args(alternatives)
    return lambda value: isinstance(value, str) and value in names, f"be {' or '.join(map(repr, names))},"


_COUNT: Rule = (lambda value: is_int(value, 1), "be an int >= 1,")
_FLAG: Rule = (lambda value: isinstance(value, bool), "be True or False,")
_RULES: dict[str, Rule] = {
    "max_concurrent_nodes": _COUNT,
    "queue_depth": _COUNT,
    "max_steps": _COUNT,
    "on_error": _choice(OnError),
    "on_conflict": _choice(OnConflict),
    "on_ambiguous": _choice(OnAmbiguous),
    "durability": _choice(Durability),
    "default_node_timeout": (
        lambda value: value is None or _is_positive(value),
        "be a number of seconds > 0 or None,",
    ),
    "lease": (_is_positive, "be a number of seconds > 0,"),
    "executor": (
        lambda value: value is None or callable(getattr(value, "submit", None)),
        "be a concurrent.futures.Executor,",
    ),
    "seed": (lambda value: value is None or is_int(value), "be an int or None,"),
    "check": _FLAG,
    "check_mutation": _FLAG,
    "publish": _FLAG,
    "import_string": (
        lambda value: isinstance(value, str) and (not value or ":" in value),
        "be a string such as 'shop:graph',",
    ),
    "clock": (_is_clock, "have time(), monotonic() and advance(), like VirtualClock();"),
}
"""The options of an engine, and what their values must be."""
