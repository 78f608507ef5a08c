"""The frontier: items that wait for a worker, lowest order first, never more than `capacity`.

Only the machine puts items in, one batch at a time, so nobody ever blocks: what does not fit stays in its batch,
unmade, and comes in as room appears. `blocks` counts how often there was no room.

Items of one batch come in order, so they wait in a queue of their own, and the heap is one of queues, by their first
items: a fan-out of ten thousand is one entry.
"""

from __future__ import annotations

import heapq
from collections import deque

from clew.engine.strand import Batch, Item
from clew.engine.terms import Order

Queue = deque[Item]


class Frontier:
    """A bounded priority queue of items, and behind it the batches that still have items to make."""

    __slots__ = ("_backlog", "_heap", "_length", "blocks", "capacity", "peak")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks = 0
        self.peak = 0
        self._length = 0
        self._heap: list[tuple[Order, Queue]] = []
        self._backlog: list[tuple[Order, Batch | Item, Queue]] = []

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return bool(self._heap) or bool(self._backlog)

    def items(self) -> list[Item]:
        """The queued items in the order in which they will be taken."""
        return sorted((item for _, queue in self._heap for item in queue), key=lambda item: item.order)

    def push(self, work: Batch | Item) -> None:
        """Queue a batch, or one item again."""
        if isinstance(work, Item):
            order = work.order
        else:
            order = (*work.order, work.cursor)
        heapq.heappush(self._backlog, (order, work, deque()))
        self._admit()

    def pop(self) -> Item:
        """The lowest item."""
        heap = self._heap
        queue = heap[0][1]
        item = queue.popleft()
        self._length -= 1
        if not queue:
            heapq.heappop(heap)
        elif len(heap) > 1:
            heapq.heapreplace(heap, (queue[0].order, queue))
        if self._backlog:
            self._admit()
        return item

    def _admit(self) -> None:
        backlog, room = self._backlog, self.capacity - self._length
        while backlog:
            if room <= 0:
                self.blocks += 1
                break
            _, work, queue = backlog[0]
            if isinstance(work, Item):
                item, made_all = work, True
            else:
                item = Item(work, work.cursor)
                work.cursor += 1
                made_all = work.cursor == len(work.payloads)
            if made_all:
                heapq.heappop(backlog)
            queue.append(item)
            if len(queue) == 1:
                heapq.heappush(self._heap, (item.order, queue))
            self._length += 1
            room -= 1
        if self._length > self.peak:
            self.peak = self._length
