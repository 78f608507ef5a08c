"""The frontier: items that wait for a worker, lowest order first, never more than `capacity`.

Only the machine puts work in, one batch at a time, so nobody ever blocks: an item is made when it is taken, and of what
has not been taken the first `capacity` are the queue. `blocks` counts how often there was no room for all.

A batch is one entry of the heap however many items it has: a fan-out of ten thousand costs what one of ten does.
"""

from __future__ import annotations

import heapq

from clew.engine.frame import Batch, Item
from clew.engine.options import Order


class Frontier:
    """A bounded priority queue of items: the first ones of the batches that still have items to make."""

    __slots__ = ("_heap", "_pushed", "_waiting", "blocks", "capacity", "peak")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks = 0
        self.peak = 0
        self._waiting = 0  # items in all, made or not
        self._pushed = 0  # tells entries of one order apart: of a step planned again, the older ones are void
        self._heap: list[tuple[Order, int, Batch | Item]] = []  # each by its first item

    def __len__(self) -> int:
        return min(self._waiting, self.capacity)

    def __bool__(self) -> bool:
        return self._waiting > 0

    def items(self) -> list[Item]:
        """The queued items in the order in which they will be taken."""
        waiting = [
            item
            for _, _, work in self._heap
            for item in ([work] if isinstance(work, Item) else _next_items(work, self.capacity))
        ]
        return sorted(waiting, key=lambda item: item.order)[: self.capacity]

    def push(self, work: Batch | Item) -> None:
        """Queue a batch, or one item again."""
        heap = self._heap
        if heap:  # items may have been made of the first entry since it got its place
            _, number, first = heap[0]
            heap[0] = (_order(first), number, first)
        self._pushed += 1
        heapq.heappush(heap, (_order(work), self._pushed, work))
        self._waiting += 1 if isinstance(work, Item) else len(work.payloads) - work.cursor
        if self._waiting > self.capacity:
            self.blocks += 1
        self.peak = max(self.peak, len(self))

    def pop(self) -> Item:
        """The lowest item."""
        heap = self._heap
        _, number, work = heap[0]
        self._waiting -= 1
        if self._waiting > self.capacity:
            self.blocks += 1
        if isinstance(work, Item):
            heapq.heappop(heap)
            return work
        item = Item(work, work.cursor)
        work.cursor += 1
        if work.cursor == len(work.payloads):
            heapq.heappop(heap)
        elif len(heap) > 1:
            heapq.heapreplace(heap, (_order(work), number, work))
        return item


def _order(work: Batch | Item) -> Order:
    return work.order if isinstance(work, Item) else (*work.order, work.cursor)


def _next_items(batch: Batch, most: int) -> list[Item]:
    """What would be made of a batch, for somebody who looks."""
    return [Item(batch, index) for index in range(batch.cursor, len(batch.payloads))[:most]]
