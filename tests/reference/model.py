"""Graphs as data: what the interpreter runs, the generator makes, and ``to_clew`` turns into a real graph.

A node's behaviour is data too. What an item does is a function of the node's name, the visit, the index in
the batch and the values it reads (``act``), so two executions of one graph can be compared value by value,
whatever the order in which their items finished. Numbers come from CRC-32 over a ``repr`` (``number``), never
from ``hash()``, which differs between processes.

Values are integers; a reduced value is a list of integers that grows by ``operator.add``, or by a reducer that
refuses some of what it is given. No value is None.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

END = "END"
DEFAULT = -1
"""The default of every parameter that has one."""


@dataclass(frozen=True)
class MSend:
    """Run ``target`` once with a payload that brings the values ``names``."""

    target: str
    names: tuple[str, ...] = ()


Choice = None | str | tuple[str | MSend, ...]
"""What a script lets a gate answer: nothing, one target or END, or several targets and Sends."""

Decision = None | str | tuple[str | tuple[str, dict[str, Any]], ...]
"""A choice whose Sends have their payloads: ``(target, payload)``."""


class Broken(Exception):
    """What a node raises when its behaviour says that it fails."""


class Late(Broken):
    """The item takes longer than its node's timeout."""


class Refused(Exception):
    """What a reducer raises when it does not take an update."""


@dataclass(frozen=True)
class Picky:
    """A reducer of lists that refuses one in ``of`` updates, by what is there already and what is added.

    So an update that is taken alone may be refused beside others, and the other way round.
    """

    of: int

    def __call__(self, current: list[int], update: list[int]) -> list[int]:
        if number(current, update) % self.of == 0:
            raise Refused(f"{update} after {current}")
        return [*current, *update]


TIMEOUT = 2.0
"""The timeout of a node that may be late, in seconds of a virtual clock."""


@dataclass(frozen=True)
class Behaviour:
    """What the function of a node does.

    distinct  outputs are numbers below this; a small one makes a cutoff bite
    script    the choices of a gate (or goto node), one for each visit; afterwards ``then``
    by_value  the script's entry is picked by the values read instead, for as many visits as the script is
              long
    fails_at  (visit, index) of the item that raises ``Broken``
    until     the attempt (from 0) at which that item succeeds; None if it never does
    late      it fails by taking too long, not by raising
    asks_at   the visit whose items ask a question, and fold the answer into what they write and decide
    """

    distinct: int = 1000
    script: tuple[Choice, ...] = ()
    by_value: bool = False
    then: Choice = END
    fails_at: tuple[int, int] | None = None
    until: int | None = None
    late: bool = False
    asks_at: int | None = None


@dataclass(frozen=True)
class MNode:
    """One node. ``goto`` holds the targets of a node that may route, ``targets`` those of a gate.

    A join (``after=all_of(...)``) runs only when all nodes of ``after`` have run since its last run.
    ``partial`` nodes return a dict with some of their outputs. ``attempts`` is how often an item is tried. An
    ``interrupt`` node asks at every visit, and the answer is its one output.
    """

    name: str
    inputs: tuple[tuple[str, bool], ...] = ()
    outputs: tuple[str, ...] = ()
    kind: Literal["node", "gate", "interrupt"] = "node"
    targets: tuple[str, ...] = ()
    multi: bool = False
    after: tuple[str, ...] = ()
    is_join: bool = False
    eager: bool = False
    cutoff: bool = False
    reads_state: bool = False
    goto: tuple[str, ...] = ()
    partial: bool = False
    attempts: int = 1
    behaviour: Behaviour = field(default=Behaviour())

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(value for value, _ in self.inputs)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(value for value, has_default in self.inputs if not has_default)

    @property
    def routes(self) -> tuple[str, ...]:
        """The nodes that it may select, as a gate or with goto."""
        return tuple(target for target in self.targets + self.goto if target != END)


