"""The frontier: items that wait for a worker, lowest order first, at most `capacity`.

Only the machine adds work, one batch at a time, so adding never blocks. An item is created when it is taken; the queue
is the first `capacity` items that have not been taken. `blocks` counts how often more items waited than fit.

A batch is one heap entry, however many items it has. A fan-out of ten thousand therefore costs as much as one of ten.
"""

from __future__ import annotations

import heapq

from clew.engine.frame import Batch, Item
from clew.engine.options import Order


class Frontier:
    """A bounded priority queue of items, created lazily from their batches."""

    __slots__ = ("_heap", "_pushed", "_waiting", "blocks", "capacity", "peak")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks = 0
        self.peak = 0
        self._waiting = 0  # all items, created or not
        self._pushed = 0  # breaks ties of equal order: entries of a step that was planned again
        self._heap: list[tuple[Order, int, Batch | Item]] = []  # ordered by the first item

    def __len__(self) -> int:
        return min(self._waiting, self.capacity)

    def __bool__(self) -> bool:
        return self._waiting > 0

    def items(self) -> list[Item]:
        """Return the queued items in the order in which they will be taken."""
        waiting = [
            item
            for _, _, work in self._heap
            for item in ([work] if isinstance(work, Item) else _next_items(work, self.capacity))
        ]
        return sorted(waiting, key=lambda item: item.order)[: self.capacity]

    def push(self, work: Batch | Item) -> None:
        """Queue a batch, or requeue one item."""
        heap = self._heap
        if heap:  # items may have been taken from the first entry since it was placed
            _, number, first = heap[0]
            heap[0] = (_order(first), number, first)
        self._pushed += 1
        heapq.heappush(heap, (_order(work), self._pushed, work))
        self._waiting += 1 if isinstance(work, Item) else len(work.payloads) - work.cursor
        if self._waiting > self.capacity:
            self.blocks += 1
        self.peak = max(self.peak, len(self))

    def pop(self) -> Item:
        """Remove and return the lowest item."""
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
    """Return the next items of a batch without taking them."""
    return [Item(batch, index) for index in range(batch.cursor, len(batch.payloads))[:most]]
