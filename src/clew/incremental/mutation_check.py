"""`check_mutation=True`: detects computors that modify an input in place.

Values belong to the graph, which does not copy them. Modifying an input changes the input of other nodes without a new
revision. The check passes copies of the inputs to each computor, and compares their encodings before and after the
call. If they differ, it raises MutationError with the node and the input, and nothing is stored. The inputs themselves
are unchanged, because only a copy was modified.

The check does not detect a caller that modifies a pulled value.
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
    """Add the check to the computors of these rules."""
    for rule in rules:
        if rule.computor is not None:
            rule.computor = _checked(rule, rule.computor)


def _checked(rule: CompiledSchema, computor: Computor) -> Computor:
    """Return the computor of a rule with the check around each call."""

    def computor_of_copies(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        call = _CheckedCall(rule, inputs, {**bindings})
        answer = computor(call.copies, old, bindings)
        if type(answer) not in PLAIN and isawaitable(answer):
            return _Awaited(answer, call)
        call.check()
        return answer

    return computor_of_copies


class _CheckedCall:
    """One call: the copies of the inputs, and their encodings."""

    def __init__(self, rule: CompiledSchema, inputs: list[Any], bindings: dict[str, Any]) -> None:
        self._rule = rule
        self._bindings = bindings
        self._before = [None if type(value) in PLAIN else encode(value, ordered=True) for value in inputs]
        self._given = [
            value if code is None else decode(code) for value, code in zip(inputs, self._before, strict=True)
        ]
        self.copies = [*self._given]  # the computor may modify the list itself

    def check(self) -> None:
        """Raise MutationError if an input was modified."""
        for pattern, value, before in zip(self._rule.inputs, self._given, self._before, strict=True):
            if before is not None and _is_edited(value, before):
                node, name = self._spelled(self._rule.output), self._spelled(pattern)
                raise MutationError(
                    f"the computor of {node!r} modified its input {name!r} in place; return a new value instead "
                    "(for a list: [*items, more])"
                )

    def _spelled(self, pattern: Expression) -> str:
        return spelled(pattern.name, substitute(pattern, self._bindings))


def _is_edited(value: Any, before: bytes) -> bool:
    try:
        return encode(value, ordered=True) != before
    except ClewError:  # it now contains something that cannot be encoded
        return True


class _Awaited:
    """The awaitable of an async computor, with the check at its end."""

    def __init__(self, answer: Awaitable[Any], call: _CheckedCall) -> None:
        self._answer = answer
        self._call = call

    def __await__(self) -> Generator[Any, Any, Any]:
        value = yield from self._answer.__await__()
        self._call.check()
        return value

    def close(self) -> None:
        """Close the awaitable without awaiting it."""
        if hasattr(self._answer, "close"):
            self._answer.close()
