"""The machine as a function: ``step(run, event) -> (run, effects)``.

A `Run` is a machine that nobody changes any more, so it can be kept, compared with others that came from it, and gone
on from as often as one likes. Drivers do not need that and change their machine in place; explorers and tests do.

Events say what became of an item, by its path. Of one that was to be executed: `Finished`, `Failed`, `Asked`, and
`TimedOut`, which may also be said of a subgraph item while its strands are under way. Of one that waits: `Woken` when
the delay of a retry is over, and `Answered`. Effects are what the machine says: `Execute` an item, and the
records of ``clew.engine.records`` (a step is committed, an outcome is journaled, a retry waits, somebody is asked, a
subgraph has a deadline).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from clew.engine.copying import copy_of
from clew.engine.machine import Machine
from clew.engine.programs import check_values, program_of
from clew.engine.records import Deadline, Question, Retry
from clew.engine.strand import Item
from clew.engine.terms import Options, Status
from clew.errors import NodeTimeoutError, RunStateError
from clew.graph import Graph
from clew.state import GraphState


class Execute(msgspec.Struct, frozen=True):
    """Execute the item at `path`, and say what became of it."""

    path: str
    node: str
    attempt: int
    inputs: Mapping[str, Any]  # by parameter; none for a context
    answers: tuple[Any, ...] = ()  # to the questions that it asked before


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


class Answered(msgspec.Struct, frozen=True):
    """A person answered the question at `path`."""

    path: str
    answer: Any


class TimedOut(msgspec.Struct, frozen=True):
    """The item's function, or what runs inside a subgraph item, took too long."""

    path: str


Event = Finished | Failed | Asked | Woken | Answered | TimedOut


class Run:
    """One run, at one moment. `executing` are the items that were to be executed, `waiting` those between attempts."""

    __slots__ = ("_asking", "_executing", "_inside", "_machine", "_waiting")

    def __init__(
        self,
        machine: Machine,
        executing: Mapping[str, Item],
        waiting: Mapping[str, Item],
        asking: Mapping[str, Item],
        inside: Mapping[str, Item],
    ) -> None:
        self._machine = machine
        self._executing = executing
        self._waiting = waiting
        self._asking = asking
        self._inside = inside

    @property
    def executing(self) -> tuple[str, ...]:
        """The paths of items of which nothing was heard yet, in the order in which they were handed out."""
        return tuple(self._executing)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The paths of items between two attempts."""
        return tuple(self._waiting)

    @property
    def questions(self) -> tuple[Question, ...]:
        """What is asked, in order; `Answered` by the path of the question."""
        return self._machine.questions()

    @property
    def inside(self) -> tuple[str, ...]:
        """The paths of subgraph items with a timeout of their own whose strands are under way."""
        return tuple(self._inside)

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
        return next((failure.error for failure in self._machine.failures()), None)


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
    return _settled(machine, _Items({}, {}, {}, {}))


def step(run: Run, event: Event) -> tuple[Run, Sequence[Any]]:
    """The run after an event, and what is to be done now. `run` stays as it is."""
    machine, copy = copy_of(run._machine)
    items = _Items(
        *(
            {path: copy(item) for path, item in group.items()}
            for group in (run._executing, run._waiting, run._asking, run._inside)
        )
    )
    item = items.take(event)
    if isinstance(event, Finished):
        machine.finish(item, event.value)
    elif isinstance(event, Failed):
        machine.fail(item, event.error)
    elif isinstance(event, Asked):
        machine.ask(item, event.question)
    elif isinstance(event, Answered):
        machine.answer(item, event.answer)
    elif isinstance(event, TimedOut):
        told = f"node {item.node.name!r} at {item.path} did not finish in time"
        machine.expire(item, NodeTimeoutError(told), 0.0, 0.0)
    else:
        machine.wake(item)
    asked = item.strand.questions.get(item.order)
    if asked is not None:
        items.asking[asked.path] = item
    return _settled(machine, items)


class _Items(NamedTuple):
    """The items of which something may be heard, by path."""

    executing: dict[str, Item]
    waiting: dict[str, Item]
    asking: dict[str, Item]
    inside: dict[str, Item]

    def take(self, event: Event) -> Item:
        """The item that the event is about, which is not there any more."""
        groups = [self.executing]
        if isinstance(event, Woken):
            groups = [self.waiting]
        elif isinstance(event, Answered):
            groups = [self.asking]
        elif isinstance(event, TimedOut):
            groups = [self.executing, self.inside]
        for group in groups:
            if event.path in group:
                return group.pop(event.path)
        known = ", ".join(dict.fromkeys(path for group in self for path in group)) or "nothing"
        raise RunStateError(f"nothing is to be heard of {event.path!r}; under way: {known}")

    def live(self) -> tuple[dict[str, Item], ...]:
        """Those of which something is still to be heard: others were let fall, or have ended."""
        executing, waiting, asking, inside = self
        return (
            {path: item for path, item in executing.items() if item.is_wanted and item.live},
            {path: item for path, item in waiting.items() if item.is_wanted and item.waited},
            {path: item for path, item in asking.items() if item.is_wanted},
            {path: item for path, item in inside.items() if item.is_wanted and item.is_inside},
        )


def _settled(machine: Machine, items: _Items) -> tuple[Run, list[Any]]:
    """Hand out what may be executed now, and take what the machine says."""
    effects: list[Any] = []
    while (item := machine.take()) is not None:
        items.executing[item.path] = item
        answers = tuple(machine.answers(item).values())
        effects.append(Execute(item.path, item.node.name, item.attempt, _inputs(item), answers))
    said, machine.outbox[:] = list(machine.outbox), ()
    for record in said:
        if isinstance(record, Retry) and record.item is not None:
            items.waiting[record.path] = record.item
        elif isinstance(record, Deadline):
            items.inside[record.item.path] = record.item
    effects[:0] = said
    return Run(machine, *items.live()), effects


def _inputs(item: Item) -> dict[str, Any]:
    """What the item's function is given, by the names of its parameters."""
    return {
        p.name: item.values() if p.kind == "state" else item.lookup(p.source, p.default)
        for p in item.node.params
        if p.kind != "context"
    }
