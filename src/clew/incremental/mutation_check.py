"""`check_mutation=True`: notice a computor that changes an input in place, and name node and input.

Values belong to the graph, which does not copy them: to edit an input is to change what others are made from without
anybody knowing. The check hands each computor a copy of each input, and compares its bytes after the call with those
before it. Where they differ, MutationError is raised in the place of the computor's answer, so nothing of it is
stored; and since only a copy was edited, the inputs are as they were.

It does not see what a caller does to a value that it pulled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable
from inspect import isawaitable
from typing import Any

from clew.errors import ClewError, MutationError
from clew.incremental.expressions import Expression, spelled, substitute
from clew.incremental.schemas import CompiledSchema, Computor
from clew.incremental.values import PLAIN
from clew.state import decode, encode


def check_all(rules: Iterable[CompiledSchema]) -> None:
    """Have the computors of a graph's rules checked."""
    for rule in rules:
        if rule.computor is not None:
            rule.computor = _checked(rule, rule.computor)


def _checked(rule: CompiledSchema, computor: Computor) -> Computor:
    """A rule's computor, with the check around each call."""

    def computor_of_copies(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        call = _CheckedCall(rule, inputs, {**bindings})
        answer = computor(call.copies, old, bindings)
        if type(answer) not in PLAIN and isawaitable(answer):
            return _Awaited(answer, call)
        call.check()
        return answer

    return computor_of_copies


class _CheckedCall:
    """One call: the copies that the computor gets, and the bytes of what was copied."""

    def __init__(self, rule: CompiledSchema, inputs: list[Any], bindings: dict[str, Any]) -> None:
        self._rule = rule
        self._bindings = bindings
        self._before = [None if type(value) in PLAIN else encode(value, ordered=True) for value in inputs]
        self._given = [
            value if code is None else decode(code) for value, code in zip(inputs, self._before, strict=True)
        ]
        self.copies = [*self._given]  # the list itself is the computor's, to do with as it likes

    def check(self) -> None:
        """MutationError if an input is not what it was."""
        for pattern, value, before in zip(self._rule.inputs, self._given, self._before, strict=True):
            if before is not None and _is_edited(value, before):
                node, name = self._spelled(self._rule.output), self._spelled(pattern)
                raise MutationError(
                    f"the computor of {node!r} changed its input {name!r} in place; work on a copy and return that "
                    "(for a list: [*items, more])"
                )

    def _spelled(self, pattern: Expression) -> str:
        return spelled(pattern.name, substitute(pattern, self._bindings))


def _is_edited(value: Any, before: bytes) -> bool:
    try:
        return encode(value, ordered=True) != before
    except ClewError:  # something is in it that is no value
        return True


class _Awaited:
    """What an async computor returned; the check comes when it is done."""

    def __init__(self, answer: Awaitable[Any], call: _CheckedCall) -> None:
        self._answer = answer
        self._call = call

    def __await__(self) -> Generator[Any, Any, Any]:
        value = yield from self._answer.__await__()
        self._call.check()
        return value

    def close(self) -> None:
        """Nobody will await it."""
        if hasattr(self._answer, "close"):
            self._answer.close()
