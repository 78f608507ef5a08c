"""The state of one frame after a step: values, versions, and the wake of each node.

`WorkingState.apply` is the only place where a step takes effect: it merges the updates in order, then sets the
resulting wakes (see ``clew.engine.program``). The machine applies committed steps in place. Lookahead uses a `branch`,
which shares everything with its origin and stores its own changes. The origin may advance concurrently, because it only
advances to where the branch already is.

Merging comes before installing (``clew.engine.updates.merge``), so a reducer that raises or a conflict changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from clew.engine import decisions
from clew.engine.decisions import PLAIN_START, BatchStart, Sent
from clew.engine.overlay import Overlay, branch_of
from clew.engine.program import CHOSEN, FORWARD, WOKEN, Program
from clew.engine.records import Choice, Outcome
from clew.engine.updates.deltas import NO_DELTAS, Delta
from clew.engine.updates.merge import UNFINISHED, merge_all, merge_lookahead, merge_one
from clew.state import GraphState, Overwrite, Position, position_of


class WorkingState:
    """Values, versions and wakes of a frame at one step. Nodes are numbers, values are names."""

    __slots__ = (
        "blocked",
        "decisions",
        "due",
        "failed",
        "missing",
        "program",
        "sends",
        "stopped",
        "terminated",
        "values",
        "versions",
        "visits",
        "wakes",
    )

    program: Program
    values: dict[str, Any]
    versions: dict[str, int]
    wakes: Any  # node -> bits; a list, or an overlay of one
    visits: Any  # node -> number of batches so far; likewise
    missing: Any  # node -> number of missing required inputs; likewise
    due: set[int]
    sends: dict[int, tuple[Sent, ...]]  # node -> pending Sends
    decisions: dict[str, str | tuple[str, ...]]
    terminated: bool
    stopped: bool  # marked as terminated by hand: nothing runs from here
    failed: frozenset[int]  # nodes whose failure was confined
    blocked: frozenset[int]  # these, and the nodes downstream of them

    @classmethod
    def begin(cls, program: Program, values: Mapping[str, Any]) -> WorkingState:
        """Return S(0) of a new run."""
        self = cls()
        self.program = program
        self.values = dict(values)
        self.versions = dict.fromkeys(values, 0)
        self.wakes = program.first_wakes.copy()
        self.visits = [0] * len(program.nodes)
        self.sends = {}
        self.decisions = {}
        self.terminated = self.stopped = False
        self.failed = self.blocked = frozenset()
        first = program.first
        if first is None or first[0] != self.versions.keys():
            self._find_due()
            program.first = (frozenset(values), self.missing.copy(), self.due.copy())
        else:
            self.missing, self.due = first[1].copy(), first[2].copy()
        return self

    @classmethod
    def restore(cls, program: Program, state: GraphState) -> WorkingState:
        """Return the working state of a GraphState; values written by hand since then wake their readers."""
        self = cls()
        position = position_of(state)
        index = program.index
        self.program = program
        self.values = dict(state.values)
        self.versions = dict(state.versions)
        self.visits = [position.visits.get(name, 0) for name in program.names]
        # a node that never ran keeps its first wake, which a state built by hand does not contain
        self.wakes = [
            position.wakes.get(name, 0) & program.unmarked | (0 if visits else first)
            for name, visits, first in zip(program.names, self.visits, program.first_wakes, strict=True)
        ]
        self._restore_arrivals(position)
        decisions.restore(self, position)
        self.decisions = dict(state.gate_decisions)
        self.terminated, self.stopped = state.has_chosen_end, position.stopped
        self.failed = frozenset(index[name] for name in position.failed)
        self.blocked = frozenset().union(*(program.downstream(node) for node in self.failed))
        history = state.node_history
        for value in position.touched:
            for i in program.outside_wakes.get(value, ()):
                record = history.get(program.names[i])
                if record is not None and record.input_versions.get(value) != self.versions[value]:
                    self.wakes[i] |= WOKEN | FORWARD
        self._find_due()
        for name in sorted(position.decided):
            decisions.decide_by_hand(self, name)
        if self.stopped:
            self.due.clear()  # including decisions by hand
        return self

    def _restore_arrivals(self, position: Position) -> None:
        """Set the bits of the nodes that have run since the last run of a join."""
        index = self.program.index
        for name, sources in position.arrived.items():
            bits = self.program.join_bits[index[name]] if name in index else {}
            for source in sources:
                self.wakes[index[name]] |= bits.get(index.get(source, -1), 0) if bits else 0

    def _find_due(self) -> None:
        self.missing = [
            sum(not self.has(value) for value in needs) if needs else 0 for needs in self.program.needs
        ]
        self.due = set()
        if self.stopped:
            return
        wakes = self.wakes
        for i in range(len(self.program.nodes)):
            if wakes[i] or i in self.sends:
                self.update_due(i)

    def branch(self) -> WorkingState:
        """Return a copy-on-write branch."""
        other = WorkingState()
        other.program = self.program
        other.values = branch_of(self.values)
        other.versions = branch_of(self.versions)
        other.wakes = branch_of(self.wakes)
        other.visits = branch_of(self.visits)
        other.missing = branch_of(self.missing)
        other.due = self.due.copy()
        other.sends = self.sends.copy()
        other.decisions = self.decisions.copy()
        other.terminated, other.stopped = self.terminated, self.stopped
        other.failed, other.blocked = self.failed, self.blocked
        return other

    # -- what is due -------------------------------------------------------------------------------------

    def has(self, value: str) -> bool:
        """Return whether a value was given or written; a schema default counts only where the rules allow it."""
        version = self.versions.get(value)
        if version is None:
            return False
        return version > 0 or value not in self.program.weak or value in self.program.given

    def update_due(self, node: int) -> None:
        """Add `node` to the due nodes, or remove it."""
        wake = self.wakes[node]
        sends = self.sends.get(node)
        joins = self.program.joins[node]
        if joins and wake & joins != joins:
            is_due = False
        elif not self.missing[node]:
            is_due = bool(sends) or wake & (WOKEN | CHOSEN) != 0
        elif sends:
            is_due = not wake & CHOSEN and not any(
                value not in payload for value in self.lacking(node) for _, payload, _ in sends
            )
        else:
            is_due = False
        if is_due and node not in self.blocked:
            self.due.add(node)
        else:
            self.due.discard(node)

    def has_plain_item(self, node: int) -> bool:
        """Return whether the batch of this due node begins with a plain item."""
        return not self.missing[node] and self.wakes[node] & (WOKEN | CHOSEN) != 0

    def stalled(self) -> dict[int, tuple[str, ...]]:
        """Return the nodes that were selected or sent to, with their missing inputs."""
        if self.stopped:
            return {}
        found: dict[int, tuple[str, ...]] = {}
        for i in range(len(self.program.nodes)) if self.program.has_gates else ():
            if i in self.blocked or i in self.due:
                continue
            payloads = [payload for _, payload, _ in self.sends.get(i, ())]
            if self.wakes[i] & CHOSEN:
                payloads.append({})
            if payloads:
                lacking = self.lacking(i)
                found[i] = tuple(v for v in lacking if not all(v in payload for payload in payloads))
        return found

    def awaited(self, node: int) -> tuple[str, ...]:
        """Return the sources of a join that have not run since its last run."""
        names, wake = self.program.names, self.wakes[node]
        return tuple(
            [names[source] for source, bit in self.program.join_bits[node].items() if not wake & bit]
        )

    def lacking(self, node: int) -> tuple[str, ...]:
        """Return the missing inputs of `node`."""
        return tuple(value for value in self.program.needs[node] if not self.has(value))

    # -- applying a step -----------------------------------------------------------------------------

    def starts(self, nodes: Iterable[int]) -> dict[int, BatchStart]:
        """Return how the batches of these nodes start if they run next."""
        if not self.program.has_gates:
            return dict.fromkeys(nodes, PLAIN_START)  # turns matter only for Sends
        turn_of, wakes = self.program.turn_of, self.wakes
        return {node: BatchStart(self.has_plain_item(node), turn_of(node, wakes[node])) for node in nodes}

    def spend(self, starts: Mapping[int, BatchStart]) -> None:
        """Clear the wakes of these nodes, which run in the step, and begin the turns that they start."""
        for node, start in starts.items():
            self.wakes[node] = 0
            self.visits[node] += 1
            self.due.discard(node)
            self.sends.pop(node, None)
            if start.turn is not None and self.sends:
                decisions.begin_turn(self, start.turn)

    def consume(self, starts: Mapping[int, BatchStart]) -> None:
        """Call `spend`, and withdraw the decisions of nodes that decide again."""
        self.spend(starts)
        for node, start in starts.items():
            if start.is_plain and self.program.withdrawable[node]:
                decisions.withdraw(self, node)

    def apply(
        self,
        outcomes: Sequence[Outcome],
        *,
        on_conflict: str = "error",
        recorded: Mapping[str, Delta] | None = None,
    ) -> Mapping[str, Delta]:
        """Apply a step; `outcomes` are in order of declaration and index.

        Without `recorded`, commit the step: call reducers, and return the deltas of custom ones. With `recorded`, the
        deltas that the commit returned, read the step without calling custom reducers.
        """
        program, deltas = self.program, NO_DELTAS
        if len(outcomes) == 1:
            outcome = outcomes[0]
            fresh = outcome.update
            if program.reducers or recorded:
                fresh, deltas = merge_one(program, self.values, outcome, recorded)
            if outcome.by_hand:
                self._install_by_hand(outcome, fresh)
                return deltas
            node = program.index[outcome.node]
            if outcome.error is not None:
                self._block(node)
            self.install(node, fresh, outcome.decision)
        else:
            fresh, counts, deltas = merge_all(program, self.values, outcomes, on_conflict, recorded)
            self._install(outcomes, fresh, counts, None)
        return deltas

    def apply_lookahead(
        self,
        outcomes: Sequence[Outcome],
        *,
        on_conflict: str,
        consumed: Mapping[int, BatchStart],
        unfinished: Collection[str] = (),
    ) -> set[str]:
        """Apply the finished outcomes of a step to a branch, before its commit.

        `consumed` are batches that were consumed before, together with others that have not finished. Values that
        custom reducers still have to produce (in this step, or `unfinished` in an earlier one) keep their current
        value. Returns the names of those that the step writes.
        """
        fresh, counts = merge_lookahead(self.program, self.values, outcomes, on_conflict, unfinished)
        self._install(outcomes, fresh, counts, consumed)
        return {name for name, value in fresh.items() if value is UNFINISHED}

    def install(self, node: int, fresh: Mapping[str, Any], decision: tuple[Choice, ...] | None) -> None:
        """Install the result of a step with a single item; `fresh` are the merged new values."""
        program = self.program
        wakes, versions, visits, sends, due = self.wakes, self.versions, self.visits, self.sends, self.due
        sent = None
        if sends:
            sent = sends.pop(node, None)
            turn = program.turn_of(node, wakes[node])
            if turn is not None:
                decisions.begin_turn(self, turn)
        wakes[node] = 0
        visits[node] += 1
        due.discard(node)
        readers = program.data_readers[node]
        for name, value in fresh.items():
            self.values[name] = value.value if type(value) is Overwrite else value
            version = versions.get(name)
            if version is None or (version == 0 and name in program.weak and name not in program.given):
                missing = self.missing
                versions[name] = (
                    1  # before update_due: it checks which inputs of a Send exist outside its payload
                )
                for reader in program.needers.get(name, ()):
                    missing[reader] -= 1
                    if wakes[reader] or reader in sends:
                        self.update_due(reader)
            else:
                versions[name] = version + 1
            for reader, bits in readers.get(name, ()):
                if bits and visits[reader]:
                    wakes[reader] |= bits
                    self.update_due(reader)
        for target, bits in program.control_wakes[node]:
            wakes[target] |= bits
            self.update_due(target)
        if program.withdrawable[node] is not None:  # a node that decides
            decisions.record_one(self, node, decision, from_send=sent is not None)

    def _install(
        self,
        outcomes: Sequence[Outcome],
        fresh: Mapping[str, Any],
        counts: Mapping[str, int],
        consumed: Mapping[int, BatchStart] | None = None,
    ) -> None:
        program = self.program
        wakes, visits, sends = self.wakes, self.visits, self.sends
        index = program.index
        ran: dict[int, bool] = {}  # node -> all its items succeeded
        for outcome in outcomes:
            node = index[outcome.node]
            ran[node] = ran.get(node, True) and outcome.error is None
        if consumed is None:
            consumed = self.starts(ran)
            self.consume(consumed)
        for node, succeeded in ran.items():
            if not succeeded:
                self._block(node)
        changed = self._write(fresh, counts)
        written = dict.fromkeys(
            (index[outcome.node], name) for outcome in outcomes for name in outcome.update
        )
        for node, name in written:
            for reader, bits in program.data_readers[node].get(name, ()):
                if bits and visits[reader]:
                    wakes[reader] |= bits
                    changed.add(reader)
        for node in ran:
            for target, bits in program.control_wakes[node]:
                wakes[target] |= bits
                changed.add(target)
        for reader in changed:
            if wakes[reader] or reader in sends:
                self.update_due(reader)
        decisions.record(self, outcomes, consumed)

    def _write(self, fresh: Mapping[str, Any], counts: Mapping[str, int]) -> set[int]:
        """Write values, and count their versions. Return the nodes that had no value for an input before."""
        program, versions = self.program, self.versions
        changed: set[int] = set()
        for name, value in fresh.items():
            if value is UNFINISHED:
                self.values.pop(name, None)  # a branch sees the value of its origin, also after the commit
            else:
                self.values[name] = value.value if type(value) is Overwrite else value
            version = versions.get(name)
            if version is None or (version == 0 and name in program.weak and name not in program.given):
                for reader in program.needers.get(name, ()):
                    self.missing[reader] -= 1
                    changed.add(reader)
            versions[name] = (version or 0) + counts[name]
        return changed

    def _install_by_hand(self, outcome: Outcome, fresh: Mapping[str, Any]) -> None:
        """Install a step that a person made alone: see ``clew.engine.edits``."""
        if self.stopped:
            self.stopped = False
            self._find_due()
        if not outcome.node:
            for name, value in fresh.items():
                self.values[name] = value.value if type(value) is Overwrite else value
                self.count_outside_write(name)
            return
        node = self.program.index[outcome.node]
        if node in self.failed:
            self.failed -= {node}
            self.blocked = frozenset().union(*(self.program.downstream(other) for other in self.failed))
            self._find_due()
        self.sends.pop(node, None)  # the item is a plain one
        self.install(node, fresh, outcome.decision)

    def count_outside_write(self, name: str) -> None:
        """Count a write of a value from outside, and wake the nodes that have read it."""
        was_there = self.has(name)
        self.versions[name] = self.versions.get(name, 0) + 1
        for reader in () if was_there else self.program.needers.get(name, ()):
            self.missing[reader] -= 1
            self.update_due(reader)
        for reader in self.program.outside_wakes.get(name, ()):
            if self.visits[reader]:
                self.wakes[reader] |= WOKEN | FORWARD
                self.update_due(reader)

    def _block(self, node: int) -> None:
        self.failed |= {node}
        self.blocked |= self.program.downstream(node)
        for i in self.blocked:
            self.due.discard(i)

    def advance(self, outcomes: Sequence[Outcome]) -> None:
        """Apply a step without its values, to find out which nodes were due and why."""
        if len(outcomes) == 1 and outcomes[0].by_hand:
            self._install_by_hand(outcomes[0], dict.fromkeys(outcomes[0].update))
            return
        counts = Counter(name for outcome in outcomes for name in outcome.update)
        self._install(outcomes, dict.fromkeys(counts), counts, None)

    # -- as a state --------------------------------------------------------------------------------------

    def position(self, *, step: int, seed: int, began: int) -> Position:
        """Return the scheduling position as part of a GraphState, in a turn that began at this step."""
        names = self.program.names
        n = range(len(names))
        unmarked = self.program.unmarked
        return Position(
            step=step,
            seed=seed,
            given=self.program.given,
            visits={names[i]: self.visits[i] for i in n if self.visits[i]},
            wakes={names[i]: wake for i in n if (wake := self.wakes[i] & unmarked)},
            selections=decisions.selections(self),
            arrived={
                names[i]: arrived
                for i in n
                if (bits := self.program.join_bits[i])
                and (arrived := tuple([names[source] for source, bit in bits.items() if self.wakes[i] & bit]))
            },
            sends={
                names[i]: tuple((names[gate], payload, is_final) for gate, payload, is_final in sends)
                for i, sends in self.sends.items()
                if sends
            },
            failed=frozenset(names[i] for i in self.failed),
            stopped=self.stopped,
            began=began,
        )

    def plain_values(self) -> dict[str, Any]:
        """Return the values as a new dict."""
        return self.values.plain() if isinstance(self.values, Overlay) else dict(self.values)

    def plain_versions(self) -> dict[str, int]:
        """Return the versions as a new dict."""
        return self.versions.plain() if isinstance(self.versions, Overlay) else dict(self.versions)
