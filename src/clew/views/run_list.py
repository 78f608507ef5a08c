"""The list of runs: one page of those that match a query, in an order.

What a store can select by (status, graph, attributes, times) it selects; the other parts of a query are tests of the
rows that it returns. A page reads rows until it is full, and at most `MOST_SCANNED`; its cursor continues there. By
default, the newest run comes first, and a page costs the same among ten runs and among a million. Any other order sorts
all matches, up to `MOST_SORTED`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from clew.errors import ClewError, InputError, StoreError
from clew.runtime.log.entries.records import LABEL, RETRY
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_rows import opened_row
from clew.stores import RunRow
from clew.stores.pages import decode_cursor
from clew.views.descriptions import description_of, nodes_of
from clew.views.query import NEEDS_ME, Part, RunQuery, parse
from clew.views.run.stored_steps import counts_of
from clew.views.run_rows import Json, RowReader

PAGE = 50
MOST = 500
MOST_SCANNED = 20_000
MOST_SORTED = 20_000
_CHUNK = 500
_RUNNING = 200  # runs whose owners are looked up to count the lost ones
SORTS = ("started", "took", "steps", "status", "id", "graph")


def run_list_json(runs: RunReader, text: str, sort: str, cursor: str | None, limit: int, now: float) -> Json:
    """Return a page of the runs that match a query."""
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise InputError(f"sort must be one of {', '.join(SORTS)}, with - for descending, got {sort!r}")
    query = parse(text, now)
    if cursor is not None and name == "started":
        check_cursor(cursor)
    rows = RowReader(runs.store)
    found = _Matches(runs, rows, query, now, newest=sort != "started")
    if name == "started":
        page, following, extra = _in_order(found, cursor, limit)
    else:
        page, following, extra = _sorted(found, rows, name, sort.startswith("-"), cursor, limit, now)
    return {
        "runs": [rows.json(row, now) for row in page],
        "next": following,
        "matches": None,
        "counts": status_counts(rows),
        "query": [part.plain() for part in query.parts],
        "now": now,
        **extra,
    }


def _in_order(found: _Matches, cursor: str | None, limit: int) -> tuple[list[RunRow], str | None, Json]:
    page: list[RunRow] = []
    for row in found.rows(cursor, limit):
        page.append(row)
        if len(page) == limit:
            return page, found.place(), {}
    if found.stopped_at is not None:
        return page, found.stopped_at, {"truncated": True}
    return page, None, {"matches": len(page)} if cursor is None else {}


def _sorted(
    found: _Matches,
    rows: RowReader,
    name: str,
    descending: bool,
    cursor: str | None,
    limit: int,
    now: float,
) -> tuple[list[RunRow], str | None, Json]:
    matches = []
    for row in found.rows(None, _CHUNK):
        matches.append(row)
        if len(matches) == MOST_SORTED:
            break
    keys: Mapping[str, Callable[[RunRow], Any]] = {
        "took": lambda row: rows.took(row, now) or 0.0,
        "steps": lambda row: rows.steps(row) or 0,
        "status": rows.status,
        "id": lambda row: row.run_id,
        "graph": lambda row: row.graph,
    }
    matches.sort(key=keys[name], reverse=descending)
    first = _offset(cursor)
    more = len(matches) > first + limit
    is_cut = found.stopped_at is not None or len(matches) == MOST_SORTED
    extra: Json = {"truncated": True} if is_cut else {"matches": len(matches)}
    return matches[first : first + limit], _cursor(first + limit) if more else None, extra


def status_counts(rows: RowReader) -> dict[str, int]:
    """Return how many runs have each status; lost ones are counted among the newest that execute."""
    by_status = dict(rows.store.tally())
    found = {"all": sum(by_status.values()), **by_status}
    if by_status.get("running"):
        executing, _ = rows.store.page(status="running", limit=_RUNNING)
        lost = sum(rows.status(row) == "lost" for row in executing)
        if lost:
            found["lost"], found["running"] = lost, found["running"] - lost
        if not found["running"]:
            del found["running"]
    found["needs_me"] = sum(found.get(status, 0) for status in NEEDS_ME)
    return found


class _Matches:
    """The rows that match a query, in the order of their creation."""

    def __init__(
        self, runs: RunReader, rows: RowReader, query: RunQuery, now: float, *, newest: bool
    ) -> None:
        self._runs, self._rows, self._query, self._now = runs, rows, query, now
        self._store = runs.store
        self._newest = newest
        self.stopped_at: str | None = None
        self._at: tuple[str | None, int, str | None] = (None, 0, None)

    def rows(self, cursor: str | None, limit: int) -> Iterator[RunRow]:
        """Yield each row that matches; a page shows `limit` of them."""
        selected, done = self._selected()
        parts = [part for part in self._query.valid if part.key not in done]
        scanned = 0
        while True:
            found, following = self._store.page(limit=_CHUNK if parts else limit, cursor=cursor, **selected)
            scanned += len(found)
            for number, row in enumerate(found, start=1):
                if all(self._passes(part, row) for part in parts):
                    self._at = (cursor, number, following if number == len(found) else "")
                    yield row
            if following is None:
                return
            cursor = following
            if scanned >= MOST_SCANNED:
                self.stopped_at = following
                return

    def place(self) -> str | None:
        """Return the cursor after the row that was yielded last; None after the last of all."""
        cursor, number, following = self._at
        if following != "":
            return following
        return self._store.page(limit=number, cursor=cursor, **self._selected()[0])[1]

    def _selected(self) -> tuple[dict[str, Any], set[str]]:
        """Return what the store selects by, and which parts of the query that covers."""
        query = self._query
        wants_children = query.uses("is", "child")
        store: dict[str, Any] = {"children": wants_children, "order": "newest" if self._newest else "oldest"}
        done = set[str]()
        status = query.only("status")
        if status is not None and len(status) == 1 and status[0] not in ("lost", "damaged", "running"):
            store["status"] = status[0]
            done.add("status")
        after, before = query.only("after"), query.only("before")
        if after is not None:
            store["after"] = after
            done.add("after")
        if before is not None:
            store["before"] = before
            done.add("before")
        named = query.only("attr")
        if named is not None:
            store["attributes"] = {named[0]: named[1]}
            done.add("attr")
        return store, done

    def _passes(self, part: Part, row: RunRow) -> bool:
        try:
            return bool(_TESTS[part.key](self, row, part.value)) is not part.negated
        except ClewError:
            return part.negated

    # -- tests -------------------------------------------------------------------------------------------

    def word(self, row: RunRow, value: str) -> bool:
        text = value.lower()
        places = (row.run_id, row.graph, row.target, *row.attributes, *row.attributes.values())
        return any(text in place.lower() for place in places) or self.error(row, text)

    def error(self, row: RunRow, value: str) -> bool:
        if row.error is None:
            return False
        return any(value in line.lower() for line in _errors(row))

    def graph(self, row: RunRow, value: str) -> bool:
        return value in row.graph.lower() or value in row.target.lower()

    def owner(self, row: RunRow, value: str) -> bool:
        owner = self._rows.owner_json(row)
        return owner is not None and any(value in str(part).lower() for part in owner.values())

    def node(self, row: RunRow, value: str) -> bool:
        run = self._runs.open(row.run_id)
        return any(node.get("name") == value for node in nodes_of(description_of(run)))

    def value(self, row: RunRow, value: tuple[str, str]) -> bool:
        name, text = value
        found = self._runs.open(row.run_id).state(fetched=False).values
        return name in found and text.lower() in str(found[name]).lower()

    def kind(self, row: RunRow, value: str) -> bool:
        match value:
            case "retrying":
                counts = counts_of(self._store, row.run_id)
                return row.status == "running" and any(kind == RETRY.name for kind, _ in counts)
            case "lost":
                return self._rows.status(row) == "lost"
            case "fork":
                return row.parent is not None
            case "child":
                return row.child_of is not None
        return self._store.entry(row.run_id) is not None

    def compared(self, number: float | None, value: tuple[Any, float]) -> bool:
        return number is not None and value[0](number, value[1])


def _errors(row: RunRow) -> list[str]:
    opened = opened_row(row)
    return [f"{type(each.error).__name__}: {each.error}" for each in opened.failures]


_TESTS: Mapping[str, Callable[[_Matches, RunRow, Any], bool]] = {
    "": _Matches.word,
    "status": lambda m, row, value: m._rows.status(opened_row(row)) in value,
    "graph": _Matches.graph,
    "error": _Matches.error,
    "label": lambda m, row, value: bool(m._store.find(row.run_id, LABEL.name, value)),
    "parent": lambda m, row, value: row.parent == value,
    "queue": lambda m, row, value: row.queue == value,
    "owner": _Matches.owner,
    "node": _Matches.node,
    "after": lambda m, row, value: row.created >= value,
    "before": lambda m, row, value: row.created < value,
    "took": lambda m, row, value: m.compared(m._rows.took(row, m._now), value),
    "steps": lambda m, row, value: m.compared(m._rows.steps(row), value),
    "attr": lambda m, row, value: row.attributes.get(value[0]) == value[1],
    "value": _Matches.value,
    "is": _Matches.kind,
}


def check_cursor(cursor: str) -> None:
    """Raise InputError for text that is not a cursor of a store."""
    try:
        decode_cursor(cursor)
    except StoreError:
        raise InputError(f"after: expected a cursor that a page has returned, got {cursor!r}") from None


def _cursor(first: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(first)).decode()


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    try:
        return max(0, msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=int))
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise InputError(f"after: expected a cursor that a page has returned, got {cursor!r}") from None
