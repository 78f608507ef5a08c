"""Listing runs one page at a time: what all stores share.

Runs are ordered by their creation times; runs with the same time are in the order in which the store got them. A cursor
is opaque. It names the last run of a page, so runs that are created or deleted between two pages neither repeat nor
hide others.

The statement of SQL stores reads rows in the order of an index: by status, by graph or by one attribute if the query
selects by it, and then by creation time. Rows have no `start`, `codes`, `start_digest` and `description`. The checksum
covers these columns, so it is not verified here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from clew.errors import StoreError
from clew.state.number_checks import is_int
from clew.stores.protocol import RunRow
from clew.stores.queue import PARKED
from clew.stores.sql_rows import read_row

LISTED = (
    "runs.id, runs.run_id, runs.graph, NULL, runs.seed, runs.status, runs.created, runs.updated, runs.parent, "
    "runs.parent_step, runs.error, runs.structure, '{}', '', '', runs.target, runs.child_of, runs.place, "
    "runs.attributes, runs.last_queue, runs.census"
)
"""The number of a run, and the values for `read_row` without a checksum."""

Order = Literal["newest", "oldest"]


def encode_cursor(created: float, number: int) -> str:
    """Return the cursor after a run."""
    return base64.urlsafe_b64encode(msgspec.json.encode((created, number))).decode()


def decode_cursor(cursor: str) -> tuple[float, int]:
    """Return creation time and number of the last run of a page. Raise StoreError if it is not a cursor."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[float, int])
    except (msgspec.MsgspecError, binascii.Error, ValueError, TypeError, AttributeError):
        raise StoreError(f"cursor: expected a cursor that page() returned, got {cursor!r}") from None


def check_page(limit: Any, order: Any) -> None:
    """Raise StoreError for invalid options of a page."""
    if not is_int(limit, 1):
        raise StoreError(f"limit: expected an int >= 1, got {limit!r}")
    if order not in ("newest", "oldest"):
        raise StoreError(f"order: expected 'newest' or 'oldest', got {order!r}")


def searched(text: str) -> str:
    """Return a text in which upper and lower case of ASCII letters are the same."""
    return "".join(char.lower() if char.isascii() else char for char in text)


def page_statement(
    *,
    status: str | None = None,
    graph: str | None = None,
    attributes: Mapping[str, str] = {},
    text: str = "",
    prefix: str = "",
    after: float | None = None,
    before: float | None = None,
    limit: int = 100,
    cursor: str | None = None,
    order: Order = "newest",
    children: bool = False,
    due: bool = False,
    find: str = "instr",
    same_graph: str = "runs.graph = ?",
    schema: str = "",
) -> tuple[str, list[Any], int]:
    """Return the statement of a page, with `?` for each of its values, the values, and the limit.

    It selects one row more than the limit.

    `find` is the function that finds a text in another, `same_graph` the condition for a graph name, and
    `schema` is written before each name of a table.
    """
    check_page(limit, order)
    named = list(attributes.items())
    table, number = ("named", "run") if named else ("runs", "id")
    parts, values = list[str](), list[Any]()

    def add(part: str, *more: Any) -> None:
        parts.append(part)
        values.extend(more)

    source = f"{schema}runs"
    if named:
        source = f"{schema}attributes AS named CROSS JOIN {schema}runs"
        add("runs.id = named.run AND named.name = ? AND named.value = ?", *named[0])
    for other in named[1:]:
        same = "also.created = named.created AND also.run = named.run"
        add(
            f"EXISTS (SELECT 1 FROM {schema}attributes AS also WHERE also.name = ? AND also.value = ? AND {same})",
            *other,
        )
    if status is not None:
        add("runs.status = ?", status)
    if graph is not None:
        add(same_graph, *[graph] * same_graph.count("?"))
    if after is not None:
        add(f"{table}.created >= ?", after)
    if before is not None:
        add(f"{table}.created < ?", before)
    if cursor is not None:
        add(
            f"({table}.created, {table}.{number}) {'<' if order == 'newest' else '>'} (?, ?)",
            *decode_cursor(cursor),
        )
    if not children:
        add("runs.child_of IS NULL")
    if due:
        add(f"EXISTS (SELECT 1 FROM {schema}queue WHERE queue.run = runs.id AND queue.due < ?)", PARKED)
    if text:
        add(
            f"{find}(lower(runs.run_id || ' ' || runs.graph || ' ' || runs.attributes), ?) > 0",
            searched(text),
        )
    if prefix:
        add("substr(runs.run_id, 1, ?) = ?", len(prefix), prefix)
    way = "DESC" if order == "newest" else "ASC"
    where = f"WHERE {' AND '.join(parts)}" if parts else ""
    sql = f"SELECT {LISTED} FROM {source} {where} ORDER BY {table}.created {way}, {table}.{number} {way} LIMIT ?"
    return sql, [*values, limit + 1], limit


def read_page(found: Sequence[Sequence[Any]], limit: int) -> tuple[list[RunRow], str | None]:
    """Return the rows that `page_statement` selected, and the cursor of the next page."""
    rows = [read_row((*values, 0, 0), is_complete=False) for _, *values in found[:limit]]
    if len(found) <= limit:
        return rows, None
    number, created = found[limit - 1][0], found[limit - 1][6]
    return rows, encode_cursor(created, number)
