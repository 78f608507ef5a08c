"""Clew: graphs of Python functions over immutable, versioned state.

The layers, lowest first. Imports only point down::

    errors         all error classes
    state       0  values: GraphState, reducers, the canonical codec, digests, checkpoints
    graph       1  definitions: nodes, gates, policies, Context, Graph, subgraphs, validation
    stores      1  storage of runs: memory, SQLite, PostgreSQL, and the conformance suite for stores
    incremental 2  the dependency graph: values computed on demand, and recomputed only if necessary
    engine      2  the pure state machine: what runs next, merging, lookahead; no clock, no I/O
    drawing     2  graphs as SVG, DOT, Mermaid and text
    runtime     3  the Engine and its drivers (blocking, asyncio): durability, recorded calls, replay, reuse
    observe     4  traces for OpenTelemetry, metrics for Prometheus
    explore     4  exploration of every reachable state; checks of workflows; systems that can roll back
    views       5  runs as JSON for people
    web         6  the page and its HTTP API
    cli         7  the command line, one module for each command
    testing        a virtual clock, completion in any order, the conformance suite
    pytest_plugin  recorded runs as regression tests
"""

from __future__ import annotations

import typing as _typing

from clew.errors import ClewError
from clew.graph import (
    END,
    Cache,
    Command,
    Context,
    Graph,
    Node,
    NodePolicy,
    RetryPolicy,
    Send,
    SideEffectPolicy,
    all_of,
    ifelse,
    interrupt,
    node,
    route,
)
from clew.state import GraphState, NodeExecution, Overwrite, StoredObject, append, merge, register_type

if _typing.TYPE_CHECKING:
    from clew import engine as engine
    from clew import explore as explore
    from clew import incremental as incremental
    from clew import observe as observe
    from clew import runtime as runtime
    from clew import stores as stores
    from clew import testing as testing
    from clew.incremental import DependencyGraph, Unchanged, schema
    from clew.runtime import Checkpoint, Engine, Event, RunResult, SchedulerMetrics, SchedulerState, result_of
    from clew.runtime.handles.handle import RunHandle
    from clew.runtime.review.replay_report import ReplayReport
    from clew.runtime.workers.worker import Worker
    from clew.stores import MemoryStore, PostgresStore, SQLiteStore

__version__ = "0.1.0"

__all__ = [
    "Cache",
    "Checkpoint",
    "ClewError",
    "Command",
    "Context",
    "DependencyGraph",
    "END",
    "Engine",
    "Event",
    "Graph",
    "GraphState",
    "MemoryStore",
    "Node",
    "NodeExecution",
    "NodePolicy",
    "Overwrite",
    "PostgresStore",
    "ReplayReport",
    "RetryPolicy",
    "RunHandle",
    "RunResult",
    "SQLiteStore",
    "SchedulerMetrics",
    "SchedulerState",
    "Send",
    "SideEffectPolicy",
    "StoredObject",
    "Unchanged",
    "Worker",
    "all_of",
    "append",
    "ifelse",
    "interrupt",
    "merge",
    "node",
    "register_type",
    "result_of",
    "route",
    "schema",
]


# The runtime and the stores are loaded on first use: a module that only defines graphs does not need them.
_LATER = {
    **dict.fromkeys(("DependencyGraph", "Unchanged", "schema"), "clew.incremental"),
    **dict.fromkeys(("Checkpoint", "Engine", "Event", "RunResult"), "clew.runtime"),
    **dict.fromkeys(("SchedulerMetrics", "SchedulerState", "result_of"), "clew.runtime"),
    "ReplayReport": "clew.runtime.review.replay_report",
    "RunHandle": "clew.runtime.handles.handle",
    "Worker": "clew.runtime.workers.worker",
    **dict.fromkeys(("MemoryStore", "PostgresStore", "SQLiteStore"), "clew.stores"),
}


_PARTS = ("engine", "explore", "incremental", "observe", "runtime", "stores", "testing")


if not _typing.TYPE_CHECKING:  # a type checker reports an unknown name

    def __getattr__(name: str) -> _typing.Any:
        from importlib import import_module

        if name in _PARTS:  # `import clew` is enough for `clew.explore.check_graph`
            return import_module(f"clew.{name}")
        if name not in _LATER:
            raise AttributeError(f"module 'clew' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_LATER[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
