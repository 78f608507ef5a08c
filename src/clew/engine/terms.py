"""The terms on which a machine works: its options, what it counts, what it is told about earlier work."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew.engine.records import Outcome, Start, Step

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


class Notice(msgspec.Struct, frozen=True):
    """Something worth showing happened; the driver adds run and time."""

    kind: str
    step: int
    path: str
    data: Mapping[str, Any] = {}


class Memory(msgspec.Struct, frozen=True):
    """What earlier work on the same run left behind, by path: used instead of executing again."""

    journal: Mapping[str, Outcome] = {}
    answers: Mapping[str, Sequence[Any]] = {}
    attempts: Mapping[str, int] = {}
    strands: Mapping[str, tuple[Start, Sequence[Step]]] = {}
    errors: Sequence[tuple[Order, BaseException]] = ()  # confined failures in the chain
    held: set[str] = set()  # subgraph items between two attempts: handed to the driver, who knows the time

    def with_answer(self, path: str, answer: Any) -> Memory:
        """The memory with one more answer to the item at `path`."""
        answers = {**self.answers, path: (*self.answers.get(path, ()), answer)}
        return msgspec.structs.replace(self, answers=answers)

    def without(self, prefix: str, nodes: Collection[str]) -> Memory:
        """The memory without the outcomes of these nodes in the strand at `prefix`."""
        gone = {prefix + outcome.path for outcome in self.journal.values() if outcome.node in nodes}
        journal = {path: outcome for path, outcome in self.journal.items() if path not in gone}
        return msgspec.structs.replace(self, journal=journal)


class Counters:
    """What the machine counts; see ``SchedulerMetrics``."""

    __slots__ = ("active", "executed", "retries", "steps")

    def __init__(self) -> None:
        self.active = self.executed = self.retries = self.steps = 0


def stream(seed: int, path: str, attempt: int, name: str) -> Random:
    """The random stream `name` of one attempt of one item: nobody else's draws move it."""
    from random import Random

    parts = (str(seed), path, str(attempt), name)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return Random(int.from_bytes(hashlib.sha256(text.encode()).digest(), "big"))
