"""Where in a node a call is made and a question is asked: places that do not depend on what is skipped.

A recorded call is a scope, and so is the node itself. Calls and questions are numbered within their scope. So the
place of a call is the numbers of the calls around it and its own; the position of a question is the place of the call
around it and the question's number there. When a recorded call is answered from the log, what happened inside it is
skipped, and nothing outside it is numbered differently.

Numbers follow the order of the program. Two tasks (or threads) that ask in one scope have no such order: which one is
first depends on timing, and an answer could reach the wrong question. That is a `NodeError`. Two recorded calls are two
scopes, numbered when ``ctx.record`` is called, so branches that are recorded may ask.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar, Token
from typing import Any

from clew.errors import NodeError
from clew.runtime.log.call_records import Place


class Asking(BaseException):
    """Unwinds a node that asks a question. Not an Exception, so that a node's own `except` lets it pass.

    `about` tells questions about something within an item, such as one of its calls, from those of the item itself.
    `refusal` is why the question must not be asked, if another task has asked in the same scope meanwhile.
    """

    def __init__(self, question: Any, about: str = "", position: str | None = None) -> None:
        super().__init__("a node asks a question; let this pass")
        self.question = question
        self.about = about
        self.position = position
        self.refusal: NodeError | None = None


class Scope:
    """A node's function, or one recorded call of it, while it runs."""

    __slots__ = ("_asker", "_asking", "_token", "asked", "calls", "of", "outer", "place")

    def __init__(self, of: object, place: Place = (), outer: Scope | None = None) -> None:
        self.of = of  # the context that it belongs to
        self.place = place
        self.outer = outer  # what is around it, also if that is of another run
        self.calls = 0
        self.asked = 0
        self._asker: object = None
        self._asking: Asking | None = None
        self._token: Token[Scope | None] | None = None

    def within(self) -> Scope:
        """The scope of the next call."""
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
        except ValueError:  # a coroutine that nobody awaits any more is closed from elsewhere
            pass

    def next_position(self, node: str, path: str) -> str:
        """The position of the next question. NodeError if another task has asked here before."""
        asker = _asker()
        if self._asker is None:
            self._asker = asker
        elif self._asker is not asker and self._asker != asker:
            error = NodeError(
                f"node {node!r} at {path} asks questions from several tasks at once, so an answer could reach the "
                f"wrong one; ask one after the other, or ask inside ctx.record(name, ...), once for each task"
            )
            if self._asking is not None:
                self._asking.refusal = error
            raise error
        position = ".".join(map(str, (*self.place, self.asked)))
        self.asked += 1
        return position

    def ask(self, question: Any, position: str) -> Asking:
        """What unwinds the node for a question."""
        self._asking = Asking(question, position=position)
        return self._asking


_current: ContextVar[Scope | None] = ContextVar("clew_scope", default=None)


def scope_of(context: object) -> Scope | None:
    """The innermost recorded call of a context's node that is running here, or None."""
    scope = _current.get()
    while scope is not None and scope.of is not context:
        scope = scope.outer
    return scope


def question_of(error: BaseException) -> Asking | None:
    """The question with which a node was left, if it was one: task groups wrap it in a group. Of several, the first by
    position; none if something else was raised as well."""
    if isinstance(error, Asking):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    asking, rest = error.split(Asking)
    return min(_leaves(asking), key=_order) if asking is not None and rest is None else None


def raise_question(error: BaseExceptionGroup[BaseException]) -> None:
    """Raise what a group that holds questions stands for: the question, or what was raised beside it."""
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
