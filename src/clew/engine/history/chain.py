"""The chain of a run, read back: digests, states, executions and work items of any step.

While a run executes, the machine keeps only its current position; committed steps are data. Everything else is computed
from these steps on demand. A `Chain` applies the steps with the same code that committed them, so no second
implementation can disagree. Custom reducers are not called again: the steps contain their results
(``clew.engine.updates.deltas``).

The digest of S(k) is SHA-256 over the digest of S(k-1) and the canonical bytes of step k: paths, updates as given,
decisions and, where a custom reducer ran, deltas. It contains neither clock times nor run ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clew.engine.history.origins import Ran
from clew.engine.program import Program
from clew.engine.records import Choice, Failure, Outcome, Step
from clew.engine.updates.deltas import Delta, plain_deltas
from clew.engine.updates.merge import DeltaError, MergeFailure
from clew.engine.working_state import WorkingState
from clew.errors import GraphChangedError, StoreCorruptError
from clew.graph import Send
from clew.state import (
    GraphState,
    NodeExecution,
    Overwrite,
    assemble,
    canonical,
    position_of,
    register_type,
    stored_value,
    stored_values,
)
from clew.state.position import VersionMap

register_type(Overwrite, name="clew:Overwrite")  # updates are stored as given, so a step may contain it


def step_digest(previous: str, step: Step) -> str:
    """Return the digest of the state after `step`, equal to the digest of its stored form."""
    blobs: dict[str, bytes] = {}
    parts = [
        outcome_bytes(
            o.path,
            stored_values(o.update, at="state", blobs=blobs)[1],
            stored_decision(o.decision, blobs)[1],
            BY_HAND if o.by_hand else o.error is not None,
        )
        for o in step.outcomes
    ]
    deltas = stored_deltas(step.deltas, blobs)[1] if step.deltas else b""
    return digest_after(bytes.fromhex(previous), parts, deltas).hex()


def stored_deltas(deltas: Mapping[str, Delta], blobs: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Return the stored and the canonical bytes of deltas."""
    return stored_values(plain_deltas(deltas), at="state", blobs=blobs)


def stored_decision(decision: Sequence[Choice] | None, blobs: dict[str, bytes]) -> tuple[bytes, bytes]:
    """Return the stored and the canonical bytes of a decision."""
    if decision is None:
        return b"null", b"null"
    stored = stored_value([_plain(choice) for choice in decision], at="decision", blobs=blobs)
    return stored, stored if b"{" not in stored else canonical(stored)


def digest_after(previous: bytes, outcomes: Sequence[bytes], deltas: bytes = b"") -> bytes:
    """Return the digest of the state after a step, given the canonical bytes of each outcome.

    `deltas` are the canonical bytes of `plain_deltas`, empty for a step without deltas. The digest equals
    ``digest(b"clew:step", previous, content)``; the constant lengths are precomputed.
    """
    content = b"[" + b",".join(outcomes) + b"]" + deltas
    return sha256(_BEFORE + previous + len(content).to_bytes(8, "big") + content).digest()


_LABEL = b"clew:step"
_BEFORE = len(_LABEL).to_bytes(8, "big") + _LABEL + (32).to_bytes(8, "big")


BY_HAND = "by hand"
"""The ending of an outcome that a person made."""

_ENDINGS: dict[bool | str, bytes] = {False: b"false", True: b"true", BY_HAND: b'"by hand"'}


def outcome_bytes(path: str, update: bytes, decision: bytes, ending: bool | str) -> bytes:
    """Return the canonical bytes of an outcome, given those of its update and its decision.

    `ending` is whether the item failed, or `BY_HAND`.
    """
    return b"[%b,%b,%b,%b]" % (_json(path), update, decision, _ENDINGS[ending])


_json = msgspec.json.Encoder().encode


def _plain(choice: Choice) -> Any:
    return [choice.target, dict(choice.payload)] if isinstance(choice, Send) else choice


def is_from_outside(step: Step) -> bool:
    """Return whether a person made the step, and not as a node."""
    return step.outcomes[0].by_hand and not step.outcomes[0].node


def apply_step(working: WorkingState, step: Step, on_conflict: str) -> None:
    """Apply a committed step to a working state without calling custom reducers."""
    try:
        working.apply(step.outcomes, on_conflict=on_conflict, recorded=step.deltas)
    except (DeltaError, MergeFailure) as error:
        raise StoreCorruptError(
            f"step {step.number}{f' of {step.prefix}' if step.prefix else ''}: {error}"
        ) from error


