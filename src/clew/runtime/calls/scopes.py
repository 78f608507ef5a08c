"""Scopes: stable numbers for the recorded calls and questions of a node.

The node function is a scope, and so is each recorded call. Calls and questions are numbered within their scope. The
place of a call is its number after the numbers of the enclosing calls. The position of a question is its number after
the place of the enclosing call. If a recorded call is answered from the log, its inner calls are skipped, and the
numbers outside it stay the same.

Numbers follow program order. If two tasks or threads ask in one scope, their order is undefined, and an answer could
reach a different question. So this raises `NodeError`. Each recorded call is a separate scope, numbered when
``ctx.record`` is called, so concurrent recorded calls may ask.

A question or a wait unwinds everything around it: the enclosing recorded calls and the node. Code may catch its
exception, for example with ``asyncio.gather(..., return_exceptions=True)``. So the scopes and the context remember it:
anything that a call or a node returns or raises after that is discarded, and the question is asked.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.errors import NodeError
from clew.runtime.log.entries.call_records import Place

if TYPE_CHECKING:
    from clew.engine.frame import Item
    from clew.runtime.calls.context import RunContext


class Asking(BaseException):
    """Unwinds a node that asks a question. A BaseException, so that `except Exception` in the node does not catch it.

    `about` is set for questions about a call of the item, and of a child. `others` are more questions of children, each
    with its `about` and position. `refusal` is set if another task asks in the same scope.
    """

    def __init__(self, question: Any, about: str = "", position: str | None = None) -> None:
        super().__init__("a node asks a question; do not catch this exception")
        self.question = question
        self.about = about
        self.position = position
        self.others: Sequence[tuple[Any, str, str]] = ()
        self.refusal: NodeError | None = None

    def asked(self, when: float) -> tuple[Any, str, str | None, Sequence[tuple[Any, str, str]], float]:
        """Return the first question, its `about` and position, the others, and when they were asked."""
        return self.question, self.about, self.position, self.others, when

    @property
    def questions(self) -> Sequence[tuple[Any, str, str]]:
        """All questions, as in `others`."""
        return ((self.question, self.about, self.position or "0"), *self.others)


class Leaving(BaseException):
    """Unwinds a node whose run is cancelled, or whose attempt has ended. A BaseException, as `Asking` is."""


def late_use(item: Item) -> NodeError:
    """Return the error of a node that used the context of an earlier attempt."""
    return NodeError(
        f"node {item.node.name!r} at {item.path} used the context of an attempt that has ended; use the one that this "
        f"call of the node was given"
    )


class Scope:
    """A running node function, or a running recorded call of it."""

    __slots__ = (
        "_asker",
        "_asking",
        "_token",
        "asked",
        "calls",
        "of",
        "outer",
        "place",
        "unwound_by",
        "waits",
    )

    def __init__(self, of: RunContext, place: Place = (), outer: Scope | None = None) -> None:
        self.of = of  # the context to which it belongs
        self.place = place
        self.outer = outer  # the enclosing scope, which may belong to another run
        self.calls = 0
        self.asked = 0
        self.waits = 0
        self._asker: object = None
        self._asking: Asking | None = None
        self.unwound_by: Asking | None = None  # the first question or wait in it
        self._token: Token[Scope | None] | None = None

    def within(self) -> Scope:
        """Return the scope of the next call."""
        number = self.calls
        self.calls += 1
        return Scope(self.of, (*self.place, number), _current.get())

    def __enter__(self) -> Scope:
        self._token = _current.set(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._token is not None
        try:
            _current.reset(self._token)
        except ValueError:  # an abandoned coroutine is closed from another context
            pass

    def next_position(self, node: str, path: str) -> str:
        """Return the position of the next question; raise NodeError if another task has asked in this scope."""
        asker = _asker()
        if self._asker is None:
            self._asker = asker
        elif self._asker is not asker and self._asker != asker:
            error = NodeError(
                f"node {node!r} at {path} asks questions from several tasks concurrently, so answers are ambiguous; "
                f"ask from one task, or ask inside a separate ctx.record(name, ...) in each task"
            )
            if self._asking is not None:
                self._asking.refusal = error
            raise error
        position = ".".join(map(str, (*self.place, self.asked)))
        self.asked += 1
        return position

    def next_wait(self) -> str:
        """Return the position of the next wait. Waits of several tasks are numbered in the order of their calls."""
        position = ".".join(map(str, (*self.place, f"w{self.waits}")))
        self.waits += 1
        return position

    def ask(self, question: Any, position: str) -> Asking:
        """Return the exception that unwinds the node for a question."""
        self._asking = Asking(question, position=position)
        return self.unwind(self._asking)

    def unwind(self, asking: Asking) -> Asking:
        """Note that a question or a wait unwinds this scope and all around it; return it."""
        scope: Scope | None = self
        while scope is not None and scope.of is self.of:
            scope.unwound_by = scope.unwound_by or asking
            scope = scope.outer
        self.of.unwound_by = self.of.unwound_by or asking
        return asking


_current: ContextVar[Scope | None] = ContextVar("clew_scope", default=None)


def scope_of(context: object) -> Scope | None:
    """Return the innermost running scope of a context, or None."""
    scope = _current.get()
    while scope is not None and scope.of is not context:
        scope = scope.outer
    return scope


def raise_question(error: BaseExceptionGroup[BaseException]) -> None:
    """Raise the question of a group, or the other exceptions of the group if it has any.

    A node that is left asks nothing: raise the `Leaving` of the group.
    """
    leaving: BaseException | None = error.split(Leaving)[0]
    while isinstance(leaving, BaseExceptionGroup):
        leaving = leaving.exceptions[0]
    if leaving is not None:
        raise leaving from None
    asking, rest = error.split(Asking)
    if asking is not None:
        refused = next((each.refusal for each in _leaves(asking) if each.refusal is not None), None)
        raise (refused or rest or min(_leaves(asking), key=_order)) from None


def _leaves(error: BaseException) -> list[Asking]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    assert isinstance(error, Asking)
    return [error]


def _order(asking: Asking) -> list[int]:
    return [int(part) for part in (asking.position or "0").split(".")]


def _asker() -> object:
    task, asyncio = None, sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            pass
    return threading.get_ident() if task is None else task


class NodeCall(NamedTuple):
    """A call that a node makes with `ctx.record`; its scope is the function that is called."""

    item: Item
    attempt: int
    scope: Scope
    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def check(self) -> None:
        """Raise TypeError if the node gave no function."""
        if not callable(self.fn):
            raise TypeError(
                f"ctx.record({self.name!r}, ...) expects a function, got {self.fn!r}; pass the function without "
                f"calling it"
            )
