"""Where a command works: the store, the run that is meant, and the graph that made it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from clew import Engine
from clew.cli.output import CommandError, remember_option
from clew.errors import DefinitionError, StoreError, UnknownRunError
from clew.runtime.events import Listener
from clew.runtime.project import graph_for, listed_graphs
from clew.stores import RunRow, Store
from clew.stores.factory import open_store

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="STORE", help="A file or postgresql://...; else CLEW_STORE, else clew.db."
    ),
]
GraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="MODULE:GRAPH",
        help="Use this graph. [default: the one listed in [tool.clew] graphs of pyproject.toml]",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Say it as JSON.")]
IdOption = Annotated[str | None, typer.Option("--run-id", metavar="RUN", help="The id of the new run.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or the beginning of one.")]


@contextmanager
def store_at(address: str | None, *, create: bool = False) -> Iterator[Store]:
    """The store of a command, closed at the end."""
    remember_option("--store", address)
    where = address or os.environ.get("CLEW_STORE") or "clew.db"
    try:
        store = open_store(where, create=create)
    except StoreError as error:
        told, _, hint = str(error).rpartition("; ")
        if told.startswith(f"store {where!r}") or told.endswith("is not a store URL"):
            raise CommandError(told, hint) from error
        raise
    try:
        yield store
    finally:
        store.close()


def find_run(store: Store, text: str) -> RunRow:
    """The run that is meant: by its id, or by the beginning of one."""
    try:
        return store.row(text)
    except UnknownRunError:
        rows = [row for row in store.rows() if row.run_id.startswith(text)] if text else []
        if len(rows) == 1:
            return rows[0]
        if rows:
            told = ", ".join(row.run_id for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
            raise CommandError(f"several runs begin with {text!r}: {told}", "give more of the id") from None
        raise


def engine_of(
    store: Store, row: RunRow, graph: str | None, listeners: Sequence[Listener] = (), **options: Any
) -> Engine:
    """Return an engine that can run nodes of a run: with the graph that was asked for, or a listed one."""
    loaded, target = graph_for(row, graph)
    remember_graph(target)
    return Engine(loaded, store=store, listeners=listeners, import_string=target, **options)


def remember_graph(target: str) -> None:
    """Let commands that are suggested name the graph, unless the project lists it."""
    try:
        is_listed = target in listed_graphs()
    except DefinitionError:
        is_listed = False
    remember_option("--graph", None if is_listed else target)


def inspector(store: Store) -> Engine:
    """Return an engine that can inspect every run of a store. It has no graph, so no code is imported."""
    return Engine(store=store)
