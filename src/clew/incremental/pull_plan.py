"""Plans: the nodes that a pull has to look at, inputs first.

Whatever is stale above a node that has a value depends on a source that was touched after the node was verified,
because at that revision all of it was up to date. So the plan of such a node is a function of those sources: the nodes
above it that depend on one of them. It is kept, and found again when the same sources are touched again. For a node
without a value it is whatever above it is not up to date; and for one that was verified before some schema changed,
because what is above it now may not have been there then.

A plan may hold nodes that turn out to be up to date; the walk finds out.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.incremental.freshness import WIDE, is_up_to_date, touched_above
from clew.incremental.nodes import PINNED, ConcreteNode, NodeTable

_SHORT = 4  # a plan that is as quickly made as found
_MANY = 2_000_000  # nodes in kept plans


def plan_of(table: NodeTable, node: ConcreteNode) -> tuple[ConcreteNode, ...]:
    """What to look at to bring a stale node up to date; the node comes last."""
    for lower in node.inputs or table.inputs(node):
        if lower.sources is WIDE or not is_up_to_date(table, lower):
            break
    else:
        return (node,)  # the most frequent plan, and the shortest
    row = table.row(node)
    if row.verified_at < table.schemas_changed_at:  # also if there is no value
        return _ordered(table, node, lambda lower: _may_be_stale(table, lower))
    few, mask = touched_above(table, node, row)
    name = (node, few, mask)
    plan = table.plans.get(name)
    if plan is None:
        plan = _ordered(table, node, lambda lower: _depends(table, lower, few, mask))
        if len(plan) > _SHORT:
            table.planned += len(plan)
            if table.planned > _MANY:
                table.plans.clear()
                table.planned = len(plan)
            table.plans[name] = plan
    return plan


def _may_be_stale(table: NodeTable, node: ConcreteNode) -> bool:
    row = node.row or table.row(node)
    if row.verified_at < 0:
        return True
    if node.sources is WIDE and node.epoch == table.epoch and row.origin != PINNED:
        return row.verified_at != table.revision
    return not is_up_to_date(table, node)


def _depends(table: NodeTable, node: ConcreteNode, few: frozenset[ConcreteNode], mask: int) -> bool:
    table.row(node)
    sources = node.sources
    if sources is WIDE or node in few:
        return True
    if mask and (
        sources.mask & mask or _has_bit(node, mask) or any(_has_bit(one, mask) for one in sources.few)
    ):
        return True
    return not few.isdisjoint(sources.few)


def _has_bit(node: ConcreteNode, mask: int) -> bool:
    return node.bit >= 0 and bool(mask >> node.bit & 1)


def _ordered(
    table: NodeTable, root: ConcreteNode, wanted: Callable[[ConcreteNode], bool]
) -> tuple[ConcreteNode, ...]:
    """A node and those above it that are wanted, inputs first; without recursion."""
    order: list[ConcreteNode] = []
    seen = {root}
    path = [(root, iter(table.inputs(root)))]
    while path:
        node, rest = path[-1]
        for lower in rest:
            if lower not in seen:
                seen.add(lower)
                if wanted(lower):
                    path.append((lower, iter(table.inputs(lower))))
                    break
        else:
            path.pop()
            order.append(node)
    return tuple(order)
