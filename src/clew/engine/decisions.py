"""Pending decisions of gates: selections and Sends that no node has consumed yet, and when a gate withdraws them.

*A gate holds one selection: the last.* The rules apply to every node that decides (``route``, ``ifelse``, ``goto``):

- When a plain item of a gate runs, it withdraws all unconsumed selections of earlier plain items of that gate, then
  records its own decision. END, an empty decision and a confined failure withdraw as well.
- Sends accumulate over the turns of a loop. A new decision withdraws only what the gate sent in the same turn. A Send
  becomes *final* when a turn of a loop that contains its gate begins. It is final at once if another node begins that
  turn in the step in which the gate sends, or if the gate is eager.
- Items created by Sends are independent: their decisions are final, and they withdraw nothing.
- The decisions of the items of one batch accumulate.

A run without changes from outside therefore loses no Send. After a fork or a manual write, a gate that decides again
replaces its pending decision, including its Sends.

A pending decision is a bit in the wake of its target (`Mark` in ``clew.engine.program``); a Send also has an entry in
`WorkingState.sends`. The functions here modify a working state; only `decide` and `decide_by_hand` add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.engine.program import CHOSEN
from clew.engine.records import Choice, Outcome
from clew.errors import InputError
from clew.graph import Send
from clew.state import Position

if TYPE_CHECKING:
    from clew.engine.working_state import WorkingState


Sent = tuple[int, Mapping[str, Any], bool]
"""A pending Send: the gate, the payload, and whether it is final. A plain tuple, since there may be thousands."""


class BatchStart(NamedTuple):
    """How a batch starts: whether its first item is plain, and the loop of which it starts a turn."""

    is_plain: bool
    turn: int | None


class Withdrawal(NamedTuple):
    """The decision that a plain item of a gate withdraws: the outcome of the item and the withdrawn choices."""

    outcome: Outcome
    choices: tuple[Choice, ...]

    @property
    def lost(self) -> tuple[Choice, ...]:
        """Return the withdrawn choices that the item does not make again."""
        again = self.outcome.decision or ()
        return tuple(choice for choice in self.choices if isinstance(choice, Send) or choice not in again)


PLAIN_START = BatchStart(True, None)
_GATE = itemgetter(0)


# -- deciding ------------------------------------------------------------------------------------------------


def has_send(outcomes: Sequence[Outcome]) -> bool:
    """Return whether one of the outcomes contains a Send."""
    return any(isinstance(choice, Send) for outcome in outcomes for choice in outcome.decision or ())


def record(working: WorkingState, outcomes: Sequence[Outcome], starts: Mapping[int, BatchStart]) -> None:
    """Record the decisions of a step, after its nodes have withdrawn their earlier decisions."""
    program = working.program
    turned = 0  # nodes of the loops of which a turn begins in this step
    for start in starts.values():
        if start.turn is not None:
            turned |= program.topology.loop_masks[start.turn]
    for outcome in outcomes:
        if outcome.decision or outcome.node in working.decisions:
            gate = program.index[outcome.node]
            start = starts[gate]
            from_send = outcome.index > 0 or not start.is_plain
            if outcome.decision:
                is_over = start.turn is None and bool(turned >> gate & 1)
                decide(working, gate, outcome.decision, from_send, is_over)
            elif not from_send:
                del working.decisions[outcome.node]


def record_one(
    working: WorkingState, gate: int, decision: tuple[Choice, ...] | None, *, from_send: bool
) -> None:
    """Withdraw and record for the only item of a step.

    Most items select one target while no Send is pending; that case comes first.
    """
    choices = working.program.choices[gate]
    name = working.program.names[gate]
    if decision and len(decision) == 1 and choices is not None and not from_send and not working.sends:
        (choice,) = decision
        if isinstance(choice, str):
            target, bits, others = choices[choice]
            if others and any(working.wakes[other] & theirs for other, theirs in others):
                withdraw(working, gate)
            working.decisions[name] = choice
            if target < 0:
                working.terminated = True
            else:
                working.wakes[target] |= bits
                working.update_due(target)
            return
    if not from_send:
        withdraw(working, gate)
        working.decisions.pop(name, None)
    if decision:
        decide(working, gate, decision, from_send)


def decide(
    working: WorkingState,
    gate: int,
    decision: tuple[Choice, ...],
    from_send: bool,
    turn_is_over: bool = False,
) -> None:
    """Record the decision of an item of a gate. `from_send` is true if a Send created the item."""
    program = working.program
    node, marks = program.nodes[gate], program.marks[gate]
    sent: dict[str, list[Mapping[str, Any]]] = {}
    for choice in decision:
        if isinstance(choice, Send):
            sent.setdefault(choice.target, []).append(choice.payload)
        elif choice == "END":
            working.terminated = True
        else:
            target, selected, _, selected_final, _ = marks[choice]
            working.wakes[target] |= CHOSEN | (selected_final if from_send else selected)
            working.update_due(target)
    for name, payloads in sent.items():
        mark = marks[name]
        is_final = from_send or turn_is_over or node.eager
        working.wakes[mark.target] |= mark.sent_final if is_final else mark.sent
        pending = [*working.sends.get(mark.target, ()), *[(gate, payload, is_final) for payload in payloads]]
        working.sends[mark.target] = tuple(sorted(pending, key=_GATE))  # in the order sent, of each gate
        working.update_due(mark.target)
    first = decision[0]
    if len(decision) == 1 and not isinstance(first, Send) and not node.multi:
        working.decisions[node.name] = first
    else:
        working.decisions[node.name] = tuple(c.target if isinstance(c, Send) else c for c in decision)


def decide_by_hand(working: WorkingState, name: str) -> None:
    """Replace the decision of a gate by one that was written into the state by hand."""
    node = working.program.graph.nodes.get(name)
    decided = working.decisions.get(name, ())  # empty if the decision selects nothing
    targets = (decided,) if isinstance(decided, str) else decided
    if node is None or not node.targets:
        raise InputError(f"the state records a decision of {name!r}, but the graph has no such gate")
    for target in targets:
        if target not in node.targets:
            raise InputError(
                f"the state records that {name!r} chose {target!r}, but its targets are {', '.join(node.targets)}"
            )
    gate = working.program.index[name]
    withdraw(working, gate)
    for target in targets:
        if target != "END":
            mark = working.program.marks[gate][target]
            working.wakes[mark.target] |= CHOSEN | mark.selected
            working.update_due(mark.target)


# -- withdrawing ---------------------------------------------------------------------------------------------


def withdraw(working: WorkingState, gate: int) -> None:
    """Withdraw the unconsumed decisions of a gate that are not final."""
    wakes, selections = working.wakes, working.program.selections
    for target, bits in working.program.withdrawable[gate] or ():
        wake = wakes[target]
        if wake & bits:
            wake &= ~bits
            wakes[target] = wake if wake & selections[target] else wake & ~CHOSEN
            if target in working.sends:
                remaining = tuple(sent for sent in working.sends[target] if sent[0] != gate or sent[2])
                if remaining:
                    working.sends[target] = remaining
                else:
                    del working.sends[target]
            working.update_due(target)


def begin_turn(working: WorkingState, loop: int) -> None:
    """Mark the Sends of the gates of a loop as final, because a new turn of the loop begins."""
    members, marks = working.program.topology.loop_masks[loop], working.program.marks
    for target, sends in working.sends.items():
        name = working.program.names[target]
        gates = {gate for gate, _, is_final in sends if not is_final and members >> gate & 1}
        for gate in gates:
            mark = marks[gate][name]
            working.wakes[target] = working.wakes[target] & ~mark.sent | mark.sent_final
        if gates:
            working.sends[target] = tuple(
                (gate, payload, is_final or gate in gates) for gate, payload, is_final in sends
            )


def withdrawals(working: WorkingState, outcomes: Iterable[Outcome]) -> list[Withdrawal]:
    """Return what the next step withdraws, given its outcomes. Does not change the working state."""
    program = working.program
    firsts: dict[int, Outcome] = {}
    for outcome in outcomes:
        if outcome.node:
            firsts.setdefault(program.index[outcome.node], outcome)
    starts = working.starts(firsts)
    gates = [
        gate
        for gate, start in starts.items()
        if start.is_plain and any(working.wakes[t] & bits for t, bits in program.withdrawable[gate] or ())
    ]
    if not gates:
        return []
    after = working.branch()
    after.spend(starts)
    found = [Withdrawal(firsts[gate], _withdrawable(after, gate)) for gate in gates]
    return [withdrawal for withdrawal in found if withdrawal.choices]


def _withdrawable(working: WorkingState, gate: int) -> tuple[Choice, ...]:
    choices: list[Choice] = []
    for name, mark in working.program.marks[gate].items():
        if working.wakes[mark.target] & mark.selected:
            choices.append(name)
        choices += [
            Send(name, payload)
            for sender, payload, is_final in working.sends.get(mark.target, ())
            if sender == gate and not is_final
        ]
    return tuple(choices)


# -- as a state ----------------------------------------------------------------------------------------------


def selections(working: WorkingState) -> dict[str, tuple[tuple[str, bool], ...]]:
    """Return for each node the gates that have selected it, and whether the selection is final."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for gate, marks in enumerate(working.program.marks):
        for name, mark in marks.items():
            wake = working.wakes[mark.target]
            for is_final, bit in ((False, mark.selected), (True, mark.selected_final)):
                if wake & bit:
                    found.setdefault(name, []).append((working.program.names[gate], is_final))
    return {name: tuple(gates) for name, gates in found.items()}


def restore(working: WorkingState, position: Position) -> None:
    """Restore the pending decisions of a state. Decisions for a node that is no longer a target become final."""
    index, marks, wakes = working.program.index, working.program.marks, working.wakes
    for name, gates in position.selections.items():
        for gate, is_final in gates:
            if (mark := marks[index[gate]].get(name)) is not None:
                wakes[mark.target] |= mark.selected_final if is_final else mark.selected
    working.sends = {}
    for name, sends in position.sends.items():
        pending = []
        for gate, payload, is_final in sends:
            if (mark := marks[index[gate]].get(name)) is not None:
                wakes[mark.target] |= mark.sent_final if is_final else mark.sent
            pending.append((index[gate], payload, is_final or mark is None))
        working.sends[index[name]] = tuple(pending)
