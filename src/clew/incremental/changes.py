"""Changes from outside: set values and invalidated nodes, applied as one revision and one transaction.

Rules:

- A change *touches* its node: everything that depends on it is outdated from then on, even if the new value is equal.
- A value that is set on a node with inputs is a *pin*. Its inputs are brought up to date first, so everything that a
  pinned node depends on is up to date too. Pins come after all other changes, in dependency order. This includes a pin
  that is invalidated in the same revision, because a pull relies on it (see `pull_plan`).
- The first pin or invalidation of a node with inputs promotes its schema: see `freshness`.
- If anything fails, the graph stays unchanged.
- A record that cannot be read is replaced like any other; this repairs a corrupted database. Invalidating such a node
  removes its value, and its dependents are outdated.

Changes inside a batch are collected. The open batch is a context variable, so each task or thread can have its own. A
task that starts inside a batch takes part in it, and may outlive it. Rules:

- A closed batch accepts no changes. Later changes go to the enclosing batch, or become separate changes.
- An inner batch passes its changes on when it ends without an error. If the outer batch has ended by then, the inner
  batch commits by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any

import msgspec

from clew.incremental.freshness import is_up_to_date, note_touch
from clew.incremental.nodes import EMPTY, PENDING, PINNED, SET, ConcreteNode, NodeRecord, NodeTable
from clew.incremental.persistence import GraphPersistence
from clew.incremental.pull_plan import plan_of
from clew.incremental.schemas import CompiledSchema
from clew.incremental.sync_pull import bring_up_to_date
from clew.incremental.values import same

NOTHING: Any = object()  # no value was given


class NodeChange(msgspec.Struct):
    """The change of one node in one revision."""

    node: ConcreteNode
    value: Any = NOTHING
    code: bytes | None = None
    is_invalidated: bool = False  # after the value was set, if both happened

    @property
    def is_pin(self) -> bool:
        """Return whether this change pins a node with inputs."""
        return self.value is not NOTHING and not self.node.rule.is_source


def merged(queue: Sequence[NodeChange]) -> list[NodeChange]:
    """Return one change for each node; later changes override earlier ones.

    A source without a computor stays invalidated, because nothing undoes that: its dependents are computed again even
    if it is set to the same value.
    """
    latest: dict[ConcreteNode, NodeChange] = {}
    for change in queue:
        before = latest.get(change.node)
        if before is not None and change.is_invalidated:
            change = NodeChange(change.node, before.value, before.code, True)
        elif before is not None and before.is_invalidated and change.node.rule.computor is None:
            change = NodeChange(change.node, change.value, change.code, True)
        latest[change.node] = change
    return list(latest.values())


def set_source(
    table: NodeTable, node: ConcreteNode, value: Any, code: bytes | None, persistence: GraphPersistence | None
) -> None:
    """Set the value of a node without inputs: the most frequent change, in constant time."""
    revision = table.revision + 1
    row = _row_with_value(node.row or table.row_to_replace(node), value, code, revision, revision, SET)
    if persistence is not None:
        persistence.commit(revision, [(node.key, row)], ())
    table.revision = revision
    node.row = row
    if node.bit >= 0:
        note_touch(table, node, revision)


def apply(table: NodeTable, changes: Sequence[NodeChange], persistence: GraphPersistence | None) -> None:
    """Apply changes as one revision."""
    revision = table.revision + 1
    before: dict[ConcreteNode, NodeRecord] = {}
    promoted: list[CompiledSchema] = []
    table.revision = revision
    try:
        for change in changes:
            rule = change.node.rule
            if not rule.is_source and not rule.is_promoted:
                table.promote(rule)
                promoted.append(rule)
            if not change.is_pin:
                _apply_change(table, change, before)
        for change in sorted((c for c in changes if c.is_pin), key=lambda c: c.node.rule.rank):
            for lower in table.inputs(change.node):
                _refresh(table, lower, before)
            _apply_change(table, change, before)
        if persistence is not None:
            rows = [(node.key, node.row) for node, row in before.items() if node.row is not row]
            persistence.commit(revision, rows, promoted)
    except BaseException:
        _undo(table, revision, before, promoted)
        raise


def _refresh(table: NodeTable, node: ConcreteNode, before: dict[ConcreteNode, NodeRecord]) -> None:
    if not is_up_to_date(table, node):
        plan = plan_of(table, node)
        for one in plan:
            before.setdefault(one, one.row)
        bring_up_to_date(table, plan, None)


def _apply_change(table: NodeTable, change: NodeChange, before: dict[ConcreteNode, NodeRecord]) -> None:
    node, revision = change.node, table.revision
    row = table.row_to_replace(node)
    before.setdefault(node, node.row)
    node.row = _changed_row(node, row, change, revision)
    if node.bit >= 0:
        note_touch(table, node, revision)


def _changed_row(node: ConcreteNode, row: NodeRecord, change: NodeChange, revision: int) -> NodeRecord:
    if change.value is NOTHING:
        # nothing computes it: treat its value as changed
        if node.rule.computor is None and row.verified_at >= 0:
            return NodeRecord(row.value, row.code, revision, revision, revision, revision, row.origin)
        return NodeRecord(
            row.value, row.code, row.verified_at, row.changed_at, revision, row.computed_at, row.origin
        )
    origin = SET if node.rule.is_source else PINNED
    if not change.is_invalidated:
        return _row_with_value(row, change.value, change.code, revision, revision, origin)
    if node.rule.computor is None:  # treat the value as changed
        return _row_with_value(EMPTY, change.value, change.code, revision, revision, origin)
    return _row_with_value(row, change.value, change.code, revision - 1, revision, origin)


def _row_with_value(
    row: NodeRecord, value: Any, code: bytes | None, verified: int, revision: int, origin: int
) -> NodeRecord:
    """Return the record of a node whose value was set."""
    if row.verified_at >= 0 and same(value, code, row.value, row.code):
        return NodeRecord(row.value, row.code, verified, row.changed_at, revision, row.computed_at, origin)
    if code is not None:
        value = PENDING  # decoded on demand: the caller may modify the object
    return NodeRecord(value, code, verified, revision, revision, row.computed_at, origin)


def _undo(
    table: NodeTable,
    revision: int,
    before: dict[ConcreteNode, NodeRecord],
    promoted: Sequence[CompiledSchema],
) -> None:
    for node, row in before.items():
        node.row = row
    for node in table.nodes.values():
        if node.checked_at == revision:
            node.checked_at = -1
    for rule in promoted:
        rule.is_promoted = False
    table.epoch += bool(promoted)
    table.touches[:] = [touch for touch in table.touches if touch[0] < revision]
    table.revision = revision - 1


# by the id of the graph
_open_batches: ContextVar[dict[int, ChangeBatch] | None] = ContextVar("_open", default=None)


class ChangeBatch:
    """The changes of one batch of one graph."""

    __slots__ = ("around", "changes", "is_over")

    def __init__(self, around: ChangeBatch | None) -> None:
        self.around = around
        self.changes: list[NodeChange] = []
        self.is_over = False


def current_batch(graph: int) -> ChangeBatch | None:
    """Return the innermost open batch of a graph in this context, or None."""
    batches = _open_batches.get()
    batch = None if batches is None else batches.get(graph)
    while batch is not None and batch.is_over:
        batch = batch.around
    return batch


def open_batch(graph: int) -> tuple[ChangeBatch, Token[dict[int, ChangeBatch] | None]]:
    """Open a batch inside the current one; return it with the token for `close_batch`."""
    batch = ChangeBatch(current_batch(graph))
    return batch, _open_batches.set({**(_open_batches.get() or {}), graph: batch})


def close_batch(token: Token[dict[int, ChangeBatch] | None]) -> None:
    """Restore the enclosing batch."""
    _open_batches.reset(token)
