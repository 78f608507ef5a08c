"""The machine as a function: ``step(run, event) -> (run, effects)``.

A `Run` is a machine that nobody changes any more, so it can be kept, compared with others that came from it, and gone
on from as often as one likes. Drivers do not need that and change their machine in place; explorers and tests do.

Events say what became of an item that was to be executed, by its path: `Finished`, `Failed`, `Asked`, and `Woken` when
the delay of a retry is over. Effects are what the machine says: `Execute` an item, and the records of
``clew.engine.records`` (a step is committed, an outcome is journaled, a retry waits, somebody is asked).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from clew.engine.copying import copy_of
from clew.engine.machine import Machine
from clew.engine.programs import check_values, program_of
from clew.engine.records import Retry
from clew.engine.strand import Item
from clew.engine.terms import Options, Status
from clew.errors import RunStateError
from clew.graph import Graph
from clew.state import GraphState


class Execute(msgspec.Struct, frozen=True):
    """Execute the item at `path`, and say what became of it."""

    path: str
    node: str
    attempt: int
    inputs: Mapping[str, Any]  # by parameter; none for a context


class Finished(msgspec.Struct, frozen=True):
    """The item's function returned."""

    path: str
    value: Any


class Failed(msgspec.Struct, frozen=True):
    """The item's function raised, or took too long."""

    path: str
    error: BaseException


class Asked(msgspec.Struct, frozen=True):
    """The item's function asks a question, and has stopped."""

    path: str
    question: Any


class Woken(msgspec.Struct, frozen=True):
    """The delay before the item's next attempt is over."""

    path: str


Event = Finished | Failed | Asked | Woken


class Run:
    """One run, at one moment. `executing` are the items that were to be executed, `waiting` those between attempts."""

    __slots__ = ("_executing", "_machine", "_waiting")

    def __init__(self, machine: Machine, executing: Mapping[str, Item], waiting: Mapping[str, Item]) -> None:
        self._machine = machine
        self._executing = executing
        self._waiting = waiting

    @property
    def executing(self) -> tuple[str, ...]:
        """The paths of items of which nothing was heard yet, in the order in which they were handed out."""
        return tuple(self._executing)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The paths of items between two attempts."""
        return tuple(self._waiting)

    @property
    def status(self) -> Status:
        """Where the run stands; ``running`` as long as something is executing or waits for its next attempt."""
        return "running" if self._executing or self._waiting else self._machine.status

    @property
    def steps(self) -> int:
        """How many steps are committed."""
        return self._machine.root.step

    @property
    def values(self) -> Mapping[str, Any]:
        """The values after the last committed step."""
        return self._machine.root.view.plain_values()

    @property
    def error(self) -> BaseException | None:
        """Why it failed."""
        return self._machine.error()


def begin(
    graph: Graph, values: Mapping[str, Any] | GraphState, options: Options | None = None
) -> tuple[Run, Sequence[Any]]:
    """A run on values, or one that goes on from a state."""
    options = options or Options()
    if isinstance(values, GraphState):
        machine = Machine.restore(program_of(graph, values.position.given), values, options)
    else:
        given, seeded = check_values(graph, values)
        machine = Machine.begin(program_of(graph, given), seeded, options)
    return _settled(machine, {}, {})


def step(run: Run, event: Event) -> tuple[Run, Sequence[Any]]:
    """The run after an event, and what is to be done now. `run` stays as it is."""
    machine, copy = copy_of(run._machine)
    executing = {path: copy(item) for path, item in run._executing.items()}
    waiting = {path: copy(item) for path, item in run._waiting.items()}
    item = (waiting if isinstance(event, Woken) else executing).pop(event.path, None)
    if item is None:
        known = ", ".join((*executing, *waiting)) or "nothing"
        raise RunStateError(f"nothing is to be heard of {event.path!r}; under way: {known}")
    if isinstance(event, Finished):
        machine.finish(item, event.value)
    elif isinstance(event, Failed):
        machine.fail(item, event.error)
    elif isinstance(event, Asked):
        machine.ask(item, event.question)
    else:
        machine.wake(item)
    return _settled(machine, executing, waiting)


def _settled(machine: Machine, executing: dict[str, Item], waiting: dict[str, Item]) -> tuple[Run, list[Any]]:
    """Hand out what may be executed now, and take what the machine says."""
    effects: list[Any] = []
    while (item := machine.take()) is not None:
        executing[item.path] = item
        effects.append(Execute(item.path, item.node.name, item.attempt, _inputs(item)))
    said, machine.outbox[:] = list(machine.outbox), ()
    for record in said:
        if isinstance(record, Retry) and record.item is not None:
            waiting[record.path] = record.item
    effects[:0] = said
    executing = {path: item for path, item in executing.items() if item.is_wanted and item.live}
    return Run(machine, executing, waiting), effects


def _inputs(item: Item) -> dict[str, Any]:
    """What the item's function is given, by the names of its parameters."""
    return {
        p.name: item.values() if p.kind == "state" else item.lookup(p.source, p.default)
        for p in item.node.params
        if p.kind != "context"
    }
