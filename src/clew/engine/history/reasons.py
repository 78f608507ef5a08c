"""Why a node ran: read from the chain, between the last run of the node and the one before.

The reasons of a node are what the steps since its previous run (including that step) did to wake it: a gate selected it
or sent to it, a node with a control link to it ran, or another node wrote an input. The first run of a node without
incoming links has only the start of the run and the given inputs as reasons.

A decision that its gate withdrew before the node could run is not a reason. `_Replaced` finds these by following the
steps with a working state without values, so no reducer is called.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from clew import display
from clew.engine.decisions import withdrawals
from clew.engine.program import Program
from clew.engine.records import Outcome, Step
from clew.engine.working_state import WorkingState
from clew.error_text import line_of
from clew.errors import UnknownRunError
from clew.graph import Send
from clew.graph.names import nearest
from clew.state import GraphState


class Reason(msgspec.Struct, frozen=True):
    """One cause of a node's run. `step` is when it happened, `path` is the item that caused it.

    `instead_of` are the targets that the gate withdrew with this decision. `times` counts equal causes: a gate that
    sent 40 items is one reason.
    """

    kind: Literal["start", "given", "changed", "selected", "sent", "control", "outside", "edited"]
    step: int
    path: str = ""
    value: str = ""
    version: int = 0
    instead_of: tuple[str, ...] = ()
    times: int = 1

    def __str__(self) -> str:
        return self.text()

    def text(self, items: int = 1) -> str:
        """Return the reason as a clause. It is the last of as many `items` of a batch that did the same."""
        path = self.path if items == 1 else f"{items} items of {_batch(self.path)}"
        times = f" {self.times} times" if self.times > 1 else ""
        instead = f" instead of {', '.join(map(repr, self.instead_of))}" if self.instead_of else ""
        match self.kind:
            case "start":
                return "it runs at the start of the run"
            case "given":
                return f"{self.value!r} was given"
            case "changed":
                return f"{self.value!r} became version {self.version}, written by {path} in step {self.step}"
            case "selected":
                return f"{path} selected it{times} in step {self.step}{instead}"
            case "sent":
                return f"{path} sent to it{times} in step {self.step}{instead}"
            case "edited":
                what = repr(self.value) if self.value else path
                return f"a person {'set' if self.value else 'made'} {what} by hand in step {self.step}"
            case "control":
                return f"{path} ran before it, in step {self.step}"
        return f"{self.value!r} was set from outside before step {self.step + 1}"


def _batch(path: str) -> str:
    """Return the path of an item without its index in the batch."""
    return path[: path.rindex("[")] if path.endswith("]") else path


class Why(msgspec.Struct, frozen=True):
    """The item that explains `target`, and its reasons."""

    target: str
    node: str
    path: str
    step: int
    reasons: tuple[Reason, ...]
    cached: bool = False  # its result was cached, or reused by a rerun
    rescued: BaseException | None = None
    """The error of the node, if its rescue function returned in its place."""

    def __repr__(self) -> str:
        if not self.node:
            return f"<Why {self.target!r}: written by no node>"
        reasons = "1 reason" if len(self.reasons) == 1 else f"{len(self.reasons)} reasons"
        return f"<Why {self.target!r}: {self.path} in step {self.step}, {reasons}>"

    def _repr_html_(self) -> str:
        return display.page(display.block(str(self)))

    def __str__(self) -> str:
        if not self.node:
            where = " to the run" if self.reasons[0].kind == "given" else ""
            return f"{self.reasons[0]}{where}, and no node has written it since"
        groups: dict[tuple[str, ...], list[Reason]] = {}
        for reason in self.reasons:
            key = (reason.kind, str(reason.step), _batch(reason.path), reason.value, *reason.instead_of)
            groups.setdefault(key, []).append(reason)
        reasons = "\n".join(f"  - {group[-1].text(len(group))}" for group in groups.values())
        is_value = self.target not in (self.node, self.path)
        what = f"{self.target!r} was written by {self.node}, which" if is_value else self.node
        cached = ", from the cache" if self.cached else ""
        said = f"{what} ran in step {self.step} ({self.path}{cached}) because\n{reasons}"
        if self.rescued is None:
            return said
        return (
            f"{said}\nits rescue function returned the value, because it failed with {line_of(self.rescued)}"
        )


class RunLineage(msgspec.Struct, frozen=True):
    """All steps up to a state: of the run, and of the runs that it was forked from."""

    start: GraphState
    steps: Sequence[Step]
    outside: Sequence[tuple[int, frozenset[str]]] = ()  # values set from outside, and after which step


def why(program: Program, lineage: RunLineage, target: str, not_run: Callable[[str], str]) -> Why:
    """Explain why a node last ran, or why the node ran that last wrote a value; `target` may be the path of an item.

    `not_run` says what keeps a node from running. Raise UnknownRunError with it if the node has not run.
    """
    is_node, start = target in program.index, lineage.start
    last = _last(
        lineage, lambda each: each.node == target if is_node else target in (*each.update, each.path)
    )
    outside = [] if is_node else [step for step, names in lineage.outside if target in names]
    if outside and (last is None or max(outside) >= last[0].number):
        return Why(target, "", "", max(outside), (Reason("outside", max(outside), value=target),))
    if last is not None:
        return _explained(program, lineage, target, *last)
    if is_node:
        raise UnknownRunError(f"node {target!r} {_why_not_run(program, lineage, target, not_run)}")
    if start.has(target):
        return Why(target, "", "", start.step, (Reason("given", start.step, value=target),))
    writer = next((node.name for node in program.nodes if target in node.outputs), None)
    if writer is not None:
        because = _why_not_written(lineage, writer, not_run)
        raise UnknownRunError(f"no node has written {target!r}: {because}")
    known = [*program.names, *sorted(program.written), *start.values]
    raise UnknownRunError(f"this run has no node or value {target!r}; {nearest(target, known)}")


def _last(lineage: RunLineage, is_wanted: Callable[[Outcome], bool]) -> tuple[Step, Outcome] | None:
    found = (
        (step, each)
        for step in reversed(lineage.steps)
        for each in reversed(step.outcomes)
        if is_wanted(each)
    )
    return next(found, None)


def _explained(program: Program, lineage: RunLineage, target: str, step: Step, outcome: Outcome) -> Why:
    if outcome.by_hand:
        value = target if target in outcome.update else ""
        edited = Reason("edited", step.number, outcome.path, value)
        return Why(target, outcome.node, outcome.path, step.number, (edited,))
    reasons = Explainer(program, lineage).reasons(step.number, outcome.node)
    rescued = outcome.failures[0].error if outcome.rescued else None
    return Why(target, outcome.node, outcome.path, step.number, reasons, outcome.cached, rescued)


def _why_not_run(program: Program, lineage: RunLineage, name: str, not_run: Callable[[str], str]) -> str:
    ran = lineage.start.node_history.get(name)
    if ran is not None:
        return (
            f"ran in step {ran.step}, before the state that this run started from; ask the run that "
            f"created that state"
        )
    if awaited := _awaited(program, lineage, name):
        return f"has not run: all_of() waits for {', '.join(map(repr, awaited))}"
    return f"has not run: {_Replaced(program, lineage).explanation(name) or not_run(name)}"


def _why_not_written(lineage: RunLineage, writer: str, not_run: Callable[[str], str]) -> str:
    last = _last(lineage, lambda each: each.node == writer)
    if last is None:
        return f"node {writer!r} has not run: {not_run(writer)}"
    if last[1].error is not None:
        return not_run(writer)
    return f"{last[1].path} ran without it; see what the node returns"


def _awaited(program: Program, lineage: RunLineage, target: str) -> list[str]:
    """Return the sources of a join that have never run; empty for other nodes."""
    node = program.graph.nodes[target]
    if not node.is_join:
        return []
    ran = {
        outcome.node for step in lineage.steps for outcome in step.outcomes
    } | lineage.start.node_history.keys()
    return [name for name in node.after if name not in ran]


class Explainer:
    """Finds the reasons of items of one lineage: of those that have run, and of those that have not yet."""

    def __init__(self, program: Program, lineage: RunLineage) -> None:
        self._program = program
        self._lineage = lineage
        self._replaced = _Replaced(program, lineage)
        self._numbers = [step.number for step in lineage.steps]
        self._ran: dict[str, list[int]] = {}  # node -> the steps in which it ran
        self._items: dict[str, tuple[Step, Outcome]] = {}
        self._versions: dict[tuple[int, str, str], int] = {}  # of a value, after an item has written it
        versions = dict(lineage.start.versions)
        for step in lineage.steps:
            for after, names in lineage.outside[:-1]:  # the start state counts the last ones
                if after == step.number - 1:
                    versions.update({value: versions.get(value, 0) + 1 for value in names})
            for done in step.outcomes:
                self._ran.setdefault(done.node, []).append(step.number)
                self._items[done.path] = (step, done)
                for value in done.update:
                    versions[value] = versions.get(value, 0) + 1
                    self._versions[step.number, done.path, value] = versions[value]

    def explain(
        self, path: str, step_of_item: int | None = None
    ) -> tuple[int | None, Outcome | None, tuple[Reason, ...]] | None:
        """Return the step of an item, its outcome and its reasons, or None if no node has that name. An item that has
        not run has no outcome; its step is the given planned one.
        """
        known = self._items.get(path)
        if known is not None:
            step, outcome = known
            if outcome.by_hand:
                return step.number, outcome, (Reason("edited", step.number, path),)
            return step.number, outcome, self.reasons(step.number, outcome.node)
        node = path.partition("#")[0]
        if node not in self._program.index:
            return None
        if step_of_item is not None:
            return step_of_item, None, self.reasons(step_of_item, node)
        last = self._numbers[-1] if self._numbers else self._lineage.start.step
        return None, None, self.reasons(last + 1, node)

    def reasons(self, at: int, node: str) -> tuple[Reason, ...]:
        """Return why a node ran in a step; equal reasons are one."""
        times = Counter(self._found(at, node))
        return tuple(msgspec.structs.replace(reason, times=number) for reason, number in times.items())

    def _found(self, at: int, name: str) -> Iterator[Reason]:
        program, lineage = self._program, self._lineage
        node = program.index[name]
        earlier = self._ran.get(name, [])
        place = bisect_left(earlier, at)
        previous = earlier[place - 1] if place else None
        inputs = program.nodes[node].inputs
        found = False
        first = 0 if previous is None else bisect_left(self._numbers, previous)
        for step in lineage.steps[first : bisect_left(self._numbers, at)]:
            for done in step.outcomes:
                for reason in _wakes(program, step, done, node, first=previous is None):
                    if self._replaced.holds(reason, name):
                        found = True
                        instead_of = self._replaced.instead_of(reason, name)
                        version = self._versions.get((step.number, done.path, reason.value), 0)
                        yield msgspec.structs.replace(reason, version=version, instead_of=instead_of)
        for after, names in lineage.outside:
            if after < at and (previous is None or after >= previous):
                for value in sorted(names.intersection(inputs)):
                    found = True
                    yield Reason("outside", after, value=value)
        if not found:
            given = [value for value in inputs if lineage.start.has(value)]
            yield from (Reason("given", lineage.start.step, value=value) for value in given)
            if not given:
                yield Reason("start", lineage.start.step)


def _wakes(program: Program, step: Step, done: Outcome, node: int, *, first: bool) -> Iterator[Reason]:
    if done.by_hand and not done.node:
        read = set(program.nodes[node].inputs).intersection(done.update)
        yield from (Reason("edited", step.number, done.path, value) for value in sorted(read))
        return
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


class _Replaced:
    """The decisions of a lineage that their gates withdrew, and what replaced them."""

    def __init__(self, program: Program, lineage: RunLineage) -> None:
        self._replacements: dict[tuple[int, str, str, str], tuple[int, str]] = {}  # decision -> step and path
        self._instead: dict[tuple[int, str], tuple[str, ...]] = {}  # step and path -> targets that were lost
        if not program.has_gates:
            return
        working = WorkingState.restore(program, lineage.start)
        last: dict[str, tuple[int, str]] = {}  # gate -> the last step and path of a plain item
        for step in lineage.steps:
            for after, names in lineage.outside[:-1]:  # the start state contains the last ones
                if after == step.number - 1:
                    for name in names:
                        working.count_outside_write(name)
            for withdrawal in withdrawals(working, step.outcomes):
                outcome = withdrawal.outcome
                for choice in withdrawal.choices:
                    kind, name = ("sent", choice.target) if isinstance(choice, Send) else ("selected", choice)
                    decided = last.get(outcome.node)
                    if decided is not None:  # else the decision is older than the lineage
                        self._replacements[*decided, name, kind] = (step.number, outcome.path)
                lost = [c.target if isinstance(c, Send) else c for c in withdrawal.lost]
                self._instead[step.number, outcome.path] = tuple(dict.fromkeys(lost))
            ran = {program.index[o.node]: None for o in step.outcomes if o.node}
            for node, start in working.starts(ran).items():
                if start.is_plain:
                    name = program.names[node]
                    first = next(o for o in step.outcomes if o.node == name)
                    last[name] = (step.number, first.path)
            working.advance(step.outcomes)

    def holds(self, reason: Reason, target: str) -> bool:
        """Return whether a reason for `target` was not withdrawn."""
        return (reason.step, reason.path, target, reason.kind) not in self._replacements

    def instead_of(self, reason: Reason, target: str) -> tuple[str, ...]:
        """Return what the decision behind a reason replaced, other than `target` itself."""
        if reason.kind not in ("selected", "sent"):
            return ()
        return tuple(name for name in self._instead.get((reason.step, reason.path), ()) if name != target)

    def explanation(self, target: str) -> str:
        """Return which decision for a node that has not run was replaced; "" if none was."""
        found = [(key, by) for key, by in self._replacements.items() if key[2] == target]
        if not found:
            return ""
        (step, path, _, kind), (later, other) = found[-1]
        what = "sent to it" if kind == "sent" else "selected it"
        return f"{path} {what} in step {step}, and {other} replaced that decision in step {later}"
