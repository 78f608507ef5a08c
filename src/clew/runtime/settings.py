"""The options of an engine, checked when the engine is created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from clew.errors import DefinitionError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.runtime.process.clock import SYSTEM_CLOCK, Clock
from clew.runtime.reporting.observers import Followers, Observer
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
_CLOCK = ("time", "monotonic", "advance")
_POSITIVE = ("max_concurrent_nodes", "queue_depth", "max_steps")
_CHOICES: dict[str, tuple[str, ...]] = {
    "on_error": get_args(OnError),
    "on_conflict": get_args(OnConflict),
    "on_ambiguous": get_args(OnAmbiguous),
    "durability": get_args(Durability),
}

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
        if name not in Settings.__struct_fields__:
            if name in _ELSEWHERE:
                raise DefinitionError(f"the engine has no option {name!r}; it belongs to {_ELSEWHERE[name]}")
            raise DefinitionError(
                f"the engine has no option {name!r}; {nearest(name, Settings.__struct_fields__)} "
                f"(if you pass options, pass values as one mapping)"
            )
        if name in _POSITIVE and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise DefinitionError(f"{name} must be an int >= 1, got {value!r}")
        if name in _CHOICES and (not isinstance(value, str) or value not in _CHOICES[name]):
            raise DefinitionError(f"{name} must be {' or '.join(map(repr, _CHOICES[name]))}, got {value!r}")
        if name == "default_node_timeout" and value is not None and not _is_positive(value):
            raise DefinitionError(
                f"default_node_timeout must be a number of seconds > 0 or None, got {value!r}"
            )
        if name == "lease" and not _is_positive(value):
            raise DefinitionError(f"lease must be a number of seconds > 0, got {value!r}")
        if name == "executor" and value is not None and not callable(getattr(value, "submit", None)):
            raise DefinitionError(f"executor must be a concurrent.futures.Executor, got {value!r}")
        if name == "executor" and (instead := _INSTEAD.get(type(value).__name__)) is not None:
            raise DefinitionError(
                f"a {type(value).__name__} cannot run nodes; use clew.runtime.executors.{instead}, whose nodes have "
                f"their context, and whose processes can be lost or killed one by one"
            )
        if name == "seed" and value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise DefinitionError(f"seed must be an int or None, got {value!r}")
        if name in ("check", "check_mutation", "publish") and not isinstance(value, bool):
            raise DefinitionError(f"{name} must be True or False, got {value!r}")
        if name == "import_string" and not (isinstance(value, str) and (not value or ":" in value)):
            raise DefinitionError(f"import_string must be a string such as 'shop:graph', got {value!r}")
        if name == "clock" and not _is_clock(value):
            raise DefinitionError(
                f"clock must have time(), monotonic() and advance(), like VirtualClock(); got {value!r}"
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


def _is_clock(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, verb, None)) for verb in _CLOCK)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
