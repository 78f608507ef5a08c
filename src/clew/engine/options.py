"""The terms on which a machine works: its options, what it counts, what it is told about earlier work."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew.engine.records import Failure, Outcome, Start, Step
from clew.graph import Graph

if TYPE_CHECKING:
    from random import Random

Status = Literal["running", "completed", "failed", "waiting", "cancelled"]
Order = tuple[int, ...]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a run behaves, whatever drives it."""

    seed: int = 0
    queue_depth: int = 1024
    max_steps: int = 10_000
    on_error: Literal["stop", "continue"] = "stop"
    on_conflict: Literal["error", "last"] = "error"
    listening: bool = False
    step_by_step: bool = False  # every item is taken by the driver: none goes the short way


class Notification(msgspec.Struct, frozen=True):
    """Something worth showing happened; the driver adds run and time."""

    kind: str
    step: int
    path: str
    data: Mapping[str, Any] = {}


class PriorWork(msgspec.Struct, frozen=True):
    """What earlier work on the same run left behind, by path: used instead of executing again."""

    journal: Mapping[str, Outcome] = {}
    answers: Mapping[
        str, Mapping[str, Any]
    ] = {}  # by path and position, in the order in which they were given
    answered: Mapping[str, float] = {}  # by path: when the last answer was given
    attempts: Mapping[str, int] = {}
    strands: Mapping[str, tuple[Start, Sequence[Step]]] = {}
    failures: Sequence[tuple[Order, Failure]] = ()  # confined failures in the chain
    retraced: Mapping[tuple[str, int], Step] | None = (
        None  # by strand and number; None unless the run is retraced
    )
    held: set[str] = set()  # subgraph items between two attempts: handed to the driver, who knows the time

    def with_answer(self, path: str, position: str, answer: Any) -> PriorWork:
        """The memory with one more answer: to the question of the item at `path` that was asked at `position`."""
        answers = {**self.answers, path: {**self.answers.get(path, {}), position: answer}}
        return msgspec.structs.replace(self, answers=answers)

    def with_attempt(self, path: str, attempt: int) -> PriorWork:
        """The memory in which the item at `path` is at this attempt."""
        return msgspec.structs.replace(self, attempts={**self.attempts, path: attempt})

    def without(self, prefix: str, nodes: Mapping[str, int]) -> tuple[PriorWork, list[Outcome]]:
        """The memory without the outcomes of these nodes of a strand, each from a visit on; and these outcomes."""
        gone = [
            outcome
            for path, outcome in self.journal.items()
            if outcome.node in nodes
            and outcome.visit >= nodes[outcome.node]
            and path == prefix + outcome.path
        ]
        paths = {prefix + outcome.path for outcome in gone}
        journal = {path: outcome for path, outcome in self.journal.items() if path not in paths}
        return msgspec.structs.replace(self, journal=journal), gone

    def begun(self, prefix: str, nodes: Mapping[str, int], graph: Graph) -> dict[str, int]:
        """The subgraph items of these nodes, each from a visit on, that have strands, and the attempts of these."""
        found: dict[str, int] = {}
        for inner, (start, _) in self.strands.items():
            item, inside, deeper = inner[len(prefix) :].partition("/")
            name, _, place = item.partition("#")
            if not inner.startswith(prefix) or not inside or deeper or name not in nodes:
                continue
            subgraph = graph.nodes[name].subgraph
            if subgraph is not None and int(place.partition("[")[0]) >= nodes[name]:
                found[prefix + (item.rpartition("[")[0] if subgraph.mapped else item)] = start.epoch[-1]
        return found


class Counters:
    """What the machine counts; see ``SchedulerMetrics``."""

    __slots__ = ("active", "executed", "retries", "short", "steps")

    def __init__(self) -> None:
        self.active = self.executed = self.retries = self.steps = 0
        self.short = (
            0  # steps of one execution each that went the short way, and are in neither of the others
        )


def stream(seed: int, path: str, attempt: int, name: str) -> Random:
    """The random stream `name` of one attempt of one item: nobody else's draws move it."""
    from random import Random

    parts = (str(seed), path, str(attempt), name)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return Random(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))