def executions_of(
    program: Program, working: WorkingState, step: Step, on_conflict: str
) -> Iterator[NodeExecution]:
    """Apply a step and yield the executions that it adds. The last item of a batch represents its node."""
    last: dict[str, Outcome] = {}
    written: dict[str, set[str]] = {}
    for outcome in step.outcomes if not is_from_outside(step) else ():
        last[outcome.node] = outcome
        written.setdefault(outcome.node, set()).update(outcome.update)
    nodes = program.graph.nodes
    _known(program, step)
    read = {
        name: {value: working.versions[value] for value in nodes[name].inputs if value in working.versions}
        for name in last
    }
    apply_step(working, step, on_conflict)
    for name, outcome in last.items():
        versions = {value: working.versions[value] for value in nodes[name].outputs if value in written[name]}
        yield NodeExecution(
            node_name=name,
            input_versions=VersionMap(read[name]),
            output_version=next(iter(versions.values()), 0),
            timestamp=outcome.started,
            duration_ms=outcome.duration * 1000.0,
            cached=outcome.cached,
            output_versions=VersionMap(versions),
            step=step.number,
        )


def _known(program: Program, step: Step) -> None:
    """Raise GraphChangedError if a node of the step does not exist in the graph."""
    for outcome in step.outcomes:
        if outcome.node not in program.index and not is_from_outside(step):
            raise GraphChangedError(
                f"step {step.number} ran node {outcome.node!r}, which this graph does not have; restore the node "
                f"(its code may differ), or start a new run of the new graph"
            )


class Chain:
    """S(0) and the following steps of one frame. States are built on request.

    `digests` are the stored digests of the first states; they are not recomputed from decoded values.
    """

    def __init__(
        self,
        program: Program,
        start: GraphState,
        steps: Sequence[Step],
        *,
        seed: int,
        on_conflict: str = "error",
        digests: Sequence[str] = (),
    ) -> None:
        self.program = program
        self.start = start
        self.steps = steps
        self.seed = seed
        self._on_conflict = on_conflict
        self._digests = list(digests)  # of the first states, extended on request

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def first(self) -> int:
        """Return the number of the first state: 0, or the step of a restored state."""
        return self.start.step

    @property
    def last(self) -> int:
        return self.start.step + len(self.steps)

    def digest(self, step: int) -> str:
        """Return the digest of S(step)."""
        digests = self._digests
        if not digests:
            digests.append(self.start.digest)
        while len(digests) <= step - self.first:
            digests.append(step_digest(digests[-1], self.steps[len(digests) - 1]))
        return digests[step - self.first]

    def state(self, step: int) -> GraphState:
        """Return S(step)."""
        if step == self.first:
            return self.start
        working = self._initial_working_state()
        for done in self.steps[: step - self.first]:
            self._apply(working, done)
        return self.state_of(working, step)

    def states(self) -> Iterator[GraphState]:
        """Yield S(first), S(first + 1), and so on, in one pass."""
        yield self.start
        working = self._initial_working_state()
        for done in self.steps:
            self._apply(working, done)
            yield self.state_of(working, done.number)

    def state_of(self, working: WorkingState, step: int) -> GraphState:
        """Return a working state of this chain as a GraphState."""
        return assemble(
            values=working.plain_values(),
            versions=working.plain_versions(),
            decisions=dict(working.decisions),
            terminated=working.terminated,
            position=working.position(step=step, seed=self.seed, began=position_of(self.start).began),
            history=lambda: self.history(step),
            digest=lambda: self.digest(step),
        )

    def history(self, step: int) -> Mapping[str, NodeExecution]:
        """Return the latest execution of each node up to S(step)."""
        found = dict(self.start.node_history)
        working = self._initial_working_state()
        for done in self.steps[: step - self.first]:
            for execution in executions_of(self.program, working, done, self._on_conflict):
                found[execution.node_name] = execution
        return found

    def last_run(self, node: str, step: int) -> Ran | None:
        """Return when a node last ran up to S(step) and what it wrote."""
        for position in range(step - self.first - 1, -1, -1):
            done = self.steps[position]
            wrote = [outcome.update for outcome in done.outcomes if outcome.node == node]
            if wrote:
                return Ran(done.number, frozenset().union(*wrote))
        record = self.start.node_history.get(node)
        return None if record is None else Ran(record.step, record.output_versions)

    def failures(self) -> list[tuple[tuple[int, ...], Failure]]:
        """Return the confined and rescued failures of the chain, in order."""
        index = self.program.index
        return [
            ((step.number, index.get(outcome.node, -1), max(outcome.index, 0)), failure)
            for step in self.steps
            for outcome in step.outcomes
            for failure in outcome.failures_in(step)
        ]

    def executions(self) -> Iterator[NodeExecution]:
        """Yield every execution of the chain, in order."""
        working = self._initial_working_state()
        for done in self.steps:
            yield from executions_of(self.program, working, done, self._on_conflict)

    def _apply(self, working: WorkingState, step: Step) -> None:
        _known(self.program, step)
        apply_step(working, step, self._on_conflict)

    def _initial_working_state(self) -> WorkingState:
        return WorkingState.restore(self.program, self.start)
