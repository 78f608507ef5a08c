"""The frontier: items that wait for a worker, lowest order first, never more than `capacity`.

Only the machine puts items in, one batch at a time, so nobody ever blocks: what does not fit stays in its batch,
unmade, and comes in as room appears. `blocks` counts how often there was no room.
"""

from __future__ import annotations

import heapq

from clew.engine.strand import Batch, Item


class Frontier:
    """A bounded heap of items, and behind it the batches that still have items to make."""

    __slots__ = ("_backlog", "_heap", "blocks", "capacity", "peak")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks = 0
        self.peak = 0
        self._heap: list[tuple[tuple[int, ...], Item]] = []
        self._backlog: list[tuple[tuple[int, ...], int, Batch | Item]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap) or bool(self._backlog)

    def items(self) -> list[Item]:
        """The queued items in the order in which they will be taken."""
        return [item for _, item in sorted(self._heap, key=lambda pair: pair[0])]

    def push(self, work: Batch | Item) -> None:
        """Queue a batch, or one item again."""
        if isinstance(work, Item):
            order = work.order
        else:
            order = (*work.level.strand.order, work.level.number, work.number)
        heapq.heappush(self._backlog, (order, id(work), work))
        self._admit()

    def pop(self) -> Item:
        """The lowest item."""
        item = heapq.heappop(self._heap)[1]
        self._admit()
        return item

    def _admit(self) -> None:
        heap, backlog = self._heap, self._backlog
        while backlog:
            if len(heap) >= self.capacity:
                self.blocks += 1
                break
            work = backlog[0][2]
            if isinstance(work, Item):
                heapq.heappop(backlog)
                heapq.heappush(heap, (work.order, work))
            else:
                item = Item(work, work.cursor)
                work.cursor += 1
                if work.cursor == len(work.payloads):
                    heapq.heappop(backlog)
                heapq.heappush(heap, (item.order, item))
        if len(heap) > self.peak:
            self.peak = len(heap)
