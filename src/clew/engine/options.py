"""The options of a machine, its counters, and the prior work that it starts with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew.engine.records import Failure, Outcome, Start, Step
from clew.engine.stops import Stops
from clew.graph import Graph

if TYPE_CHECKING:
    from random import Random

Status = Literal["queued", "running", "sleeping", "waiting", "paused", "completed", "failed", "cancelled"]
MOVING = frozenset({"queued", "running", "sleeping"})
"""The statuses of a run that continues without a caller: a process executes it, or a worker will."""

OPEN = MOVING | {"waiting", "paused"}
"""The statuses of a run that has not ended."""

Order = tuple[int, ...]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of a run, independent of the driver."""

    seed: int = 0
    queue_depth: int = 1024
    max_steps: int = 10_000  # the last step
    began: int = 0  # the step from which the limit was counted
    on_error: Literal["stop", "continue"] = "stop"
    on_conflict: str = "error"  # or "last"
    listening: bool = False
    observed: bool = False  # failed attempts are reported
    durable: bool = False  # values have to be stored
    step_by_step: bool = False  # the driver takes every item; no fast path
    stops: Stops | None = None  # where the run pauses; no fast path
    # steps by hand of a run that this run retraces, by frame and number
    edits: Mapping[tuple[str, int], Step] = {}


class Notification(msgspec.Struct, frozen=True):
    """An event for listeners; the driver adds the run and the time."""

    kind: str
    step: int
    path: str
    data: Mapping[str, Any] = {}


class PriorWork(msgspec.Struct, frozen=True):
    """Results of earlier work on the same run, by path, used instead of executing again."""

    finished: Mapping[str, Outcome] = {}
    # by path and position, in the order in which they were given
    answers: Mapping[str, Mapping[str, Any]] = {}
    answered: Mapping[str, float] = {}  # by path: when the last answer was given
    attempts: Mapping[str, int] = {}
    frames: Mapping[str, tuple[Start, Sequence[Step]]] = {}
    failures: Sequence[tuple[Order, Failure]] = ()  # confined failures in the chain
    retraced: Mapping[tuple[str, int], Step] | None = (
        None  # by frame and number; None unless this run retraces another
    )
    held: set[str] = set()  # subgraph items between two attempts; the driver knows when the next is due

    def with_answer(self, path: str, position: str, answer: Any, when: float) -> PriorWork:
        """Return a copy with the answer to the question asked at `position` by the item at `path`."""
        answers = {**self.answers, path: {**self.answers.get(path, {}), position: answer}}
        return msgspec.structs.replace(self, answers=answers, answered={**self.answered, path: when})

    def with_attempt(self, path: str, attempt: int) -> PriorWork:
        """Return a copy in which the item at `path` is at this attempt."""
        return msgspec.structs.replace(self, attempts={**self.attempts, path: attempt})

    def without(self, prefix: str, nodes: Mapping[str, int]) -> tuple[PriorWork, list[Outcome]]:
        """Return a copy without the outcomes of these nodes of a frame, each from a visit on; and these outcomes."""
        gone = [
            outcome
            for path, outcome in self.finished.items()
            if outcome.node in nodes
            and outcome.visit >= nodes[outcome.node]
            and path == prefix + outcome.path
        ]
        paths = {prefix + outcome.path for outcome in gone}
        finished = {path: outcome for path, outcome in self.finished.items() if path not in paths}
        return msgspec.structs.replace(self, finished=finished), gone

    def begun(self, prefix: str, nodes: Mapping[str, int], graph: Graph) -> dict[str, int]:
        """Return the subgraph items of these nodes, each from a visit on, that have frames, with their attempts."""
        found: dict[str, int] = {}
        for inner, (start, _) in self.frames.items():
            item, inside, deeper = inner[len(prefix) :].partition("/")
            name, _, place = item.partition("#")
            if not inner.startswith(prefix) or not inside or deeper or name not in nodes:
                continue
            subgraph = graph.nodes[name].subgraph
            if subgraph is not None and int(place.partition("[")[0]) >= nodes[name]:
                found[prefix + (item.rpartition("[")[0] if subgraph.mapped else item)] = start.epoch[-1]
        return found


class Counters:
    """Counters of the machine; see ``SchedulerMetrics``."""

    __slots__ = ("active", "cached", "executed", "fast_steps", "retries", "steps")

    def __init__(self) -> None:
        self.active = self.cached = self.executed = self.retries = self.steps = 0
        self.fast_steps = 0  # steps on the fast path, not included in `steps` and `executed`


def stream(seed: int, path: str, attempt: int, name: str) -> Random:
    """Return the random stream `name` of one attempt of one item, independent of all other streams."""
    from random import Random

    parts = (str(seed), path, str(attempt), name)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return Random(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))
