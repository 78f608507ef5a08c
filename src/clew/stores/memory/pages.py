"""Listing runs in memory one page at a time: a method of `MemoryStore`. The rules are in `clew.stores.pages`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.stores.pages import Order, check_page, decode_cursor, encode_cursor, searched
from clew.stores.protocol import RunRow
from clew.stores.queue import PARKED

if TYPE_CHECKING:
    from clew.stores.memory.store import MemoryStore


def page(
    store: MemoryStore,
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
) -> tuple[list[RunRow], str | None]:
    check_page(limit, order)
    last, newest = None if cursor is None else decode_cursor(cursor), order == "newest"

    def is_listed(row: RunRow, place: tuple[float, int]) -> bool:
        return (
            (status is None or row.status == status)
            and (graph is None or row.graph == graph)
            and attributes.items() <= row.attributes.items()
            and (after is None or row.created >= after)
            and (before is None or row.created < before)
            and (last is None or (place < last if newest else place > last))
            and (children or row.child_of is None)
            and row.run_id.startswith(prefix)
            and (not text or searched(text) in searched(" ".join(_texts(row))))
        )

    with store._lock:
        placed = [
            ((run.row.created, run.number), run.row)
            for run in store._runs.values()
            if not due or (run.entry is not None and run.entry.due < PARKED)
        ]
        found = sorted(
            (each for each in placed if is_listed(each[1], each[0])), key=lambda each: each[0], reverse=newest
        )
        rows = [
            replace(row, start=None, codes={}, start_digest="", description="") for _, row in found[:limit]
        ]
    return rows, encode_cursor(*found[limit - 1][0]) if len(found) > limit else None


def _texts(row: RunRow) -> list[str]:
    return [row.run_id, row.graph, *(text for pair in row.attributes.items() for text in pair)]


def tally(store: MemoryStore) -> dict[str, int]:
    with store._lock:
        return dict(Counter(run.row.status for run in store._runs.values() if run.row.child_of is None))
