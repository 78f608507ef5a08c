"""Explanations: why a node is up to date or outdated, and why its value was or was not computed again.

An explanation is read from records; it computes and changes nothing. `str()` formats it as text.
"""

from __future__ import annotations

import msgspec

from clew import display
from clew.errors import InvalidNodeError
from clew.incremental.freshness import all_sources, is_up_to_date
from clew.incremental.nodes import COMPUTED, ORIGINS, PINNED, ConcreteNode, NodeRecord, NodeTable

UP_TO_DATE, OUTDATED = "up-to-date", "potentially-outdated"


class Cause(msgspec.Struct, frozen=True):
    """A source of a node, with the revisions at which it was touched and at which its value changed.

    `origin` is what touched it: ``set``, ``pinned``, ``computed`` (after an invalidation), ``invalidated`` (a source
    without a computor), or ``schema``; None if it was never touched.
    """

    node: str
    touched_at: int
    changed_at: int
    origin: str | None
    is_newer: bool  # touched after the node was verified

    def __str__(self) -> str:
        if not self.touched_at:
            return f"{self.node} was never touched"
        if self.origin == "schema":
            return f"the schema of {self.node} changed at revision {self.touched_at}"
        how = {"set": "set", "pinned": "pinned"}.get(self.origin or "", "invalidated")
        same = "" if self.changed_at == self.touched_at else f"; its value last changed at {self.changed_at}"
        return f"{self.node} was {how} at revision {self.touched_at}{same}"


class InputStatus(msgspec.Struct, frozen=True):
    """A direct input of a node."""

    node: str
    freshness: str | None
    changed_at: int


class Explanation(msgspec.Struct, frozen=True):
    """The status of a node. All numbers are revisions of the graph, or None."""

    node: str
    schema: str
    freshness: str | None
    revision: int
    origin: str | None
    verified_at: int | None
    changed_at: int | None
    computed_at: int | None
    touched_at: int | None
    stateful: bool
    reason: str
    causes: tuple[Cause, ...] = ()
    inputs: tuple[InputStatus, ...] = ()

    @property
    def changed_sources(self) -> tuple[Cause, ...]:
        """Return the sources that were touched after the node was verified, latest first."""
        return tuple(cause for cause in self.causes if cause.is_newer)

    def __repr__(self) -> str:
        return f"<Explanation {self.node!r}: {self.freshness or 'without a value'}>"

    def _repr_html_(self) -> str:
        return display.page(display.block(str(self)))

    def __str__(self) -> str:
        condition = f"is {self.freshness}" if self.freshness else "has no value"
        lines = [f"{self.node} {condition} at revision {self.revision}: {self.reason}"]
        lines += [f"  {cause}" for cause in self.causes if cause.touched_at]
        lines += [
            f"  input {one.node}: {one.freshness or 'no value'}, changed at revision {one.changed_at}"
            for one in self.inputs
        ]
        if self.stateful:
            lines.append("  its computor depends on the old value (stateful)")
        return "\n".join(lines)


def explain(table: NodeTable, node: ConcreteNode) -> Explanation:
    row = table.row(node)
    sources, unknown = all_sources(table, node)
    for source in sources:
        table.row(source)
    fresh = freshness(table, node)
    has_value = row.verified_at >= 0
    sources.sort(key=lambda one: (-one.row.touched_at, one.key))  # those newer than the node come first
    newer = [one for one in sources if has_value and one.row.touched_at > row.verified_at]
    return Explanation(
        node=node.key,
        schema=node.rule.key,
        freshness=fresh,
        revision=table.revision,
        origin=ORIGINS[row.origin] if has_value else None,
        verified_at=row.verified_at if has_value else None,
        changed_at=row.changed_at if has_value else None,
        computed_at=_computed_at(node, row),
        touched_at=row.touched_at or None,
        stateful=node.rule.stateful,
        reason=_reason(table, node, row, fresh, newer)
        if unknown is None
        else f"it cannot be computed: {unknown}",
        causes=tuple(_cause(one, n < len(newer)) for n, one in enumerate(sources)),
        inputs=tuple(
            InputStatus(one.key, freshness(table, one), table.row(one).changed_at)
            for one in table.known_inputs(node)[0]
        ),
    )


def freshness(table: NodeTable, node: ConcreteNode) -> str | None:
    """Return ``"up-to-date"``, ``"potentially-outdated"``, or None for a node without a value."""
    if table.row(node).verified_at < 0:
        return None
    try:
        return UP_TO_DATE if is_up_to_date(table, node) else OUTDATED
    except InvalidNodeError:
        return OUTDATED  # no schema matches one of its inputs; a pull raises the error


def _cause(node: ConcreteNode, is_newer: bool) -> Cause:
    row = node.row
    return Cause(node.key, row.touched_at, row.changed_at, _touched_by(node, row), is_newer)


def _touched_by(node: ConcreteNode, row: NodeRecord) -> str | None:
    if not row.touched_at:
        return None
    if row.touched_at == node.rule.touched_at:
        return "schema"
    if _was_invalidated(node, row):
        return "invalidated"
    return ORIGINS[row.origin] if row.verified_at >= row.touched_at else "computed"


def _was_invalidated(node: ConcreteNode, row: NodeRecord) -> bool:
    """Return whether a source without a computor was invalidated after it was set."""
    return node.rule.computor is None and 0 < row.touched_at == row.computed_at


def _computed_at(node: ConcreteNode, row: NodeRecord) -> int | None:
    if node.rule.computor is None:
        return None
    is_computed = row.verified_at >= 0 and row.origin == COMPUTED  # may be at revision 0
    return row.computed_at if is_computed else row.computed_at or None


def _reason(
    table: NodeTable, node: ConcreteNode, row: NodeRecord, fresh: str | None, newer: list[ConcreteNode]
) -> str:
    if fresh is None:
        return "it was never set" if node.rule.computor is None else "it was never pulled"
    if fresh == UP_TO_DATE:
        return _why_fresh(node, row)
    if node.rule.touched_at > row.verified_at:
        return f"its schema changed at revision {node.rule.touched_at}; the next pull computes it"
    if row.touched_at > row.verified_at:
        return f"it was invalidated at revision {row.touched_at}; the next pull computes it"
    since = f"{newer[0].key} was touched at revision {newer[0].row.touched_at}"
    if row.origin == PINNED:
        return f"it was pinned at revision {row.verified_at}; {since}, which ends the pin; the next pull computes it"
    for lower in table.inputs(node):
        if table.row(lower).changed_at > row.verified_at:
            return (
                f"{since}, and its input {lower.key} changed at revision {lower.row.changed_at}, after it was verified "
                f"at {row.verified_at}; the next pull computes it"
            )
    return f"{since}; the next pull computes it if an input changes"


def _why_fresh(node: ConcreteNode, row: NodeRecord) -> str:
    if _was_invalidated(node, row):
        return f"it was invalidated at revision {row.touched_at} and counts as changed; it has no computor"
    if row.origin != COMPUTED:
        return f"its value was {ORIGINS[row.origin]} at revision {row.touched_at}"
    if row.computed_at == row.changed_at:
        text = f"its value was computed at revision {row.changed_at}"
    else:
        text = f"it was computed at revision {row.computed_at}, and the value did not change since {row.changed_at}"
    if row.verified_at > row.computed_at:
        text += f"; at {row.verified_at} it was verified without computing, because no input had changed"
    return text
