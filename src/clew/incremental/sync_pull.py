"""A synchronous pull: brings the nodes of a plan up to date, one after the other.

An outdated node is computed if it has no value, was touched itself, was pinned, or has an input that changed after the
node was verified. Otherwise only its verification is renewed. A computor that returns `Unchanged`, or an equal value,
leaves the value and `changed_at` as they were, so dependents need not run.

Each node is finished before the next one begins; when a computor fails, earlier results are kept.
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
from clew.state import unpacked


def bring_up_to_date(
    table: NodeTable, plan: tuple[ConcreteNode, ...], finished: Callable[[ConcreteNode], None] | None
) -> None:
    """Bring all nodes of a plan up to date; call `finished` for each replaced record."""
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
            node.row = verified_row(row, revision)
        else:
            old = row.value
            code = row.code
            if code is not None:
                # a private copy: a computor that modifies and returns it has changed the value
                old = unpacked(code)
            try:
                new = node.computor(values, old, {**node.bindings})
            except SourceNotSet:
                raise never_set(node) from None
            except BaseException as error:
                add_location(error, node)
                raise
            if type(new) is int and type(old) is int and verified >= 0:  # `same`, inlined
                changed = revision if new != old else row.changed_at
                node.row = NodeRecord(new, None, revision, changed, touched, revision, COMPUTED)
            elif type(new) not in PLAIN and isawaitable(new):
                raise _needs_await(node, new)
            else:
                node.row = computed_row(*resolved(node, row, new), row, revision)
        if finished is not None:
            finished(node)


def is_settled(table: NodeTable, node: ConcreteNode, row: NodeRecord) -> bool:
    """Return whether a node of a plan is up to date.

    A node with a wide set of sources is assumed outdated, which at most renews its verification needlessly. A pinned
    node is always checked, because it would lose its value.
    """
    if node.sources is WIDE and row.origin != PINNED:
        return False
    return is_up_to_date(table, node)


def verified_row(row: NodeRecord, revision: int) -> NodeRecord:
    """Return the record of a node whose inputs did not change, verified for `revision`."""
    return NodeRecord(
        row.value, row.code, revision, row.changed_at, row.touched_at, row.computed_at, row.origin
    )


def resolved(node: ConcreteNode, seen: NodeRecord, new: Any) -> tuple[Any, bytes | None]:
    """Return the value that a computor returned and its encoding; for `Unchanged`, those of the record `seen`."""
    if new is not Unchanged:
        return new, code_of(new, node.key)
    if seen.verified_at < 0:
        raise InvalidUnchangedError(
            f"the computor of {node.key!r} returned Unchanged, but the node has no old value; return Unchanged "
            "only if old_value equals the result"
        )
    return seen.value, seen.code


def computed_row(value: Any, code: bytes | None, current: NodeRecord, revision: int) -> NodeRecord:
    """Return the record of a computed node, replacing `current`."""
    touched = current.touched_at
    if current.verified_at >= 0 and same(value, code, current.value, current.code):
        return NodeRecord(
            current.value, current.code, revision, current.changed_at, touched, revision, COMPUTED
        )
    return NodeRecord(value, code, revision, revision, touched, revision, COMPUTED)


def never_set(node: ConcreteNode) -> MissingValueError:
    """Return the error for a source without a value."""
    return MissingValueError(
        f"the source {node.key!r} was never set; set it with graph.set({node.key!r}, ...)"
    )


def add_location(error: BaseException, node: ConcreteNode) -> None:
    """Add the node and its bindings to an error as a note."""
    given = f" with {node.bindings}" if node.bindings else ""
    add_note(error, f"raised by the computor of {node.key!r}{given}")


def _needs_await(node: ConcreteNode, awaitable: Any) -> DependencyError:
    if hasattr(awaitable, "close"):
        awaitable.close()  # an unawaited coroutine would warn
    return DependencyError(
        f"the computor of {node.key!r} is async; use await graph.apull(...) or await graph.aset(...)"
    )