@dataclass(frozen=True)
class MGraph:
    """Nodes in declaration order, and what the graph says beside them.

    reducers         the values that are lists, and grow by ``reducer``
    schema_defaults  what the schema seeds into S(0), beside the empty lists of the reduced values
    bound            values that are not state
    """

    nodes: tuple[MNode, ...]
    edges: tuple[tuple[str, str], ...] = ()
    entry: tuple[str, ...] = ()
    reducers: frozenset[str] = frozenset()
    reducer: Callable[[Any, Any], Any] = operator.add
    schema_defaults: tuple[tuple[str, Any], ...] = ()
    bound: tuple[tuple[str, Any], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes)

    def node(self, name: str) -> MNode:
        return self.nodes[self.names.index(name)]

    def writers(self, value: str) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if value in node.outputs)

    @property
    def seeds(self) -> dict[str, Any]:
        """What the schema puts into S(0): defaults, and an empty list for every reduced value without one."""
        return {**{value: [] for value in sorted(self.reducers)}, **dict(self.schema_defaults)}

    def seed_counts(self, value: str) -> bool:
        """A schema default counts only if the value is reduced or no node writes it."""
        return value in self.seeds and (value in self.reducers or not self.writers(value))

    @property
    def value_names(self) -> tuple[str, ...]:
        """Every name that may be in a state of this graph, payloads included."""
        found = {value for node in self.nodes for value in (*node.reads, *node.outputs)} | set(self.seeds)
        found |= {value for node in self.nodes for send in sends_of(node) for value in send.names}
        return tuple(sorted(found - {value for value, _ in self.bound}))


def sends_of(node: MNode) -> tuple[MSend, ...]:
    """Every Send that the node's script can make."""
    choices = (*node.behaviour.script, node.behaviour.then)
    return tuple(
        part for choice in choices if isinstance(choice, tuple) for part in choice if isinstance(part, MSend)
    )


def number(*parts: Any) -> int:
    return zlib.crc32(repr(parts).encode())


def answer(question: str) -> int:
    """What the person in these tests answers."""
    return number("answer", question) % 7


@dataclass(frozen=True)
class Result:
    """What one item returned. ``update`` is what it gave, before any cutoff."""

    update: dict[str, Any]
    decision: Decision


def question_of(node: MNode, visit: int, index: int, seen: Mapping[str, Any]) -> str:
    return f"{node.name} {visit} {index} {number(sorted(seen.items()))}"


def fails(node: MNode, visit: int, index: int, attempt: int) -> bool:
    """Whether this attempt of an item fails."""
    until = node.behaviour.until
    return node.behaviour.fails_at == (visit, index) and (until is None or attempt < until)


def act(
    graph: MGraph,
    node: MNode,
    visit: int,
    index: int,
    seen: Mapping[str, Any],
    ask: Callable[[str], int] = answer,
    attempt: int = 0,
) -> Result:
    """Execute one item: ``seen`` holds its inputs, and under ``"state"`` what a whole-state reader sees."""
    behaviour = node.behaviour
    if fails(node, visit, index, attempt):
        kind = Late if behaviour.late else Broken
        raise kind(f"{node.name} fails at visit {visit}, item {index}, attempt {attempt}")
    if node.kind == "interrupt":
        return Result({node.outputs[0]: ask(question_of(node, visit, index, seen))}, None)
    answered = ask(question_of(node, visit, index, seen)) if behaviour.asks_at == visit else 0
    basis = number(node.name, visit, index, sorted(seen.items()), answered)
    update: dict[str, Any] = {}
    for value in node.outputs:
        if node.partial and number(basis, value, "left out") % 4 == 0:
            continue
        made = number(basis, value) % behaviour.distinct
        update[value] = [made] if value in graph.reducers else made
    return Result(update, decide(graph, node, visit, basis))


def decide(graph: MGraph, node: MNode, visit: int, basis: int) -> Decision:
    """The script's choice, with payloads; nothing for a node that cannot route."""
    behaviour = node.behaviour
    if not node.targets and not node.goto:
        return None
    choice: Choice = behaviour.then
    if visit < len(behaviour.script):
        choice = behaviour.script[basis % len(behaviour.script) if behaviour.by_value else visit]
    if not isinstance(choice, tuple):
        return choice
    decision: list[str | tuple[str, dict[str, Any]]] = []
    for place, part in enumerate(choice):
        if isinstance(part, MSend):
            payload: dict[str, Any] = {}
            for value in part.names:
                made = number(basis, place, value) % 1000
                payload[value] = [made] if value in graph.reducers else made
            decision.append((part.target, payload))
        else:
            decision.append(part)
    return tuple(decision)
