"""The fast path: steps of a single plain item while nothing else is open.

Most steps of most runs are like this and need none of the general bookkeeping (open steps, batches, items, frontier).
`_steps` advances the working state directly. A step qualifies if exactly one node is due, the node needs neither a
context nor a deadline, and the run has neither listeners nor prior work. Otherwise (the node raises, a reducer rejects
the update, two nodes are due) the machine plans the step in the general way.

This is the hot loop of the library. It is a generator because local variables are fast, and it inlines the two common
cases of `WorkingState.install` (one new value; one selected target). Everything else calls `read` and
`WorkingState.install`. The tests run every random graph both ways.

What it saves, in instructions of a chain of 300 nodes: without it, a run takes 5 times as many in memory, 2.9 times
with async nodes, and twice as many on SQLite. Three shortcuts for its `SingleItemStep` follow on the way to the disk.
Without each of them, the same chain on SQLite takes more: `EntryEncoder._single` 38%, `LogWriter._write_step` 9%, and
the single statement in `SQLiteStore.append` 79%. There are no other shortcuts for single steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from inspect import iscoroutinefunction
from typing import Any

from clew.engine.decisions import withdraw
from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.program import Program, Wakes
from clew.engine.records import Outcome, SingleItemStep
from clew.engine.updates.deltas import NO_DELTAS
from clew.engine.updates.merge import MergeFailure, merge_one
from clew.engine.updates.outcomes import read
from clew.engine.updates.unstorable import is_storable
from clew.graph import END, Command, Node, Send
from clew.graph.signature import MISSING
from clew.state import Overwrite

Called = tuple[Callable[..., Any], tuple[Any, ...], "Sizes"]
Returned = tuple[Any, float, float]
Steps = Generator[Called, Returned, None]
"""Yields a function, its arguments and their sizes (`sizes_of`); receives its value, start time and end time."""

_NOTHING: dict[str, Any] = {}
_SPECIAL = {Command, Overwrite, Send, type(END)}
SIZED = frozenset({list, dict, set})
UNSIZED = frozenset({type(None), bool, int, float, complex, str, bytes, tuple, frozenset})
"""Exact types of values with and without a size. Testing these sets first keeps the mutation check cheap."""

Sizes = int | tuple[int, ...] | None


def size_of(value: Any) -> int:
    """Return the length of a list, dict or set (or subclass), ignoring an overridden `__len__`; -1 for other values."""
    kind = type(value)
    if kind in SIZED:
        return len(value)
    for sized in (list, dict, set):
        if issubclass(kind, sized):
            return sized.__len__(value)
    return -1


def sizes_of(values: tuple[Any, ...]) -> Sizes:
    """Return the size of the only value, or of each of several; None if no value has a size."""
    if len(values) == 1:
        (value,) = values
        size = len(value) if type(value) in SIZED else size_of(value)
        return size if size >= 0 else None
    sizes = tuple([len(value) if type(value) in SIZED else size_of(value) for value in values])
    return sizes if max(sizes, default=-1) >= 0 else None


def steps(machine: Machine, epoch: float) -> Steps:
    """Run single-item steps until one does not qualify; `epoch` converts the driver's times into timestamps."""
    options = machine.options
    if options.durable and (options.on_error == "continue" or machine.root.program.has_rescues):
        return _checked(machine, epoch)
    return _steps(machine, epoch)


def _checked(machine: Machine, epoch: float) -> Steps:
    """`_steps` until a node returns something that may not be storable: the machine decides (``unstorable``)."""
    fast_steps = _steps(machine, epoch)
    called: Called | None = next(fast_steps, None)
    while called is not None:
        returned = yield called
        called = None  # a remaining reference would prevent a list from growing in place
        if not is_storable(returned[0]):
            value, began, ended = returned
            machine.finish(general(machine), value, epoch + began, ended - began)
            return
        try:
            called = fast_steps.send(returned)
        except StopIteration:
            return


