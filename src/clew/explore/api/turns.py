"""The order in which calls are tried: those that were tried least and rejected least come first.

A call that the service always rejects gets fewer turns than one that leads somewhere. Among equals, the rank of a call
decides (`calls`): what may find a CRITICAL violation, what can lead to a state, probes, what refers to nothing.

The states of a call take turns by the call that led to them, and older states come before newer ones, so paths stay
short. So a read is tried early after each kind of write, and not only in the states that were found first.

Some calls do not wait for their turn in the first state that a call leads to:

- critical ones of the same operation: the service has just accepted the call with credentials, so now only the
  credentials can be the reason to reject it, and one login comes right after another
- writes by an identifier that the call has just replaced: the service may still find something by it
- those about the same resource that the service has always rejected: they may have waited for this call
- others about the same resource, the call itself included: what two calls do to one resource depends on their order.
  They get every second turn, so that a resource with many operations does not delay everything else.

The order depends on the calls and their responses alone. A slow machine tries fewer of them, in the same order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from clew.explore.api.calls import CRITICAL, LEADING, PROBING, Call
from clew.explore.model.actions import Action
from clew.explore.search.strategies import SearchFrontier

REJECTED_COST = 3


class CallTurns:
    """The strategy of `explore_api`. `call_of` finds a call by its name, if it has been offered; `was_rejected` tells
    whether the last call was rejected.
    """

    def __init__(self, call_of: Callable[[str], Call | None], was_rejected: Callable[[], bool]) -> None:
        self._call_of = call_of
        self._was_rejected = was_rejected

    def start(self, actions: Sequence[Action]) -> SearchFrontier:
        """Return a new frontier."""
        return _Turns(actions, self._call_of, self._was_rejected)

    def __repr__(self) -> str:
        return "CallTurns()"


class _States:
    """The states in which a call has not been tried, by the call that led to them."""

    def __init__(self) -> None:
        self._by_arrival: dict[int, deque[int]] = {}
        self._turns: deque[int] = deque()

    def add(self, node: int, arrival: int) -> None:
        states = self._by_arrival.setdefault(arrival, deque())
        if not states:
            self._turns.append(arrival)
        states.append(node)

    def take(self) -> int:
        arrival = self._turns.popleft()
        states = self._by_arrival[arrival]
        node = states.popleft()
        if states:
            self._turns.append(arrival)
        return node

    def __bool__(self) -> bool:
        return bool(self._turns)


class _Turns:
    oldest_first = True

    def __init__(
        self,
        actions: Sequence[Action],
        call_of: Callable[[str], Call | None],
        was_rejected: Callable[[], bool],
    ) -> None:
        self._actions = actions
        self._call_of = call_of
        self._was_rejected = was_rejected
        self._waiting: dict[int, _States] = {}
        self._cost: dict[int, int] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._queued: set[int] = set()
        self._at_once: deque[tuple[int, int]] = deque()
        self._related: deque[tuple[int, int]] = deque()
        self._is_related_next = True
        self._accepted: set[int] = set()
        self._led: set[int] = {-1}  # the calls that have led to a state
        self._latest = -1  # the call that was tried last, which leads to the states that are added

    def add(self, node: int, actions: Sequence[int]) -> None:
        first = self._latest not in self._led
        self._led.add(self._latest)
        for action in actions:
            queue = self._queue_after_latest(action) if first else None
            if queue is not None:
                queue.append((node, action))
            else:
                self._waiting.setdefault(action, _States()).add(node, self._latest)
                self._queue(action)

    def _queue_after_latest(self, action: int) -> deque[tuple[int, int]] | None:
        latest = self._call_of(self._actions[self._latest].name)
        call = self._call_of(self._actions[action].name)
        if call is None or latest is None:
            return None
        if call.rank == CRITICAL:
            return self._at_once if call.operation == latest.operation else None
        is_known = action in self._waiting
        if call.is_former and call.rank == LEADING and not is_known:
            return self._at_once
        if not (is_known and call.rank == LEADING and call.resources & latest.resources):
            return None
        always_rejected = action in self._cost and action not in self._accepted
        return self._at_once if always_rejected else self._related

    def _rank(self, action: int) -> int:
        call = self._call_of(self._actions[action].name)
        if call is not None:
            return call.rank
        return PROBING if self._actions[action].probe else LEADING

    def _queue(self, action: int) -> None:
        if action not in self._queued and self._waiting.get(action):
            self._queued.add(action)
            heapq.heappush(self._heap, (self._cost.get(action, 0), self._rank(action), action))

    def pairs(self) -> Iterator[tuple[int, int]]:
        while self._at_once or self._related or self._heap:
            self._is_related_next = not self._is_related_next
            if self._at_once:
                node, action = self._at_once.popleft()
            elif self._related and (self._is_related_next or not self._heap):
                node, action = self._related.popleft()
            else:
                _, _, action = heapq.heappop(self._heap)
                self._queued.discard(action)
                node = self._waiting[action].take()
            self._latest = action
            yield node, action
            rejected = self._was_rejected()
            self._cost[action] = self._cost.get(action, 0) + (REJECTED_COST if rejected else 1)
            if not rejected:
                self._accepted.add(action)
            self._queue(action)
