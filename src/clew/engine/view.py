"""The state of one strand after a step: values, versions, and why each node is woken.

`View.apply` is the only place where a step takes effect: it merges the updates in order, then sets the wakes
that follow (see ``clew.engine.rules``). The machine applies committed steps in place. To plan ahead it takes a
`branch`, which shares everything with its origin and keeps what it changes to itself; the origin may move on
meanwhile, because it only ever moves to where the branch already is.

Merging comes in two phases, so that a reducer that raises or a conflict leaves the view as it was. A list that takes
an appended message is not copied if nobody but this view holds it (``clew.state.reducers``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from clew.engine import decisions
from clew.engine.decisions import PLAIN_START, BatchStart, Sent
from clew.engine.overlay import Overlay, branch_of
from clew.engine.records import Choice, Outcome
from clew.engine.rules import CHOSEN, FORWARD, WOKEN, Program
from clew.errors import ConflictError, OutputError
from clew.state import GraphState, Overwrite, Position
from clew.state.reducers import Reducer, fold, grow, may_grow


class MergeFailure(Exception):
    """A reducer raised: which outcome it was given, and what it raised."""

    def __init__(self, outcome: Outcome, value: str, error: Exception) -> None:
        super().__init__(outcome, value, error)
        self.outcome = outcome
        self.value = value
        self.error = error


_GROWING = (list, dict, set, bytearray)


def _edited(name: str, reducer: Callable[[Any, Any], Any]) -> OutputError:
    called = getattr(reducer, "__qualname__", repr(reducer))
    return OutputError(
        f"the reducer {called} of {name!r} changed the value in the state in place, which would change the past; "
        f"let it return a new value (for a list: [*current, *update])"
    )


class View:
    """Values, versions and wakes of a strand at one step. Nodes are numbers, values are names."""

    __slots__ = (
        "blocked",
        "decisions",
        "due",
        "failed",
        "missing",
        "program",
        "sends",
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
    visits: Any  # node -> batches so far; likewise
    missing: Any  # node -> how many required inputs are not there; likewise
    due: set[int]
    sends: dict[int, tuple[Sent, ...]]  # node -> what was sent to it and is pending
    decisions: dict[str, str | tuple[str, ...]]
    terminated: bool
    failed: frozenset[int]  # nodes whose failure was confined
    blocked: frozenset[int]  # these, and what is downstream of them

    @classmethod
    def begin(cls, program: Program, values: Mapping[str, Any]) -> View:
        """S(0) of a new run."""
        self = cls()
        self.program = program
        self.values = dict(values)
        self.versions = dict.fromkeys(values, 0)
        self.wakes = program.first_wakes.copy()
        self.visits = [0] * len(program.nodes)
        self.sends = {}
        self.decisions = {}
        self.terminated = False
        self.failed = self.blocked = frozenset()
        first = program.first
        if first is None or first[0] != self.versions.keys():
            self._look()
            program.first = (frozenset(values), self.missing.copy(), self.due.copy())
        else:
            self.missing, self.due = first[1].copy(), first[2].copy()
        return self

    @classmethod
    def restore(cls, program: Program, state: GraphState) -> View:
        """Where `state` stands; what was written by hand since then wakes its readers."""
        self = cls()
        position = state.position
        index = program.index
        self.program = program
        self.values = dict(state.values)
        self.versions = dict(state.versions)
        self.visits = [position.visits.get(name, 0) for name in program.names]
        # a node that never ran still has its first wake; a state made by hand does not say so
        self.wakes = [
            position.wakes.get(name, 0) & program.unmarked | (0 if visits else first)
            for name, visits, first in zip(program.names, self.visits, program.first_wakes, strict=True)
        ]
        decisions.restore(self, position)
        self.decisions = dict(state.gate_decisions)
        self.terminated = state.terminated
        self.failed = frozenset(index[name] for name in position.failed)
        self.blocked = frozenset().union(*(program.downstream(node) for node in self.failed))
        history = state.node_history
        for value in position.touched:
            for i in program.outside_wakes.get(value, ()):
                record = history.get(program.names[i])
                if record is not None and record.input_versions.get(value) != self.versions[value]:
                    self.wakes[i] |= WOKEN | FORWARD
        self._look()
        for name in sorted(position.decided):
            decisions.decide_by_hand(self, name)
        return self

    def _look(self) -> None:
        self.missing = [
            sum(not self.has(value) for value in needs) if needs else 0 for needs in self.program.needs
        ]
        self.due = set()
        wakes = self.wakes
        for i in range(len(self.program.nodes)):
            if wakes[i] or i in self.sends:
                self.judge(i)

    def branch(self) -> View:
        """A view that can be moved on without moving this one."""
        other = View()
        other.program = self.program
        other.values = branch_of(self.values)
        other.versions = branch_of(self.versions)
        other.wakes = branch_of(self.wakes)
        other.visits = branch_of(self.visits)
        other.missing = branch_of(self.missing)
        other.due = self.due.copy()
        other.sends = self.sends.copy()
        other.decisions = self.decisions.copy()
        other.terminated = self.terminated
        other.failed, other.blocked = self.failed, self.blocked
        return other

    # -- what is due -------------------------------------------------------------------------------------

    def has(self, value: str) -> bool:
        """Given or written; a schema default counts only where the rules say so."""
        version = self.versions.get(value)
        if version is None:
            return False
        return version > 0 or value not in self.program.weak or value in self.program.given

    def judge(self, node: int) -> None:
        """Put `node` among the due, or take it away."""
        wake = self.wakes[node]
        sends = self.sends.get(node)
        if not self.missing[node]:
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
        """Whether the batch of this due node begins with a plain item."""
        return not self.missing[node] and self.wakes[node] & (WOKEN | CHOSEN) != 0

    def stalled(self) -> dict[int, tuple[str, ...]]:
        """Nodes that were selected or sent to, and the inputs that they lack."""
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

    def lacking(self, node: int) -> tuple[str, ...]:
        """The inputs that `node` still needs."""
        return tuple(value for value in self.program.needs[node] if not self.has(value))

    # -- a step takes effect -----------------------------------------------------------------------------

    def starts(self, nodes: Iterable[int]) -> dict[int, BatchStart]:
        """Say how the batches of these nodes start if they run next."""
        if not self.program.has_gates:
            return dict.fromkeys(nodes, PLAIN_START)  # nothing is sent, and turns matter to Sends alone
        turn_of, wakes = self.program.turn_of, self.wakes
        return {node: BatchStart(self.has_plain_item(node), turn_of(node, wakes[node])) for node in nodes}

    def spend(self, starts: Mapping[int, BatchStart]) -> None:
        """Clear whatever woke these nodes, which run in the step, and let the turns begin that they start."""
        for node, start in starts.items():
            self.wakes[node] = 0
            self.visits[node] += 1
            self.due.discard(node)
            self.sends.pop(node, None)
            if start.turn is not None and self.sends:
                decisions.begin_turn(self, start.turn)

    def consume(self, starts: Mapping[int, BatchStart]) -> None:
        """`spend`, and withdraw what those of the nodes have decided that decide anew."""
        self.spend(starts)
        for node, start in starts.items():
            if start.is_plain and self.program.withdrawable[node]:
                decisions.withdraw(self, node)

    def apply(
        self,
        outcomes: Sequence[Outcome],
        *,
        on_conflict: str = "error",
        consumed: Mapping[int, BatchStart] | None = None,
    ) -> None:
        """Let a step take effect: `outcomes` are in order of declaration and index.

        `consumed`: the batches that were consumed before, together with others of the step that have not finished.
        """
        if len(outcomes) == 1 and consumed is None:
            outcome = outcomes[0]
            fresh = self._merge_one(outcome) if self.program.reducers else outcome.update
            node = self.program.index[outcome.node]
            if outcome.error is not None:
                self._block(node)
            self.install(node, fresh, outcome.decision)
        else:
            fresh, counts = self._merge(outcomes, on_conflict)
            self._install(outcomes, fresh, counts, consumed)

    def merged(self, node: str, update: Mapping[str, Any]) -> Mapping[str, Any]:
        """The new values that one update makes. They are to be installed: a list may have grown in place."""
        return self._merge_one(Outcome(node, 0, -1, update))

    def _merge_one(self, outcome: Outcome) -> dict[str, Any]:
        reducers = self.program.reducers
        fresh: dict[str, Any] = {}
        growing: list[str] = []
        values, may = self.values, type(self.values) is dict  # a branch must not change what its origin holds
        for name, update in outcome.update.items():
            reducer = reducers.get(name)
            if reducer is None:
                fresh[name] = update
            elif may and may_grow(reducer, values, name, (update,)):
                growing.append(name)
            else:
                fresh[name] = self._reduce(outcome, name, reducer, values, update)
        for name in growing:  # now that no reducer can raise any more
            fresh[name] = grow(reducers[name], values, name, (outcome.update[name],))
        return fresh

    def _reduce(
        self,
        outcome: Outcome,
        name: str,
        reducer: Callable[[Any, Any], Any],
        values: Mapping[str, Any],
        update: Any,
    ) -> Any:
        if type(update) is Overwrite:
            return update.value
        current = values[name]
        size = len(current) if type(current) in _GROWING else -1
        try:
            merged = reducer(current, update)
        except Exception as error:
            raise MergeFailure(outcome, name, error) from error
        if size >= 0 and len(current) != size:
            raise MergeFailure(outcome, name, _edited(name, reducer))
        return merged

    def _merge(self, outcomes: Sequence[Outcome], on_conflict: str) -> tuple[dict[str, Any], dict[str, int]]:
        """The new values and how often each was written. They are to be installed, as those of `merged`."""
        reducers = self.program.reducers
        growing: list[tuple[str, list[Any]]] = []
        may = type(self.values) is dict
        fresh: dict[str, Any] = {}
        counts: dict[str, int] = {}
        writers: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            for name, update in outcome.update.items():
                if name in writers:
                    writers[name].append(outcome)
                else:
                    writers[name] = [outcome]
                fresh[name] = update
        for name, many in writers.items():
            counts[name] = len(many)
            reducer = reducers.get(name)
            if reducer is not None:
                updates = [outcome.update[name] for outcome in many]
                if may and may_grow(reducer, self.values, name, updates):
                    growing.append((name, updates))
                else:
                    fresh[name] = self._fold(name, reducer, many)
            elif len(many) > 1 and on_conflict != "last":
                raise ConflictError(
                    f"{many[0].path} and {many[1].path} both wrote {name!r} in one step; give {name!r} a reducer "
                    f"(Annotated[..., clew.append] in the state schema), put one after the other, or run with "
                    f'on_conflict="last"'
                )
        for name, updates in growing:
            fresh[name] = grow(reducers[name], self.values, name, updates)
        return fresh, counts

    def _fold(self, name: str, reducer: Reducer, outcomes: Sequence[Outcome]) -> Any:
        current = self.values[name]
        size = len(current) if type(current) in _GROWING else -1
        try:
            merged = fold(reducer, current, [outcome.update[name] for outcome in outcomes])
            if size >= 0 and len(current) != size:
                raise MergeFailure(outcomes[0], name, _edited(name, reducer))
            return merged
        except MergeFailure:
            raise
        except Exception:  # one by one, to find whose update it was
            value = self.values[name]
            for outcome in outcomes:
                value = self._reduce(outcome, name, reducer, {name: value}, outcome.update[name])
            return value

    def install(self, node: int, fresh: Mapping[str, Any], decision: tuple[Choice, ...] | None) -> None:
        """`_install` for the step of one item, which is most steps: `fresh` are the new values, merged."""
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
                versions[name] = 1  # before judging: a Send is judged by what is there beside its payload
                for reader in program.needers.get(name, ()):
                    missing[reader] -= 1
                    if wakes[reader] or reader in sends:
                        self.judge(reader)
            else:
                versions[name] = version + 1
            for reader, bits in readers.get(name, ()):
                if bits and visits[reader]:
                    wakes[reader] |= bits
                    self.judge(reader)
        for target, bits in program.control_wakes[node]:
            wakes[target] |= bits
            self.judge(target)
        if program.withdrawable[node] is not None:  # a node that decides
            decisions.record_one(self, node, decision, from_send=sent is not None)

    def _install(
        self,
        outcomes: Sequence[Outcome],
        fresh: Mapping[str, Any],
        counts: Mapping[str, int],
        consumed: Mapping[int, BatchStart] | None,
    ) -> None:
        program = self.program
        wakes, versions, visits, sends = self.wakes, self.versions, self.visits, self.sends
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
        changed: set[int] = set()
        for name, value in fresh.items():
            self.values[name] = value.value if type(value) is Overwrite else value
            version = versions.get(name)
            if version is None or (version == 0 and name in program.weak and name not in program.given):
                for reader in program.needers.get(name, ()):
                    self.missing[reader] -= 1
                    changed.add(reader)
            versions[name] = (version or 0) + counts[name]
        written: set[tuple[int, str]] = set()
        for outcome in outcomes:
            node = index[outcome.node]
            readers = program.data_readers[node]
            for name in outcome.update:
                if (node, name) not in written:
                    written.add((node, name))
                    for reader, bits in readers.get(name, ()):
                        if bits and visits[reader]:
                            wakes[reader] |= bits
                            changed.add(reader)
        for node in ran:
            for target, bits in program.control_wakes[node]:
                wakes[target] |= bits
                changed.add(target)
        for reader in changed:
            if wakes[reader] or reader in sends:
                self.judge(reader)
        decisions.record(self, outcomes, consumed)

    def _block(self, node: int) -> None:
        self.failed |= {node}
        self.blocked |= self.program.downstream(node)
        for i in self.blocked:
            self.due.discard(i)

    def advance(self, outcomes: Sequence[Outcome]) -> None:
        """Let a step take effect without its values: for a reader that asks what was due and why."""
        counts = Counter(name for outcome in outcomes for name in outcome.update)
        self._install(outcomes, dict.fromkeys(counts), counts, None)

    # -- as a state --------------------------------------------------------------------------------------

    def position(self, *, step: int, seed: int) -> Position:
        """Where this view stands, for a state that can go on from here."""
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
            sends={
                names[i]: tuple((names[gate], payload, is_final) for gate, payload, is_final in sends)
                for i, sends in self.sends.items()
                if sends
            },
            failed=frozenset(names[i] for i in self.failed),
        )

    def plain_values(self) -> dict[str, Any]:
        """The values as a dict of its own."""
        return self.values.plain() if isinstance(self.values, Overlay) else dict(self.values)

    def plain_versions(self) -> dict[str, int]:
        """The versions as a dict of its own."""
        return self.versions.plain() if isinstance(self.versions, Overlay) else dict(self.versions)