def _steps(machine: Machine, epoch: float) -> Steps:
    root = machine.root
    working = machine.root.working_state
    outbox = machine.outbox
    counters = machine.counters
    program, most = working.program, machine.options.max_steps
    if program.fast_path is None:
        program.fast_path = [_record_of(program, i) for i in range(len(program.nodes))]
    records, around = program.fast_path, machine.around
    due, sends, decisions = working.due, working.sends, working.decisions
    values = working.values
    versions = working.versions
    wakes = working.wakes
    visits = working.visits
    missing = working.missing
    unsized, special = UNSIZED, _SPECIAL
    number, name = root.step, ""
    counters.active = 1  # for all fast steps: nothing can read it between two calls
    while len(due) == 1 and not sends and number < most and not working.blocked:
        (node,) = due
        record = records[node]
        if record is None:
            break
        func, source, sources, name, output, needers, readers, targets, controls = record
        if around is not None:
            func = around(node, func)
        if source is not None:
            arg = values[source]
            if type(arg) in unsized:
                value, began, ended = yield func, (arg,), None
            else:
                value, began, ended = yield func, (arg,), sizes_of((arg,))
                arg = None  # a remaining reference would prevent a list from growing in place
        else:
            args = tuple([values[s] for s in sources])
            for arg in args:
                if type(arg) not in unsized:
                    value, began, ended = yield func, args, sizes_of(args)
                    arg = None
                    break
            else:
                value, began, ended = yield func, args, None
            args = ()
        if output is not None and type(value) not in special:
            outbox.append(
                SingleItemStep(
                    number + 1, name, visits[node], {output: value}, None, epoch + began, ended - began
                )
            )
            wakes[node] = 0
            visits[node] += 1
            due.clear()
            values[output] = value
            version = versions.get(output)
            if version is None:
                versions[output] = 1
                for reader in needers:
                    missing[reader] -= 1
                    if wakes[reader] and not missing[reader]:
                        due.add(reader)
            else:
                versions[output] = version + 1
            for reader, bits in readers:
                if visits[reader]:
                    wakes[reader] |= bits
                    if not missing[reader]:
                        due.add(reader)
        elif (
            targets is not None and (value is END or type(value) is str) and (chosen := str(value)) in targets
        ):
            outbox.append(
                SingleItemStep(
                    number + 1, name, visits[node], _NOTHING, (chosen,), epoch + began, ended - began
                )
            )
            wakes[node] = 0
            visits[node] += 1
            due.clear()
            decisions[name] = chosen
            target, bits, others = targets[chosen]
            if others:
                for other, theirs in others:
                    if wakes[other] & theirs:  # selected earlier and still not due
                        withdraw(working, node)
                        break
            if target < 0:
                working.terminated = True
            else:
                wakes[target] |= bits
                if not missing[target]:
                    due.add(target)
        else:
            try:
                update, decision = read(program, program.nodes[node], value, working)
            except Exception:  # the machine raises the same error and handles it
                machine.finish(general(machine), value, epoch + began, ended - began)
                return
            fresh, deltas = update, NO_DELTAS
            if program.reducers:
                outcome = Outcome(name, visits[node], -1, update, decision, 0, epoch + began, ended - began)
                try:
                    fresh, deltas = merge_one(program, values, outcome)
                except MergeFailure as failure:
                    machine.reject_update(general(machine), failure)
                    return
            outbox.append(
                SingleItemStep(
                    number + 1, name, visits[node], update, decision, epoch + began, ended - began, deltas
                )
            )
            working.install(node, fresh, decision)
            fresh = _NOTHING  # a remaining reference would prevent a list from growing in place
            controls = ()
        for reader, bits in controls:
            wakes[reader] |= bits
            if not missing[reader]:
                due.add(reader)
        root.step = number = number + 1
        counters.fast_steps += 1
    if name:  # only the last node can have woken the nodes that are due now
        root.latest[program.index[name]] = number
    counters.active = 0
    machine.open(root)


def general(machine: Machine) -> Item:
    """Plan the current step in the general way and return its item, already taken."""
    machine.counters.active = 0
    machine.open(machine.root)
    item = machine.take()
    assert item is not None
    return item


def _record_of(program: Program, number: int) -> tuple[Any, ...] | None:
    """Return what a fast step of a node needs; None if the node cannot use the fast path."""
    node = program.nodes[number]
    if not _is_plain(program, node):
        return None
    sources = tuple(p.source for p in node.params)
    output = program.plain_outputs[number]
    needers: tuple[int, ...] = ()
    readers: Wakes = ()
    leads_to_join = any(program.joins[target] for target in program.topology.targets[number])
    if output is not None and (output in program.reducers or output in program.weak or leads_to_join):
        output = None
    if output is not None:
        needers = program.needers.get(output, ())
        readers = tuple(wake for wake in program.data_readers[number].get(output, ()) if wake[1])
    targets: dict[str, tuple[int, int, Wakes]] | None = None
    if node.kind == "route" and not node.multi and not node.pruned and not leads_to_join:
        choices = program.choices[number] or {}
        targets = {target: choices[target] for target in node.targets}
    return (
        node.func,
        sources[0] if len(sources) == 1 else None,
        sources,
        node.name,
        output,
        needers,
        readers,
        targets,
        program.control_wakes[number],
    )


def _is_plain(program: Program, node: Node) -> bool:
    """Return whether a node needs only values of the state: no timeout, cache, side effects or defaults."""
    return (
        node.kind in ("node", "route", "ifelse")
        and (
            node.mode == "sync" or (node.mode == "async" and iscoroutinefunction(node.func))
        )  # not a wrapper that returns a coroutine
        and node.policy.timeout is None
        and not node.cache
        and not (node.side_effects.recordable or node.side_effects.requires_idempotency)
        and all(
            p.kind == "value"
            and not p.keyword_only
            and p.default is MISSING
            and p.source not in program.bound
            for p in node.params
        )
    )
