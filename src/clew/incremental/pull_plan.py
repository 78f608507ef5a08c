"""Plans: the nodes that a pull has to visit, inputs first.

Everything upstream of a node was up to date at the revision for which the node was verified. So an outdated upstream
node depends on a source that was touched after that revision. The plan is therefore a function of the touched sources:
the upstream nodes that depend on one of them. Plans are cached by these sources. For a node without a value, or one
that was verified before a schema changed, the plan is every upstream node that is not up to date.

A plan may contain nodes that turn out to be up to date; the pull skips them.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.incremental.freshness import WIDE, is_up_to_date, touched_sources
from clew.incremental.nodes import PINNED, ConcreteNode, NodeTable

_SHORT = 4  # plans up to this size are not cached
_MANY = 2_000_000  # maximum number of nodes in cached plans


def plan_of(table: NodeTable, node: ConcreteNode) -> tuple[ConcreteNode, ...]:
    """Return the nodes to visit to bring an outdated node up to date; the node itself comes last."""
    for lower in node.inputs or table.inputs(node):
        if lower.sources is WIDE or not is_up_to_date(table, lower):
            break
    else:
        return (node,)  # the most frequent case
    row = table.row(node)
    if row.verified_at < table.schemas_changed_at:  # or it has no value
        return _ordered(table, node, lambda lower: _may_be_stale(table, lower))
    few, mask = touched_sources(table, node, row)
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
    """Return a node and its wanted upstream nodes, inputs first; without recursion."""
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
