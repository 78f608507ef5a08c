"""List the runs of a store, one page at a time.

A page has the newest runs that match, in the order of their creation. Its cursor leads to the page with the next older
runs. A store reads no more rows than it returns, so a page costs the same with ten runs as with a million.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict, get_args

from clew.engine.options import Status
from clew.errors import InputError, StoreCorruptError, StoreError
from clew.graph.names import is_text
from clew.runtime.log.registration import read_attributes
from clew.runtime.log.run_rows import opened_row
from clew.state.number_checks import is_int, is_number
from clew.stores import RunRow, Store


class RunFilter(TypedDict, total=False):
    """Which runs are listed: those that match everything that is given."""

    status: Status | None
    graph: str | None
    """The name of the graph."""
    attributes: Mapping[str, str] | None
    text: str
    """A part of the run id, of the name of the graph, or of an attribute; upper and lower case are the same."""
    after: datetime | float | None
    """Only runs that were created then or later: a datetime with a time zone, or seconds since the epoch."""
    before: datetime | float | None
    """Only runs that were created earlier."""
    children: bool
    """Whether children are listed too."""


class RunPage(list[RunRow]):
    """The runs of a page, oldest first, without `start` and `codes`."""

    def __init__(self, rows: Iterable[RunRow] = (), cursor: str | None = None) -> None:
        super().__init__(rows)
        self.cursor = cursor
        """Where the page with the next older runs begins; None after the last page."""


def list_runs(store: Store, chosen: RunFilter, limit: Any, cursor: Any, *, classes: bool = False) -> RunPage:
    """Return one page of runs. The `error` of a run with a damaged row is a StoreCorruptError."""
    status: Any = chosen.get("status")
    graph: Any = chosen.get("graph")
    text: Any = chosen.get("text", "")
    children = chosen.get("children", False)
    rules = (
        ("status", status is None or status in get_args(Status), f"one of {', '.join(get_args(Status))}"),
        ("graph", graph is None or _is_text(graph), "text"),
        ("text", text is None or _is_text(text), "text"),
        ("children", isinstance(children, bool), "True or False"),
        ("limit", is_int(limit, 1), "an int >= 1"),
        ("cursor", cursor is None or isinstance(cursor, str), "the cursor of a page"),
    )
    given = {**chosen, "limit": limit, "cursor": cursor}
    for name, is_valid, expected in rules:
        if not is_valid:
            raise InputError(f"{name} must be {expected}, got {given[name]!r}")
    times = {name: _seconds(name, chosen.get(name)) for name in ("after", "before")}
    attributes = read_attributes(chosen.get("attributes"))
    try:
        rows, following = store.page(
            status=status,
            graph=graph,
            attributes=attributes,
            text=text,
            after=times["after"],
            before=times["before"],
            limit=limit,
            cursor=cursor,
            children=children,
        )
    except StoreError as error:
        if type(error) is StoreError and cursor is not None:
            raise InputError(f"{error}; leave it out for the first page") from error
        raise
    found = [opened_row(row, classes=classes) for row in reversed(rows)]
    for row in found:
        if row.damage:
            row.error = StoreCorruptError(row.damage)
    return RunPage(found, following)


def _is_text(value: Any) -> bool:
    return type(value) is str and is_text(value)


def _seconds(name: str, time: Any) -> float | None:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InputError(f"{name}={time!r} has no time zone; write datetime(..., tzinfo=timezone.utc)")
        return time.timestamp()
    if time is None or (is_number(time) and math.isfinite(time)):
        return time
    raise InputError(f"{name} must be a datetime with a time zone, or seconds since the epoch, got {time!r}")
