"""The walk: bring the nodes of a plan up to date, one after the other, in one thread and without awaiting.

A stale node is computed anew if it has no value, if it was touched itself, if it was pinned, or if an input changed
after it was verified; otherwise it is only stamped. Either way it is then verified for the revision of the pull. A
computor that returns `Unchanged`, or an equal value, leaves the value and `changed_at` as they were, so those behind it
need not run.

Each node is finished before the next begins: when a computor fails, what came before it stays.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from clew.error_text import add_note
from clew.errors import DependencyError, InvalidUnchangedError, MissingValueError
from clew.incremental.freshness import WIDE, is_up_to_date
from clew.incremental.nodes import (
    COMPUTED,
    PENDING,
    PINNED,
    ConcreteNode,
    NodeRecord,
    NodeTable,
    SourceNotSet,
)
from clew.incremental.values import PLAIN, Unchanged, code_of, same
from clew.state import decode


def walk(
    table: NodeTable, plan: tuple[ConcreteNode, ...], finished: Callable[[ConcreteNode], None] | None
) -> None:
    """Bring all nodes of a plan up to date; `finished` hears of each row that was replaced."""
    revision = table.revision
    first = plan[-1].row.verified_at
    for node in plan:
        row = node.row
        verified = row.verified_at
        if verified == revision or (
            (verified != first or row.origin == PINNED) and is_settled(table, node, row)
        ):
            continue
        touched = row.touched_at
        is_due = touched > verified or row.origin == PINNED
        values = []
        for lower in node.inputs:
            input_row = lower.row
            if input_row.changed_at > verified:
                is_due = True
            value = input_row.value
            values.append(input_row.get() if value is PENDING else value)
        if not is_due:
            node.row = stamped(row, revision)
        else:
            old = row.value
            code = row.code
            if code is not None:
                old = decode(code)  # a private copy: who edits and returns it shall be noticed
            try:
                new = node.computor(values, old, {**node.bindings})
            except SourceNotSet:
                raise never_set(node) from None
            except BaseException as error:
                tell(error, node)
                raise
            if (
                type(new) is int and type(old) is int and verified >= 0
            ):  # the rule of `same`, without its calls
                changed = revision if new != old else row.changed_at
                node.row = NodeRecord(new, None, revision, changed, touched, revision, COMPUTED)
            elif type(new) not in PLAIN and isawaitable(new):
                raise _needs_await(node, new)
            else:
                node.row = settled(*resolved(node, row, new), row, revision)
        if finished is not None:
            finished(node)


def is_settled(table: NodeTable, node: ConcreteNode, row: NodeRecord) -> bool:
    """Whether a node of a plan is up to date.

    One with a wide set of sources is not asked, and may get a stamp that it does not need; but for a pinned one, which
    would lose its value.
    """
    if node.sources is WIDE and row.origin != PINNED:
        return False
    return is_up_to_date(table, node)


def stamped(row: NodeRecord, revision: int) -> NodeRecord:
    """The row of a node whose inputs did not change."""
    return NodeRecord(
        row.value, row.code, revision, row.changed_at, row.touched_at, row.computed_at, row.origin
    )


def resolved(node: ConcreteNode, seen: NodeRecord, new: Any) -> tuple[Any, bytes | None]:
    """The value that a computor means by what it returned, and its bytes; `seen` is where its old value came from."""
    if new is not Unchanged:
        return new, code_of(new, node.key)
    if seen.verified_at < 0:
        raise InvalidUnchangedError(
            f"the computor of {node.key!r} returned Unchanged, but there is no old value to keep; return Unchanged "
            "only if old_value is what you would return"
        )
    return seen.value, seen.code


def settled(value: Any, code: bytes | None, current: NodeRecord, revision: int) -> NodeRecord:
    """The row of a node that was computed anew, in the place of the one that is there."""
    touched = current.touched_at
    if current.verified_at >= 0 and same(value, code, current.value, current.code):
        return NodeRecord(
            current.value, current.code, revision, current.changed_at, touched, revision, COMPUTED
        )
    return NodeRecord(value, code, revision, revision, touched, revision, COMPUTED)


def never_set(node: ConcreteNode) -> MissingValueError:
    """What is wrong with a source that has no value."""
    return MissingValueError(
        f"{node.key!r} is a source and was never set; give it a value with graph.set({node.key!r}, ...)"
    )


def tell(error: BaseException, node: ConcreteNode) -> None:
    """Say where an error comes from: which node, with which bindings."""
    given = f" with {node.bindings}" if node.bindings else ""
    add_note(error, f"raised by the computor of {node.key!r}{given}")


def _needs_await(node: ConcreteNode, awaitable: Any) -> DependencyError:
    if hasattr(awaitable, "close"):
        awaitable.close()  # a coroutine that nobody awaits would warn
    return DependencyError(
        f"the computor of {node.key!r} is async; use await graph.apull(...), or graph.aset(...)"
    )
