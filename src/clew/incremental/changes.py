"""Changes from outside: values that are set, nodes that are invalidated, one revision and one transaction for all.

Rules:

- A change touches its node: whatever depends on it is stale from then on, also if the value is an equal one.
- A value that is set on a node with inputs is a *pin*. Its inputs are brought up to date first, so what a pinned node
  depends on is up to date like the node. Pins come after all other changes, those that others depend on first. That
  goes for a pin that is invalidated in the same revision too: a pull relies on it (see `plans`).
- The first pin or invalidation of a node that has inputs promotes its schema: see `sources`.
- If anything fails, the graph is as it was before.
- A row that cannot be read is replaced like any other: that is how a damaged database is repaired. A node that is
  invalidated has no value then, and who depends on it is stale.

Changes made inside a batch are collected there. The open batch is part of the context, so two tasks or two threads can
each have one. A task that is started inside a batch takes part in it, and may outlive it. Rules:

- A batch that has ended accepts nothing more. Later changes go to the batch around it, or become changes by themselves.
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
from clew.incremental.sync_pull import walk
from clew.incremental.values import same

NOTHING: Any = object()  # no value was given


class NodeChange(msgspec.Struct):
    """What happens to one node in one revision."""

    node: ConcreteNode
    value: Any = NOTHING
    code: bytes | None = None
    is_invalidated: bool = False  # if a value was set too: after that, where there is a computor

    @property
    def is_pin(self) -> bool:
        """Whether the node's inputs have to be up to date for it."""
        return self.value is not NOTHING and not self.node.rule.is_source


def merged(queue: Sequence[NodeChange]) -> list[NodeChange]:
    """One change for each node: what comes later counts.

    But a source without a computor that was invalidated stays so, since nothing undoes that: those that depend on it
    are computed again whatever it is set to.
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
    table: NodeTable, node: ConcreteNode, value: Any, code: bytes | None, keeper: GraphPersistence | None
) -> None:
    """Give one node without inputs a value: the most frequent change, in a constant number of steps."""
    revision = table.revision + 1
    row = _given(node.row or table.row_to_replace(node), value, code, revision, revision, SET)
    if keeper is not None:
        keeper.commit(revision, [(node.key, row)], ())
    table.revision = revision
    node.row = row
    if node.bit >= 0:
        note_touch(table, node, revision)


def apply(table: NodeTable, changes: Sequence[NodeChange], keeper: GraphPersistence | None) -> None:
    """Make changes, as one revision."""
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
                _touch(table, change, before)
        for change in sorted((c for c in changes if c.is_pin), key=lambda c: c.node.rule.rank):
            for lower in table.inputs(change.node):
                _bring(table, lower, before)
            _touch(table, change, before)
        if keeper is not None:
            rows = [(node.key, node.row) for node, row in before.items() if node.row is not row]
            keeper.commit(revision, rows, promoted)
    except BaseException:
        _undo(table, revision, before, promoted)
        raise


def _bring(table: NodeTable, node: ConcreteNode, before: dict[ConcreteNode, NodeRecord]) -> None:
    if not is_up_to_date(table, node):
        plan = plan_of(table, node)
        for one in plan:
            before.setdefault(one, one.row)
        walk(table, plan, None)


def _touch(table: NodeTable, change: NodeChange, before: dict[ConcreteNode, NodeRecord]) -> None:
    node, revision = change.node, table.revision
    row = table.row_to_replace(node)
    before.setdefault(node, node.row)
    node.row = _touched(node, row, change, revision)
    if node.bit >= 0:
        note_touch(table, node, revision)


def _touched(node: ConcreteNode, row: NodeRecord, change: NodeChange, revision: int) -> NodeRecord:
    if change.value is NOTHING:
        if (
            node.rule.computor is None and row.verified_at >= 0
        ):  # nobody can compute it: it is taken for another value
            return NodeRecord(row.value, row.code, revision, revision, revision, revision, row.origin)
        return NodeRecord(
            row.value, row.code, row.verified_at, row.changed_at, revision, row.computed_at, row.origin
        )
    origin = SET if node.rule.is_source else PINNED
    if not change.is_invalidated:
        return _given(row, change.value, change.code, revision, revision, origin)
    if node.rule.computor is None:  # and then taken for another value
        return _given(EMPTY, change.value, change.code, revision, revision, origin)
    return _given(row, change.value, change.code, revision - 1, revision, origin)


def _given(
    row: NodeRecord, value: Any, code: bytes | None, verified: int, revision: int, origin: int
) -> NodeRecord:
    """The row of a node that somebody gave a value."""
    if row.verified_at >= 0 and same(value, code, row.value, row.code):
        return NodeRecord(row.value, row.code, verified, row.changed_at, revision, row.computed_at, origin)
    if code is not None:
        value = PENDING  # it is read from its bytes: the caller may go on changing the object
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


_open: ContextVar[dict[int, ChangeBatch] | None] = ContextVar("_open", default=None)  # by the id of the graph


class ChangeBatch:
    """The changes of one batch of one graph."""

    __slots__ = ("around", "changes", "is_over")

    def __init__(self, around: ChangeBatch | None) -> None:
        self.around = around
        self.changes: list[NodeChange] = []
        self.is_over = False


def batch_here(graph: int) -> ChangeBatch | None:
    """The innermost batch of a graph that takes changes from here."""
    batches = _open.get()
    batch = None if batches is None else batches.get(graph)
    while batch is not None and batch.is_over:
        batch = batch.around
    return batch


def opened(graph: int) -> tuple[ChangeBatch, Token[dict[int, ChangeBatch] | None]]:
    """A new batch, within the one that is here."""
    batch = ChangeBatch(batch_here(graph))
    return batch, _open.set({**(_open.get() or {}), graph: batch})


def left(token: Token[dict[int, ChangeBatch] | None]) -> None:
    """Changes from here go again where they went before."""
    _open.reset(token)
