"""A brute-force model of the dependency graph: the meaning of its operations, as simple as possible.

Where the library compares revisions, this model marks: touching a node marks every dependent row as outdated. Where the
library stores when a value changed, this model counts changes, and a row stores the counts of its inputs at its last
check.

The operations:

- **touch** (by `set` or `invalidate`): all dependents of the node are outdated;
- **set**: a value from outside. On a node with inputs it is a *pin*: its inputs are brought up to date first, and it
  ends as soon as the row is outdated;
- **pull**: brings the inputs up to date, then *computes* if there is no value, it was invalidated, its schema changed,
  it is an outdated pin, or an input changed since; otherwise the row is up to date again;
- an up-to-date row equals ``scratch``: everything computed again from what is set and pinned.

The model does not define the order in which independent inputs are computed. It receives the actual calls and checks
each (``called``): it was necessary, it saw the correct inputs and old value, and its inputs were up to date. After a
failure it receives the rows that were found to be up to date without computation, since that also depends on the order.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.incremental.oracle_worlds import Constant, Node, World, behave, same

FRESH, OUTDATED = "up-to-date", "potentially-outdated"


@dataclass
class Row:
    value: Any
    origin: str  # computed, pinned, set
    outdated: bool = False
    must_compute: bool = False  # invalidated, or its schema changed
    changes: int = 1
    seen: tuple[int, ...] = ()  # the changes of its inputs when it was last checked


@dataclass(frozen=True)
class Call:
    """One call of a computor, as it was really made, and how it ended."""

    node: Node
    inputs: tuple[Any, ...]
    old: Any
    bindings: dict[str, Constant]
    ended: str  # "value", "unchanged", "raised"


@dataclass
class Model:
    world: World
    rows: dict[Node, Row] = field(default_factory=dict)

    # -- looking ----------------------------------------------------------------------------------------

    def freshness(self, node: Node) -> str | None:
        row = self.rows.get(node)
        return None if row is None else OUTDATED if row.outdated else FRESH

    def needs_call(self, node: Node) -> bool:
        """Whether its computor must run, given that its inputs are up to date."""
        row = self.rows.get(node)
        if self.world.is_source(node):
            return False
        return (
            row is None
            or row.must_compute
            or (row.origin == "pinned" and row.outdated)
            or row.seen != self._changes_of_inputs(node)
        )

    def scratch(self, node: Node) -> Any:
        """The value of a node only from what is set and pinned."""
        row, rule = self.rows.get(node), self.world.rule(node)
        if row is not None and (
            self.world.is_source(node) or (row.origin != "computed" and not row.outdated)
        ):
            return row.value
        assert rule is not None, f"{node} was never set"
        return behave(
            rule, [self.scratch(each) for each in self.world.inputs(node)], self.world.bindings(node)
        )

    def depends_on(self, node: Node) -> list[Node]:
        """The rows of those that depend on a node."""
        return [other for other in self.rows if node in self.world.ancestors(other)]

    # -- operations -------------------------------------------------------------------------------------

    def set(self, node: Node, value: Any) -> None:
        """A value from outside; the inputs of the node are up to date."""
        old = self.rows.get(node)
        changes = old.changes if old else 0
        if old is None or not same(old.value, value):
            changes += 1
        origin = "pinned" if self.world.inputs(node) else "set"
        self.rows[node] = Row(value, origin, changes=changes, seen=self._changes_of_inputs(node))
        self._touch(node)

    def invalidate(self, node: Node) -> None:
        row = self.rows.get(node)
        if row is None:
            return
        if self.world.is_source(node):
            row.changes += 1
        else:
            row.outdated = row.must_compute = True
        self._touch(node)

    def change_together(self, changes: Sequence[tuple[Any, ...]], calls: Sequence[Call]) -> None:
        """Changes that are one revision: the same as one after the other, but that a value which is again what it was
        has not changed; and what is pinned has its turn after all else."""
        pins = {change[1] for change in changes if change[0] == "set" and self.world.inputs(change[1])}
        self._change([change for change in changes if change[1] not in pins])
        for pin in sorted(pins, key=lambda node: len(self.world.ancestors(node))):
            for call in calls:
                if call.node in self.world.ancestors(pin) and self.freshness(call.node) != FRESH:
                    self.called(pin, call)
            for each in self.world.inputs(pin):
                self.settle(each)
            self._change([change for change in changes if change[1] == pin])
        called = {call.node for call in calls}
        assert all(any(node in self.world.ancestors(pin) for pin in pins) for node in called)

    def _change(self, changes: Sequence[tuple[Any, ...]]) -> None:
        before = copy.deepcopy(self.rows)
        for kind, node, *value in changes:
            getattr(self, kind)(node, *value)
        for node in {change[1] for change in changes} & before.keys():
            was, row = before[node], self.rows[node]
            is_redone = self.world.is_source(node) and ("invalidate", node) in changes
            row.changes = was.changes + (is_redone or not same(was.value, row.value))

    def revise(self, world: World) -> None:
        """Other schemas with the same nodes: those of another version are outdated."""
        before, self.world = self.world, world
        for node, row in self.rows.items():
            rule, was = world.rule(node), before.rule(node)
            if rule == was or row.origin == "set":
                continue
            row.outdated = row.must_compute = True
            self._touch(node)

    def called(self, target: Node, call: Call) -> None:
        """A call that was made on the way to a target."""
        node, world = call.node, self.world
        assert node == target or node in world.ancestors(target), f"{node} is no part of {target}"
        assert self.freshness(node) != FRESH, f"{node} was up to date and computed again"
        for each in world.inputs(node):
            self.settle(each)
        assert self.needs_call(node), f"{node} was computed without need"
        row, rule = self.rows.get(node), world.rule(node)
        inputs = [self.rows[each].value for each in world.inputs(node)]
        assert same(list(call.inputs), inputs), f"{node} saw {call.inputs} for {inputs}"
        assert same(call.old, row.value if row else None), f"{node} got {call.old} as its old value"
        assert call.bindings == world.bindings(node), f"{node} got {call.bindings}"
        assert [*map(type, call.bindings.values())] == [*map(type, world.bindings(node).values())]
        if call.ended == "raised":
            return
        assert rule is not None
        value = behave(rule, inputs, call.bindings)
        if call.ended == "unchanged" and row is None:
            return  # an error, which the harness expects
        if row is None:
            row = self.rows[node] = Row(value, "computed")
        elif not same(row.value, value):
            row.changes += 1
        row.value, row.origin, row.outdated, row.must_compute = value, "computed", False, False
        row.seen = self._changes_of_inputs(node)

    def settle(self, node: Node) -> None:
        """Mark the row as up to date, after all necessary computations."""
        row = self.rows.get(node)
        if row is not None and not row.outdated:
            return
        for each in self.world.inputs(node):
            self.settle(each)
        assert row is not None, f"{node} has no value"
        assert not self.needs_call(node), f"{node} was not computed, and had to be"
        row.outdated, row.seen = False, self._changes_of_inputs(node)

    def could_settle(self, node: Node) -> bool:
        """Return whether the row is outdated and needs no computation."""
        row = self.rows.get(node)
        return (
            row is not None
            and row.outdated
            and all(self.freshness(each) == FRESH for each in self.world.inputs(node))
            and not self.needs_call(node)
        )

    def _changes_of_inputs(self, node: Node) -> tuple[int, ...]:
        return tuple(self.rows[each].changes if each in self.rows else 0 for each in self.world.inputs(node))

    def _touch(self, node: Node) -> None:
        for other in self.depends_on(node):
            self.rows[other].outdated = True
