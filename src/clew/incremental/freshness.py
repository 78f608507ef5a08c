"""Freshness: which sources a node depends on, and whether it is up to date.

A node is up to date iff it has a value, and neither it nor any of its sources was touched after the revision for which
it was verified. The sources of a node are the upstream nodes without inputs, and the upstream nodes whose schema was
*promoted* because one of its nodes was pinned or invalidated.

Rules:

- Touching a source marks nothing; dependents find out when they are pulled.
- Source sets are computed on demand and shared along a chain. Up to a few sources are a tuple; with more, atoms become
  bits of an integer that is compared with the bits of recently touched sources.
- A chain in which each node adds a source would need quadratic space. An intermediate node with a *wide* set stores
  none, and its inputs are traversed instead. The pulled node always has a set.
- Promoting a schema starts a new epoch, which invalidates all source sets.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from clew.errors import InvalidNodeError
from clew.incremental.nodes import ConcreteNode, NodeRecord, NodeTable

_FEW = 16  # sources that are checked one by one
_WIDTH = 4096  # maximum bits of the set of an intermediate node
_ALL_BITS = 1 << 62  # sorts after every bit


class Sources:
    """The sources of a node: a tuple, and a bit mask."""

    __slots__ = ("few", "mask")

    def __init__(self, few: tuple[ConcreteNode, ...], mask: int = 0) -> None:
        self.few = few
        self.mask = mask


WIDE = Sources(())  # placeholder for a set that is not stored


def is_up_to_date(table: NodeTable, node: ConcreteNode) -> bool:
    """Return whether the value of a node is valid for the current revision."""
    revision = table.revision
    if node.checked_at == revision:
        return True
    row = node.row or table.row(node)
    verified = row.verified_at
    if row.touched_at > verified or verified < 0:
        return False
    if verified != revision:
        sources = node.sources
        if sources is None or node.epoch != table.epoch or sources is WIDE:
            sources = sources_of(table, node)
        for source in sources.few:
            if source.row.touched_at > verified:
                return False
        if sources.mask and touched_since(table, max(verified, node.checked_at)) & sources.mask:
            return False
    node.checked_at = revision
    return True


def touched_sources(
    table: NodeTable, node: ConcreteNode, row: NodeRecord
) -> tuple[frozenset[ConcreteNode], int]:
    """Return the sources of a node that were touched after it was verified."""
    verified = row.verified_at
    sources = sources_of(table, node)
    few = frozenset(source for source in sources.few if source.row.touched_at > verified)
    return few, sources.mask and touched_since(table, verified) & sources.mask


def all_sources(table: NodeTable, node: ConcreteNode) -> tuple[list[ConcreteNode], InvalidNodeError | None]:
    """Return the sources of a node, sorted by key; and the error of an upstream input without a schema, if any."""
    unknown: InvalidNodeError | None = None
    found: dict[str, ConcreteNode] = {}
    seen = {node}
    stack = [node]
    while stack:
        inputs, error = table.known_inputs(stack.pop())
        unknown = unknown or error
        for lower in inputs:
            if lower not in seen:
                seen.add(lower)
                stack.append(lower)
                if table.is_source(lower):
                    found[lower.key] = lower
    return [found[key] for key in sorted(found)], unknown


# -- finding sets -----------------------------------------------------------------------------------------


def sources_of(table: NodeTable, node: ConcreteNode) -> Sources:
    """Return the complete source set of a node."""
    if node.sources is None or node.epoch != table.epoch:
        _find(table, node)
    if node.sources is WIDE:
        _gather(table, node)
    found: Sources = node.sources
    return found


def _find(table: NodeTable, root: ConcreteNode) -> None:
    """Compute the set, or `WIDE`, of a node and all upstream nodes without one: inputs first, without recursion."""
    epoch = table.epoch
    rule = root.rule
    if rule.has_fixed_inputs:  # all nodes of the rule have the same set
        known = table.fixed_sources.get(rule)
        if known is not None and known[0] == epoch:
            root.epoch, root.sources = known
            return
    stack = [root]
    while stack:
        node = stack[-1]
        if node.epoch == epoch:
            stack.pop()
            continue
        missing = [lower for lower in table.inputs(node) if lower.epoch != epoch]
        if missing:
            stack.extend(missing)
        else:
            stack.pop()
            node.sources = _joined(table, node)
            node.epoch = epoch
            if node.rule.has_fixed_inputs:
                table.fixed_sources[node.rule] = (epoch, node.sources)


def _joined(table: NodeTable, node: ConcreteNode) -> Sources:
    """Return the union of the sets of the inputs, and of the inputs that are sources."""
    inputs = node.inputs
    if len(inputs) == 1 and not table.is_source(inputs[0]):
        shared: Sources = inputs[0].sources
        return shared
    few: dict[ConcreteNode, None] = {}
    mask = 0
    for lower in inputs:
        above: Sources = lower.sources
        if above is WIDE:
            return WIDE
        few.update(dict.fromkeys(above.few))
        mask |= above.mask
        if table.is_source(lower):
            few[lower] = None
    made = _made(table, few, mask)
    return WIDE if made.mask.bit_length() > _WIDTH or len(made.few) > _WIDTH // 64 else made


def _gather(table: NodeTable, root: ConcreteNode) -> None:
    """Compute the set of a node, however wide; existing sets on the way are reused."""
    few: dict[ConcreteNode, None] = {}
    mask = 0
    seen = {root}
    stack = [root]
    while stack:
        for lower in table.inputs(stack.pop()):
            if lower in seen:
                continue
            seen.add(lower)
            if table.is_source(lower):
                few[lower] = None
            if lower.sources is WIDE:
                stack.append(lower)
            else:
                few.update(dict.fromkeys(lower.sources.few))
                mask |= lower.sources.mask
    root.sources = _made(table, few, mask)


def _made(table: NodeTable, few: dict[ConcreteNode, None], mask: int) -> Sources:
    for source in few:
        table.row(source)  # loads the record
    rest = list(few)
    if len(few) > _FEW:
        # instances get no bits: their number is unbounded
        rest = [source for source in few if source.arguments]
        for source in few:
            if not source.arguments:
                mask |= 1 << _bit(table, source)
    made = Sources(tuple(rest), mask)
    if any(source.arguments for source in rest):
        return made
    # shared by the instances of a schema
    found: Sources = table.source_sets.setdefault((made.few, mask), made)
    return found


# -- bits -------------------------------------------------------------------------------------------------


def _bit(table: NodeTable, source: ConcreteNode) -> int:
    if source.bit < 0:
        source.bit = table.bits
        table.bits += 1
        if source.row.touched_at:
            insort(table.touches, (source.row.touched_at, source.bit))
    return source.bit


def note_touch(table: NodeTable, source: ConcreteNode, revision: int) -> None:
    """Record that a source with a bit was touched; `revision` is not lower than any recorded one."""
    touches = table.touches
    touches.append((revision, source.bit))
    if len(touches) > 4 * table.bits + 64:
        latest = {bit: at for at, bit in touches}
        touches[:] = sorted((at, bit) for bit, at in latest.items())


def touched_since(table: NodeTable, revision: int) -> int:
    """Return the bits of the sources that were touched after a revision."""
    touches = table.touches
    mask = 0
    for _, bit in touches[bisect_right(touches, (revision, _ALL_BITS)) :]:
        mask |= 1 << bit
    return mask
