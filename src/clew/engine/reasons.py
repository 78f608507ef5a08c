"""Why a node ran: read off the chain, between the node's last run and the one before.

A node's reasons are what the steps since its previous run (that step included) did to wake it: a gate selected it
or sent to it, a node with a control link to it ran, another node wrote an input. The first run of a node that
nothing points to has no other reason than the start of the run, and the inputs that came last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from clew.engine.records import Outcome, Step
from clew.engine.rules import Program
from clew.errors import UnknownRunError
from clew.graph import Send
from clew.graph.names import nearest
from clew.state import GraphState


class Reason(msgspec.Struct, frozen=True):
    """One thing that made a node run. `step` is where it happened, `path` is the item that did it."""

    kind: Literal["start", "given", "changed", "selected", "sent", "control", "outside"]
    step: int
    path: str = ""
    value: str = ""
    version: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "start":
                return "it runs at the start: nothing has to happen before"
            case "given":
                return f"{self.value!r} was given"
            case "changed":
                return f"{self.value!r} became version {self.version}, written by {self.path} in step {self.step}"
            case "selected":
                return f"{self.path} selected it in step {self.step}"
            case "sent":
                return f"{self.path} sent to it in step {self.step}"
            case "control":
                return f"{self.path} ran before it, in step {self.step}"
        return f"{self.value!r} was set from outside before step {self.step + 1}"


class Why(msgspec.Struct, frozen=True):
    """Why `target` is as it is: the item that ran, and its reasons."""

    target: str
    node: str
    path: str
    step: int
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        if not self.node:
            where = " to the run" if self.reasons[0].kind == "given" else ""
            return f"{self.reasons[0]}{where}, and no node has written it since"
        told = "\n".join(f"  - {reason}" for reason in self.reasons)
        what = self.node if self.target == self.node else f"{self.target!r} was written by {self.node}, which"
        return f"{what} ran in step {self.step} ({self.path}) because\n{told}"


class Story(msgspec.Struct, frozen=True):
    """All that happened up to a state: of the run, and of the runs that it was forked from."""

    start: GraphState
    steps: Sequence[Step]
    outside: Sequence[tuple[int, frozenset[str]]] = ()  # what was set from outside, and after which step


def why(program: Program, story: Story, target: str) -> Why:
    """Why a node ran last, or why the node ran that wrote a value last."""
    is_node = target in program.index
    last: tuple[Step, Outcome] | None = None
    for step in story.steps:
        for outcome in step.outcomes:
            if outcome.node == target if is_node else target in outcome.update:
                last = (step, outcome)
    set_after = (
        None if is_node else max((step for step, names in story.outside if target in names), default=None)
    )
    if set_after is not None and (last is None or set_after >= last[0].number):
        return Why(target, "", "", set_after, (Reason("outside", set_after, value=target),))
    if last is not None:
        step, outcome = last
        reasons = tuple(_reasons(program, story, step, outcome))
        return Why(target, outcome.node, outcome.path, step.number, reasons)
    start = story.start
    if is_node:
        ran = start.node_history.get(target)
        if ran is None:
            raise UnknownRunError(f"node {target!r} has not run; result.never_ran says what it lacked")
        raise UnknownRunError(
            f"node {target!r} ran in step {ran.step}, before the state that this run went on from; ask the run that "
            f"made that state"
        )
    if start.has(target):
        return Why(target, "", "", start.step, (Reason("given", start.step, value=target),))
    known = [*program.names, *sorted(program.written), *start.values]
    raise UnknownRunError(f"there is no node and no value {target!r} in this run; {nearest(target, known)}")


def _reasons(program: Program, story: Story, at: Step, outcome: Outcome) -> Iterator[Reason]:
    name, node = outcome.node, program.index[outcome.node]
    before = [s for s in story.steps if s.number < at.number]
    previous = max((s.number for s in before if any(o.node == name for o in s.outcomes)), default=None)
    inputs = program.nodes[node].inputs
    versions = dict(story.start.versions)
    found = False
    for step in before:
        for after, names in story.outside[
            :-1
        ]:  # the last were set before the start, whose versions count them
            if after == step.number - 1:
                versions.update({value: versions.get(value, 0) + 1 for value in names})
        for done in step.outcomes:
            for value in done.update:
                versions[value] = versions.get(value, 0) + 1
            if previous is not None and step.number < previous:
                continue
            for reason in _wakes(program, step, done, node, first=previous is None):
                found = True
                yield msgspec.structs.replace(reason, version=versions.get(reason.value, 0))
    for after, names in story.outside:
        if after < at.number and (previous is None or after >= previous):
            for value in sorted(names.intersection(inputs)):
                found = True
                yield Reason("outside", after, value=value)
    if not found:
        given = [value for value in inputs if story.start.has(value)]
        yield from (Reason("given", story.start.step, value=value) for value in given)
        if not given:
            yield Reason("start", story.start.step)


def _wakes(program: Program, step: Step, done: Outcome, node: int, *, first: bool) -> Iterator[Reason]:
    source, name = program.index[done.node], program.names[node]
    for choice in done.decision or ():
        if isinstance(choice, Send):
            if choice.target == name:
                yield Reason("sent", step.number, done.path)
        elif choice == name:
            yield Reason("selected", step.number, done.path)
    if any(target == node for target, _ in program.control_wakes[source]):
        yield Reason("control", step.number, done.path)
    for value in done.update:
        for reader, bits in program.data_readers[source].get(value, ()):
            if reader == node and (bits or first):
                yield Reason("changed", step.number, done.path, value)
