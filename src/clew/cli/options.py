"""Options that commands share: the store, the run and its graph."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

from clew import Engine
from clew.cli.declarations import argument, flag, option
from clew.cli.output import CommandError, remember_option
from clew.errors import DefinitionError, StoreError, UnknownRunError
from clew.runtime.loader import complete
from clew.runtime.project import graph_for, listed_graphs
from clew.runtime.reporting.events import Listener
from clew.runtime.turns.turn_calls import TurnOptions
from clew.stores import RunRow, Store
from clew.stores.factory import open_store, without_password

StoreOption = Annotated[
    str | None,
    option(
        "--store",
        "STORE",
        "Store to use: a SQLite file or a postgresql:// URL. [default: $CLEW_STORE, then clew.db]",
    ),
]
GraphOption = Annotated[
    str | None,
    option(
        "--graph",
        "MODULE:GRAPH",
        "Use this graph. [default: the one listed in [tool.clew] graphs of pyproject.toml]",
    ),
]
JsonOption = Annotated[bool, flag("--json", "Print the result as JSON.")]
IdOption = Annotated[str | None, option("--run-id", "RUN", "Id of the new run. [default: generated]")]
TargetArgument = Annotated[str, argument("MODULE:GRAPH", "Graph to run: flow:graph is `graph` in flow.py.")]
RunArgument = Annotated[str, argument("RUN", "Id of a run, or the beginning of one.")]
PathOption = Annotated[
    str | None, option("--path", "PATH", "Look inside the run: at a child (ask#0!0) or a subgraph (sub#0).")
]

_NAMED = 5  # runs, if several match


@contextmanager
def store_at(address: str | None, *, create: bool = False, connections: int = 8) -> Iterator[Store]:
    """Open the store of a command, and close it at the end."""
    remember_option("--store", None if address is None else without_password(address))
    where = address or os.environ.get("CLEW_STORE") or "clew.db"
    try:
        store = open_store(where, create=create, connections=connections)
    except StoreError as error:
        if type(error) is not StoreError:  # a damaged store, not a wrong name
            raise
        what, _, hint = str(error).rpartition("; ")
        raise CommandError(
            what or hint, hint if what else "name a store with --store or CLEW_STORE"
        ) from error
    try:
        yield store
    finally:
        store.close()


OnErrorOption = Annotated[
    str,
    option(
        "--on-error", "MODE", "After a failure: stop, or continue with the nodes that do not depend on it."
    ),
]


StopBeforeOption = Annotated[
    list[str] | None,
    option(
        "--stop-before",
        "NODE",
        "Pause before the step that contains this node (sub/tool inside a subgraph). Can be repeated.",
    ),
]

StopAfterOption = Annotated[
    list[str] | None,
    option("--stop-after", "NODE", "Pause after the step in which this node ran. Can be repeated."),
]


ThreadOption = Annotated[
    str | None,
    option(
        "--thread", "NAME", "Continue this thread from its last state; start the thread if it does not exist."
    ),
]

HeadOption = Annotated[
    str | None, option("--thread", "NAME", "Make the new run the last one of this thread.")
]

TimeoutOption = Annotated[
    float | None,
    option(
        "--timeout",
        "SECONDS",
        "With --thread: wait at most this long while another process runs the thread. [default: no limit]",
    ),
]

DropOption = Annotated[
    bool, flag("--drop", "With --thread: cancel the last run of the thread if it is waiting or paused.")
]


AttributeOption = Annotated[
    list[str] | None, option("--attribute", "NAME=TEXT", "Attribute to find the run by. Can be repeated.")
]


def attributes_of(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return attributes from ``NAME=TEXT`` pairs."""
    found = dict[str, str]()
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{pair!r} is not an attribute", "write NAME=TEXT, such as tenant=acme")
        if name in found:
            raise CommandError(
                f"attribute {name!r} is given twice: {found[name]!r} and {text!r}", "give each attribute once"
            )
        found[name] = text
    return found


def time_of(text: str | None, option: str) -> float | None:
    """Return a time as seconds since the epoch: an ISO 8601 time with a time zone, or a number."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{option}: {text!r} is not a time", "write 2030-01-31T08:00:00Z, or seconds since the epoch"
        ) from None
    if found.tzinfo is None:
        raise CommandError(f"{option}: {text!r} has no time zone", f"write {text}Z for UTC, or {text}+02:00")
    return found.timestamp()


def duration_of(text: str, option: str) -> float:
    """Return a duration such as 60s or 5m in seconds."""
    from clew.views.query import QueryError, seconds_of

    try:
        if text[-1:].isdigit():  # `--older-than 3` would delete what its user meant to keep for days
            raise QueryError("the unit is missing")
        return seconds_of(text)
    except QueryError:
        raise CommandError(
            f"{option}: {text!r} is not a duration",
            "give a number and a unit, such as 90s, 15m, 12h, 30d or 8w",
        ) from None


def turn_of(thread: str | None, timeout: float | None, drop: bool) -> TurnOptions:
    """Return the options of a thread, as methods of the engine take them."""
    if thread is None and (timeout is not None or drop):
        raise CommandError(f"{'--drop' if drop else '--timeout'} needs a thread", "give --thread NAME")
    options: TurnOptions = {}
    if timeout is not None:
        options["timeout"] = timeout
    if drop:
        options["drop"] = True
    return options


def find_run(store: Store, text: str) -> RunRow:
    """Return the run with this id, or the only run whose id starts with it."""
    try:
        return store.row(text)
    except UnknownRunError:
        rows, more = (
            store.page(prefix=text, children=True, limit=_NAMED, order="oldest") if text else ([], None)
        )
        if len(rows) == 1:
            return store.row(rows[0].run_id)
        if rows:
            ids = ", ".join(row.run_id for row in rows) + (", ..." if more else "")
            raise CommandError(f"several runs start with {text!r}: {ids}", "give more of the id") from None
        raise


def engine_of(
    store: Store, row: RunRow, graph: str | None, listeners: Sequence[Listener] = (), **options: Any
) -> Engine:
    """Return an engine for a run, with the given graph or the one that the project lists."""
    loaded, target = graph_for(row, graph if graph is None else complete(graph))
    remember_graph(target)
    return Engine(loaded, store=store, listeners=listeners, import_string=target, check=False, **options)


def graph_option(row: RunRow) -> str:
    """Return the ``--graph`` that a command about a run needs; "" if the project may list its graph."""
    listed = _listed()
    if row.target:
        return "" if row.target in listed else row.target
    return "" if listed else "MODULE:GRAPH"


def remember_graph(target: str) -> None:
    """Add ``--graph`` to the commands that hints suggest, unless the project lists the graph."""
    remember_option("--graph", None if target in _listed() else target)


def _listed() -> Sequence[str]:
    try:
        return listed_graphs()
    except DefinitionError:
        return ()


def inspector(store: Store) -> Engine:
    """Return an engine without a graph, which can inspect every run of a store and imports no user code."""
    return Engine(store=store)
