"""The context that a node receives: the run as one attempt of one item sees it.

Random values depend only on the seed of the run, the path of the item and the attempt. They do not depend on other
branches or on timing.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from random import Random
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from clew.engine.frame import Item
from clew.engine.options import stream
from clew.engine.records import TypedQuestion
from clew.graph.annotations import shown
from clew.graph.json_schema import json_schema
from clew.runtime.calls import pending_awaits
from clew.runtime.calls.arguments import check_built
from clew.runtime.calls.needless_await import check_not_awaited
from clew.runtime.calls.scopes import NodeCall, Scope, scope_of
from clew.runtime.calls.transaction import CollectedTransaction
from clew.runtime.calls.waiting import (
    NOTHING,
    WaitRequest,
    check_signal_name,
    checked_seconds,
    is_long,
    outcome_of,
)
from clew.state.type_names import with_article
from clew.state.values.conversion import converted

if TYPE_CHECKING:
    from uuid import UUID

    from clew.graph import Graph
    from clew.runtime.calls.host import Host
    from clew.runtime.calls.in_flight import CallsInFlight
    from clew.runtime.calls.scopes import Asking


class RunContext:
    """Implements ``clew.Context``."""

    __slots__ = ("_host", "_item", "_random", "_whole", "attempt", "in_flight", "pending", "unwound_by")

    def __init__(self, host: Host, item: Item, attempt: int | None = None) -> None:
        self._host = host
        self._item = item
        self._random: Random | None = None
        self._whole: Scope | None = None  # the scope of the node function itself
        self.attempt = item.attempt if attempt is None else attempt
        self.in_flight: CallsInFlight | None = None  # set for async nodes
        self.pending: list[pending_awaits.Pending] | None = None  # what the node has to await
        self.unwound_by: Asking | None = None  # the first question or wait of this attempt

    @property
    def run_id(self) -> str:
        return self._host.run_id

    @property
    def step_id(self) -> int:
        return self._item.step

    @property
    def path(self) -> str:
        return self._item.path

    @property
    def idempotency_key(self) -> str:
        """The result of the node's key function, or a key made of run id and path; the same for all attempts."""
        function = self._item.node.policy.idempotency_key_func
        if function is not None:
            from clew.runtime.calls.arguments import call_key_function

            return str(call_key_function(self._item, function, "idempotency_key"))
        text = f"{len(self.run_id)}:{self.run_id}{self.path}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def cancelled(self) -> bool:
        if self._host.cancelled:
            self._host.leave(self._item, self.attempt)  # what the node returns now is not its result
            return True
        return not self._item.live or self._item.attempt != self.attempt

    @property
    def random(self) -> Random:
        if self._random is None:
            self._random = self._stream("random")
        return self._random

    def _stream(self, name: str) -> Random:
        return stream(self._host.machine.options.seed, self.path, self.attempt, name)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._record("clew.now", self._host.clock.time, (), {}), UTC)

    def uuid4(self) -> UUID:
        from uuid import UUID

        return UUID(int=self.random.getrandbits(128), version=4)

    def sleep(self, seconds: float) -> Awaitable[None]:
        # a short sleep is numbered too, so that later positions do not depend on durations
        position = self._scope().next_wait()
        if self._host.has_slept(self._item, self.attempt, position):
            seconds = (
                0.0  # a node that sleeps until a given time computes another duration when it starts over
            )
        if is_long(checked_seconds(seconds, "sleep")):
            return self._watched(self._wait(WaitRequest("sleep", position, seconds=seconds)), "sleep")  # type: ignore[no-any-return]
        return self._watched(self._host.sleep(self._item, self.attempt, seconds), "sleep")  # type: ignore[no-any-return]

    def wait_for(self, name: str, *, timeout: float | None = None) -> Any:
        check_signal_name(name, "ctx.wait_for")
        if timeout is not None:
            checked_seconds(timeout, "wait_for", what="timeout")
        request = WaitRequest("signal", self._scope().next_wait(), name, timeout)
        return self._watched(self._wait(request), "wait_for")

    def _wait(self, request: WaitRequest) -> Any:
        if self.cancelled:
            raise self._host.leave(self._item, self.attempt)
        return self._host.wait(self._item, self.attempt, request, self._scope())

    def emit(self, name: str, data: Any = None) -> None:
        if not isinstance(name, str):
            raise ValueError(f"ctx.emit expects an event name (a str), got {name!r}")
        self._host.send_event("emitted", self._item, name=name, data=data)

    def interrupt(
        self, question: Any, *, type: Any = None, timeout: float | None = None, default: Any = NOTHING
    ) -> Any:
        if timeout is not None:
            checked_seconds(timeout, "interrupt", what="timeout")
        elif default is not NOTHING:
            raise ValueError("ctx.interrupt: a default is the answer after a timeout; give timeout= too")
        scope, refusal = self._scope(), ""
        answers = self._host.machine.answers(self._item)
        while (position := scope.next_position(self._item.node.name, self.path)) in answers:
            check_built(answers[position], self._item, self._host.run_id, "an answer")
            try:
                return answers[position] if type is None else converted(type, answers[position])
            except ValueError as error:  # it asks again, at the next position
                refusal = f"the answer is not {with_article(shown(type))}: {error}"
        check_not_awaited(self._item, sys._getframe(1))
        if timeout is not None:
            request = WaitRequest("question", position, seconds=timeout, default=default)
            if (end := self._host.ask(self._item, self.attempt, request)) is not None:
                return outcome_of(request, end, self._item)
        if type is not None:
            question = TypedQuestion(question, json_schema(type), shown(type), refusal)
        raise scope.ask(question, position)

    def _scope(self) -> Scope:
        """Return the scope that the code is in: a recorded call, or the node function itself."""
        scope = scope_of(self) or self._whole
        if scope is None:
            scope = self._whole = Scope(self)
        return scope

    def transaction(self) -> CollectedTransaction:
        return CollectedTransaction(partial(self._host.transact, self._item, self.attempt))

    def run(self, graph: Graph, values: Any = None, *, key: str | None = None) -> Any:
        if self.cancelled:
            raise self._host.leave(self._item, self.attempt)
        result = self._host.run_child(self._item, self.attempt, self._scope().within(), graph, values, key)
        if type(self._watched(result, "run")) is not CoroutineType:
            return result
        assert self.pending is not None
        return pending_awaits.AwaitedRun(
            result, partial(pending_awaits.forgotten, self.pending[-1], self._item)
        )

    def _watched(self, value: Any, method: str) -> Any:
        """Return what a method of the context returns; if the node has to await it, watch that it does."""
        if type(value) is CoroutineType:
            if self.pending is None:
                self.pending = []
            pending_awaits.watch(self.pending, value, method, sys._getframe(2))
        return value

    def close(self, *, is_checked: bool) -> None:
        """Close what the node did not await; raise an error about the first, if that `is_checked`."""
        if self.pending is not None:
            pending, self.pending = self.pending, None
            error = pending_awaits.close(pending, self._item)
            if error is not None and is_checked:
                raise error

    def record(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if type(name) is not str or not name or name.startswith("clew."):
            raise ValueError(
                f"ctx.record expects a name for the call, got {name!r}; give a non-empty str that does not start with "
                f"'clew.', which is reserved"
            )
        return self._watched(self._record(name, fn, args, kwargs), "record")

    def _record(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self.cancelled:
            raise self._host.leave(self._item, self.attempt)
        scope = self._scope().within()
        return self._host.recorder.call(NodeCall(self._item, self.attempt, scope, name, fn, args, kwargs))
