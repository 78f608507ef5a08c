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
    status, graph, text = chosen.get("status"), chosen.get("graph"), chosen.get("text", "")
    children = chosen.get("children", False)
    if status is not None and status not in get_args(Status):
        raise InputError(f"status must be one of {', '.join(get_args(Status))}, got {status!r}")
    for name, value in (("graph", graph), ("text", text)):
        if value is not None and not (type(value) is str and is_text(value)):
            raise InputError(f"{name} must be text, got {value!r}")
    if not isinstance(children, bool):
        raise InputError(f"children must be True or False, got {children!r}")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InputError(f"limit must be an int >= 1, got {limit!r}")
    times = {name: _seconds(name, chosen.get(name)) for name in ("after", "before")}
    attributes = read_attributes(chosen.get("attributes"))
    if cursor is not None and not isinstance(cursor, str):
        raise InputError(f"cursor must be the cursor of a page, got {cursor!r}")
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


def _seconds(name: str, time: Any) -> float | None:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InputError(f"{name}={time!r} has no time zone; write datetime(..., tzinfo=timezone.utc)")
        return time.timestamp()
    if time is None or (
        isinstance(time, (int, float)) and not isinstance(time, bool) and math.isfinite(time)
    ):
        return time
    raise InputError(f"{name} must be a datetime with a time zone, or seconds since the epoch, got {time!r}")
