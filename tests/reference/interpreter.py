"""What runs next, and what a step does: the rules, executed literally on one run.

``interpret`` goes from S(0) through the steps until nothing is due. It looks at every node in every step and
keeps each reason for which a node is woken as its own record, so that a rule can be read off the code; it is
as slow as that sounds. Functions are named after the rules and quote them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .loops import CannotStart, Layout, Loop, analyse
from .model import DEFAULT, END, Broken, Decision, Late, MGraph, MNode, Refused, act

Status = Literal["completed", "failed", "refused"]
Payload = dict[str, Any]
Error = tuple[str, str | None]
"""The name of its type, and the node whose item failed, if it was one."""


@dataclass(frozen=True)
class Reason:
    """Why a node is woken: by which rule, and through a link from which node (none for rule 1).

    ``is_final``, for a decision or a Send: the gate's next decision does not withdraw it.
    """

    rule: Literal["first", "decision", "send", "control", "data"]
    source: str | None = None
    is_final: bool = False


@dataclass(frozen=True)
class Sent:
    """A Send that no run has consumed."""

    gate: str
    payload: Payload
    is_final: bool


@dataclass(frozen=True)
class Change:
    """What somebody changes in a state by hand: values that they write, and decisions of gates that they record."""

    values: Mapping[str, Any] = field(default_factory=dict)
    decisions: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    as_node: str | None = None
    """The values, and the decision of this node, are its next run, which a person makes up."""


Pending = tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, Payload, bool], ...]]
"""Of a node, what no run has consumed: who selected it, what was sent to it and by whom, each with whether it is
final."""


@dataclass(frozen=True)
class Item:
    """One item of a step. ``update`` is what it wrote, as given to the reducers, without what a cutoff
    stopped.
    """

    path: str
    node: str
    index: int
    update: dict[str, Any]
    decision: Decision
    error: str | None = None
    attempt: int = 0


@dataclass(frozen=True)
class Outcome:
    """A finished run. ``error`` is (type name, node); only an error of an item has a node. It is what stopped the run,
    or else the first of the ``confined`` errors.

    ``never_ran`` maps nodes to the inputs that they lacked. The status is "refused" when a loop cannot start: there is
    no run then.
    """

    status: Status
    error: tuple[str, str | None] | None
    chain: tuple[tuple[Item, ...], ...]
    values: dict[str, Any]
    versions: dict[str, int]
    decisions: dict[str, Any]
    terminated: bool
    pending: dict[str, Pending]
    never_ran: dict[str, tuple[str, ...]]
    visits: dict[str, int]
    confined: tuple[Error, ...] = ()

    @property
    def paths(self) -> list[list[str]]:
        return [[item.path for item in step] for step in self.chain]


@dataclass
class Run:
    """A state S(k) and all that a run keeps with it."""

    graph: MGraph
    layout: Layout
    given: frozenset[str]
    values: dict[str, Any]
    versions: dict[str, int]
    wakes: dict[str, set[Reason]]
    sends: dict[str, list[Sent]]
    visits: dict[str, int]
    decisions: dict[str, Any] = field(default_factory=dict)
    terminated: bool = False
    blocked: set[str] = field(default_factory=set)


def start(graph: MGraph, given: Mapping[str, Any], layout: Layout) -> Run:
    """S(0). "A field's default seeds the state"; "a value given or seeded at the start has version 0"."""
    values = {**graph.seeds, **given}
    run = Run(
        graph=graph,
        layout=layout,
        given=frozenset(given),
        values=copy.deepcopy(values),
        versions=dict.fromkeys(values, 0),
        wakes={name: set() for name in graph.names},
        sends={name: [] for name in graph.names},
        visits=dict.fromkeys(graph.names, 0),
    )
    for name in graph.names:  # rule 1: "it never ran, and no forward gate or control link points to it"
        if not layout.gates_forward_to(name) and not layout.controls_forward_to(name):
            run.wakes[name].add(Reason("first"))
    return run


# ---- due


def is_present(run: Run, value: str) -> bool:
    """C5. "A value counts as present if it was given or written, or it is a schema default that counts." """
    written = run.versions.get(value, 0) > 0
    return value in run.given or written or run.graph.seed_counts(value)


def lacks(run: Run, node: MNode, payload: Payload) -> tuple[str, ...]:
    """C5. "every input without default/bound is present"; "the same with its payload's names counted as
    present".
    """
    bound = dict(run.graph.bound)
    return tuple(v for v in node.required if v not in bound and v not in payload and not is_present(run, v))


def has_plain_decision(run: Run, name: str) -> bool:
    return any(reason.rule == "decision" for reason in run.wakes[name])


def has_plain_wake(run: Run, name: str) -> bool:
    """C5. "plain wakes (rules 1, 3, 4: a flag)"."""
    return any(reason.rule in ("first", "control", "data") for reason in run.wakes[name])


def batch_of(run: Run, name: str) -> list[tuple[bool, Payload]]:
    """C5. The items, as (is it a Send, payload), that the node would run now; none when it is not due.

    "If there is any decision (plain or Send) pending: due iff every pending decision is satisfied; the batch
    has a plain item if a plain decision is pending, or a plain wake is pending and satisfied. If there is
    none: due iff a plain wake is pending and satisfied; the batch is one plain item."
    """
    if name in run.blocked:
        return []
    node = run.graph.node(name)
    if not has_arrivals(run, node):
        return []
    plain_satisfied = not lacks(run, node, {})
    sends = [sent.payload for sent in in_order_sent(run, name)]
    if has_plain_decision(run, name) and not plain_satisfied:
        return []
    if any(lacks(run, node, payload) for payload in sends):
        return []
    plain = has_plain_decision(run, name) or (has_plain_wake(run, name) and plain_satisfied)
    return [(False, {})] * plain + [(True, payload) for payload in sends]


def has_arrivals(run: Run, node: MNode) -> bool:
    """A join "runs only when all of them have run since the last time"; whatever else wakes it waits for that."""
    return not node.is_join or all(Reason("control", source) in run.wakes[node.name] for source in node.after)


def in_order_sent(run: Run, name: str) -> list[Sent]:
    """C9. "by declaration index of the gate, then in the order sent"."""
    return sorted(run.sends[name], key=lambda sent: run.graph.names.index(sent.gate))


# ---- waits


def turn_started_by(run: Run, name: str) -> Loop | None:
    """C6. "X starts a turn iff all its present wake reasons are along back links; L is the outermost loop
    among those back links' loops."
    """
    pairs = [(reason.source, name) for reason in run.wakes[name]]
    loops = [run.layout.back.get(pair) for pair in pairs if pair[0] is not None]
    if len(loops) < len(pairs) or None in loops or not loops:
        return None
    return min((loop for loop in loops if loop is not None), key=lambda loop: loop.depth)


def waits_for(run: Run, x: str, y: str) -> bool:
    """C6. "X waits for Y (both due, X != Y) iff [ Y in Up(X), or (X starts a turn of loop L and Y is on L) ]
    and not (Y starts a turn of a loop that X is on, unless X starts a turn too: of the same loop with Y in Up(X), or
    of a loop around Y's). An eager node never waits."
    """
    if x == y or run.graph.node(x).eager:
        return False
    turn_of_x, turn_of_y = turn_started_by(run, x), turn_started_by(run, y)
    upstream = y in run.layout.upstream[x]
    ends_the_old_turn = turn_of_x is not None and y in turn_of_x.nodes
    belongs_to_the_next = turn_of_y is not None and x in turn_of_y.nodes
    if belongs_to_the_next and turn_of_x is not None and turn_of_y is not None:
        return upstream if turn_of_x is turn_of_y else turn_of_x.depth < turn_of_y.depth
    return (upstream or ends_the_old_turn) and not belongs_to_the_next


def due(run: Run) -> list[str]:
    return [name for name in run.graph.names if batch_of(run, name)]


def runs_next(run: Run) -> list[str]:
    """Rule: "a due node runs in the next step unless it waits". In declaration order."""
    all_due = due(run)
    return [x for x in all_due if not any(waits_for(run, x, y) for y in all_due)]


# ---- a step


def path_of(name: str, visit: int, index: int, batch: list[tuple[bool, Payload]]) -> str:
    """The index is shown unless the batch is one plain item."""
    alone = len(batch) == 1 and not batch[0][0]
    return f"{name}#{visit}" if alone else f"{name}#{visit}[{index}]"


def inputs_of(run: Run, node: MNode, payload: Payload) -> dict[str, Any]:
    """A payload overlays the state; then what the state holds, what is bound, the parameter's default."""
    bound = dict(run.graph.bound)
    seen = {
        value: payload[value] if value in payload else run.values.get(value, bound.get(value, DEFAULT))
        for value in node.reads
    }
    if node.reads_state:
        seen["state"] = sorted({**run.values, **payload}.items())
    return copy.deepcopy(seen)


def execute(run: Run, name: str) -> list[Item]:
    """Run the node's batch against S(k-1); nothing of the run changes."""
    node = run.graph.node(name)
    batch = batch_of(run, name)
    items = []
    for index, (_, payload) in enumerate(batch):
        path = path_of(name, run.visits[name], index, batch)
        for attempt in range(
            node.attempts
        ):  # "an item is tried again until it succeeds or max_attempts are spent"
            try:
                seen = inputs_of(run, node, payload)
                result = act(run.graph, node, run.visits[name], index, seen, attempt=attempt)
            except Broken as error:
                kind = "NodeTimeoutError" if isinstance(error, Late) else type(error).__name__
                item = Item(path, name, index, {}, None, kind, attempt)
            else:
                update = cut_off(run, node, result.update)
                item = Item(path, name, index, update, result.decision, attempt=attempt)
                break
        items.append(item)
    return items


def cut_off(run: Run, node: MNode, update: dict[str, Any]) -> dict[str, Any]:
    """C11. "an output without reducer that equals the value in S(k-1) is not written at all".

    A schema default that does not count is no value that anybody could have read, so it cuts nothing off.
    """
    if not node.cutoff:
        return update
    return {
        v: new
        for v, new in update.items()
        if v in run.graph.reducers or not is_present(run, v) or run.values[v] != new
    }


class Conflict(Exception):
    """C13. "Two items of one step that write one value without reducer"."""


class RefusedItem(Exception):
    """A reducer does not take what an item wrote: which one, and what the reducer raised."""

    def __init__(self, item: Item, error: Refused) -> None:
        self.item, self.error = item, error


def merged(run: Run, items: list[Item]) -> dict[str, Any]:
    """The new values of a step, each by itself, in the order in which they were first written."""
    values: dict[str, Any] = {}
    for value in dict.fromkeys(value for item in items for value in item.update):
        writers = [item for item in items if value in item.update]
        if value not in run.graph.reducers and len(writers) > 1:
            raise Conflict(value)
        for item in writers:
            if value not in run.graph.reducers:
                values[value] = item.update[value]
                continue
            try:
                values[value] = run.graph.reducer(values.get(value, run.values[value]), item.update[value])
            except Refused as error:
                raise RefusedItem(item, error) from error
    return values


def settled(run: Run, items: list[Item], on_error: str) -> tuple[list[Item], list[Error], bool]:
    """C14. What becomes of a step: its items, their errors, and whether it is committed.

    "An update that a reducer refuses fails the item that made it; what is left of the step is merged anew." "The step
    with a failed item is not committed" unless failures are confined.
    """
    while True:
        errors: list[Error] = [(item.error, item.node) for item in items if item.error is not None]
        if errors and on_error == "stop":
            return items, errors, False
        try:
            merged(run, items)
        except Conflict:
            return items, [("ConflictError", None), *errors], False
        except RefusedItem as refused:
            failed = replace(refused.item, update={}, decision=None, error=type(refused.error).__name__)
            items = [failed if item is refused.item else item for item in items]
        else:
            return items, errors, True


def commit(run: Run, items: list[Item]) -> None:
    """Make S(k) of S(k-1): consume, merge, record decisions, wake."""
    ran = list(dict.fromkeys(item.node for item in items))
    with_plain_item = [name for name in ran if not batch_of(run, name)[0][0]]
    turns = {name: turn for name in ran if (turn := turn_started_by(run, name)) is not None}
    for name in ran:  # C8: "all reasons of S(k-1) are cleared; then what happened in step k adds reasons"
        run.wakes[name].clear()
        run.sends[name].clear()
        run.visits[name] += 1
    for loop in turns.values():
        make_sends_final(run, loop)
    for name in with_plain_item:
        withdraw(run, name)
    run.values.update(merged(run, items))
    for item in items:
        count_writes(run, item)
        came_from_send = item.node not in with_plain_item or item.index > 0
        record_decision(run, item, came_from_send, turns)
    for item in items:
        for value in item.update:
            wake_readers(run, item.node, value)
    for source in ran:  # rule 3: "a node with a control link to it ran"
        for name in run.graph.names:
            if (source, name) in run.layout.links.control:
                run.wakes[name].add(Reason("control", source))
    for item in items:
        if item.error is not None:
            block(run, item.node)


def count_writes(run: Run, item: Item) -> None:
    """C12. "Each update of a reduced value adds one to its version. First write of a new name gives version
    1".
    """
    for value in item.update:
        run.versions[value] = run.versions.get(value, 0) + 1


def withdraw(run: Run, gate: str) -> None:
    """ "When a plain item of a node that decides runs, whatever its earlier plain items selected and nobody has
    consumed is withdrawn"; of what they sent, that which is not final: "a new decision replaces only what the gate
    sent in the same turn".
    """
    for name in run.graph.names:
        run.wakes[name] -= {Reason("decision", gate), Reason("send", gate)}
        run.sends[name] = [sent for sent in run.sends[name] if sent.gate != gate or sent.is_final]
    run.decisions.pop(gate, None)


def make_sends_final(run: Run, loop: Loop) -> None:
    """ "What a gate has sent stands once a turn of a loop it is on begins." """
    for name in run.graph.names:
        run.sends[name] = [
            replace(sent, is_final=True) if sent.gate in loop.nodes else sent for sent in run.sends[name]
        ]
        run.wakes[name] = {
            replace(reason, is_final=True)
            if reason.rule == "send" and reason.source in loop.nodes
            else reason
            for reason in run.wakes[name]
        }


def send_is_final(run: Run, gate: str, came_from_send: bool, turns: dict[str, Loop]) -> bool:
    """ "also what it sends in the very step in which another node starts that turn, and at once if the gate is
    eager. Items that came from Sends stand for themselves". `turns`: which nodes start a turn in this step.
    """
    another_starts_a_turn = gate not in turns and any(gate in loop.nodes for loop in turns.values())
    return came_from_send or another_starts_a_turn or run.graph.node(gate).eager


def record_decision(run: Run, item: Item, came_from_send: bool, turns: dict[str, Loop]) -> None:
    """Rule 2 and C10. "None, () or [] selects nothing. END selects nothing and sets terminated." """
    decision = item.decision
    if not decision:
        return
    gate = item.node
    parts = decision if isinstance(decision, tuple) else (decision,)
    for part in parts:
        if isinstance(part, tuple):
            target, payload = part
            is_final = send_is_final(run, gate, came_from_send, turns)
            run.sends[target].append(Sent(gate, payload, is_final))
            run.wakes[target].add(Reason("send", gate, is_final))
        elif part == END:
            run.terminated = True
        else:
            run.wakes[part].add(Reason("decision", gate, is_final=came_from_send))
    names = tuple(part[0] if isinstance(part, tuple) else part for part in parts)
    sent = any(isinstance(part, tuple) for part in parts)
    alone = len(names) == 1 and not sent and not run.graph.node(gate).multi
    run.decisions[gate] = names[0] if alone else names


def wake_readers(run: Run, writer: str, value: str) -> None:
    """Rule 4. "it has run, no forward gate targets it, and another node has written an input since it read
    it".
    """
    for node in run.graph.nodes:
        if (
            node.name != writer
            and value in node.reads
            and run.visits[node.name]
            and write_counts(run, writer, node, value)
        ):
            run.wakes[node.name].add(Reason("data", writer))


def write_counts(run: Run, writer: str, node: MNode, value: str) -> bool:
    """C7. "no forward gate (or goto) link points to N. A write by M != N of an input v of N counts iff
    (a) if N also writes v: some forward gate (or goto) link points to M; and
    (b) if the pair M -> N is a back link and some gate (or goto) targets N by a back link: M is reachable
    along forward links from such a gate (M is not that gate itself)."
    """
    layout = run.layout
    if layout.gates_forward_to(node.name):
        return False
    if value in node.outputs and not layout.gates_forward_to(writer):
        return False
    turning_gates = layout.gates_back_to(node.name)
    if not layout.is_forward(writer, node.name) and turning_gates:
        return any(writer in layout.behind(gate) for gate in turning_gates)
    return True


def block(run: Run, name: str) -> None:
    """C14. "its node and all nodes reachable from it along links (forward) never run again in this run"."""
    run.blocked |= {name} | run.layout.behind(name)


# ---- a run


def interpret(
    graph: MGraph,
    given: Mapping[str, Any],
    max_steps: int = 60,
    on_error: Literal["stop", "continue"] = "stop",
    changes: Mapping[int, Change] | None = None,
) -> Outcome:
    """Run the graph from S(0) to its end. ``changes``: what is changed by hand, and after which step."""
    try:
        layout = analyse(graph, given.keys())
    except CannotStart:
        return Outcome("refused", ("InputError", None), (), {}, {}, {}, False, {}, {}, {})
    run = start(graph, given, layout)
    chain: list[tuple[Item, ...]] = []
    errors: list[Error] = []  # those that stop the run
    confined: list[Error] = []
    while True:
        if changes and len(chain) in changes:
            change_by_hand(run, changes[len(chain)])
        nodes = runs_next(run)
        if not nodes:
            break
        if len(chain) == max_steps:  # C16
            errors.append(("MaxStepsError", None))
            break
        items = [item for name in nodes for item in execute(run, name)]
        items, new, is_committed = settled(run, items, on_error)
        if not is_committed:
            errors += new
            break
        confined += new
        commit(run, items)
        chain.append(tuple(items))
    assert nodes or not due(run), f"deadlock: {due(run)} are due and each waits"
    pending = pending_of(run)
    if not due(run) and any(name not in run.blocked for name in pending):  # C15
        errors.append(("StalledError", None))
    return Outcome(
        status="failed" if errors else "completed",
        error=next(iter([*errors, *confined]), None),
        chain=tuple(chain),
        values=run.values,
        versions=run.versions,
        decisions=run.decisions,
        terminated=run.terminated,
        pending=pending,
        never_ran={n: lacks(run, graph.node(n), {}) for n in graph.names if not run.visits[n]},
        visits=run.visits,
        confined=tuple(confined),
    )


def change_by_hand(run: Run, change: Change) -> None:
    """Rule 4. "another node (or a fork) has written an input since it read it"; such a write always counts, and comes
    along no link. "``record_gate_decision`` replaces likewise."
    """
    if change.as_node is not None:
        run_by_hand(run, change.as_node, change)
        return
    for gate, decision in change.decisions.items():
        withdraw(run, gate)
        for target in decision if isinstance(decision, tuple) else (decision,):
            if target == END:
                run.terminated = True
            else:
                run.wakes[target].add(Reason("decision", gate))
        if decision:
            run.decisions[gate] = decision
    for value, new in change.values.items():
        run.values[value] = new
        run.versions[value] = run.versions.get(value, 0) + 1
        for node in run.graph.nodes:
            has_read = value in node.reads and run.visits[node.name] > 0
            if has_read and not run.layout.gates_forward_to(node.name):
                run.wakes[node.name].add(Reason("data"))


def run_by_hand(run: Run, name: str, change: Change) -> None:
    """ "The item is the node's next visit: its wake and selections are consumed." It is a plain one."""
    turn = turn_started_by(run, name)
    run.wakes[name].clear()
    run.sends[name].clear()
    run.visits[name] += 1
    if turn is not None:
        make_sends_final(run, turn)
    withdraw(run, name)
    item = Item(name, name, 0, dict(change.values), change.decisions.get(name))
    run.values.update(merged(run, [item]))
    count_writes(run, item)
    record_decision(run, item, False, {} if turn is None else {name: turn})
    for value in item.update:
        wake_readers(run, name, value)
    for target in run.graph.names:
        if (name, target) in run.layout.links.control:
            run.wakes[target].add(Reason("control", name))


def pending_of(run: Run) -> dict[str, Pending]:
    """The decisions and Sends that no run has consumed."""
    found = {}
    for name in run.graph.names:
        decided = [reason for reason in run.wakes[name] if reason.rule == "decision"]
        selections = tuple(sorted((str(reason.source), reason.is_final) for reason in decided))
        sends = tuple((sent.gate, sent.payload, sent.is_final) for sent in in_order_sent(run, name))
        if selections or sends:
            found[name] = (selections, sends)
    return found
