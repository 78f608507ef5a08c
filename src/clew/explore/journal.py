"""The journal of an exploration: what was seen, written to a shelf of a store as it happens.

It holds each state (with the actions that were possible there) and, for each pair of state and action that was tried,
where it led and what was wrong. That is all there is to know: which pairs are open, and which the strategy picks next,
follows from it. So an exploration that was killed starts again from the beginning, takes from the journal what it
holds, and touches the world only where the journal ends. Checkpoints are gone then; states are reached by replay.

Rules:

- Records are written in batches, all or nothing; a state is never written after a transition that leads to it. What
  was not written when the process died is done again.
- A journal belongs to one exploration: the same actions with the same conditions, invariants, systems and initial
  state. Another one is refused. The strategy and the limits may differ.
- Two processes cannot write one journal: the second to write is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clew.errors import JournalMismatchError, StoreCorruptError
from clew.explore.attic import pack, unpack
from clew.explore.invariants import Invariant
from clew.explore.repertoire import Repertoire
from clew.explore.states import State
from clew.explore.violations import Kind
from clew.explore.world import World
from clew.stores.shelf import Shelf

FORMAT = 1


class Trouble(msgspec.Struct, frozen=True, array_like=True):
    """Something that was found wrong."""

    kind: Kind
    severity: str
    message: str
    error: str | None = None


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """What an action did in a state. `target` is None where it raised."""

    source: bytes
    action: str
    target: bytes | None
    troubles: tuple[Trouble, ...] = ()


class _StateRecord(msgspec.Struct, frozen=True, array_like=True):
    parts: bytes
    context: bytes
    checkpoint: str | None
    seconds: float
    enabled: tuple[str, ...]
    troubles: tuple[Trouble, ...]


class Head(msgspec.Struct, frozen=True):
    """Which exploration a journal belongs to."""

    format: int
    actions: list[tuple[str, list[str], int | None]]
    invariants: list[str]
    systems: list[str]
    initial: str


def head_of(world: World, repertoire: Repertoire, invariants: list[Invariant], initial: bytes) -> Head:
    """The head of the journal of an exploration."""
    actions = repertoire.actions if repertoire.fixed else []
    return Head(
        FORMAT,
        [(action.name, list(action.requires), action.max_calls) for action in actions],
        [invariant.name for invariant in invariants],
        sorted(world.systems),
        initial.hex(),
    )


class Journal:
    """A journal on a shelf."""

    def __init__(
        self, shelf: Shelf, world: World, repertoire: Repertoire, invariants: list[Invariant]
    ) -> None:
        self._shelf = shelf
        self._about = (world, repertoire, invariants)
        self._outcomes: dict[tuple[bytes, str], Outcome] = {}
        self._states: dict[bytes, bytes] = {}
        self._pending: list[tuple[str, bytes | None]] = []
        self._next = 0
        self._stamp = 0
        self.initial: list[Trouble] | None = None
        self.recalled = 0  # outcomes that a former process had written

    def begin(self, initial: bytes) -> None:
        """Read what is there, or start."""
        head = head_of(*self._about, initial)
        self._stamp = self._shelf.stamp()
        written = self._shelf.read("head")
        if written is None:
            self._pending.append(("head", msgspec.json.encode(head)))
            self.flush()
            return
        try:
            former = msgspec.json.decode(written, type=Head)
            _check(former, head)
            self._load()
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"the journal {self._shelf.name!r} cannot be read: {error}; explore into a new store"
            ) from error

    def _load(self) -> None:
        for key, data in self._shelf.scan("s"):
            self._states[bytes.fromhex(key[1:])] = data
        for key, data in self._shelf.scan("t"):
            outcome = msgspec.msgpack.decode(data, type=Outcome)
            self._outcomes[outcome.source, outcome.action] = outcome
            self._next = int(key[1:]) + 1
        first = self._shelf.read("initial")
        if first is not None:
            self.initial = msgspec.msgpack.decode(first, type=list[Trouble])
        self.recalled = len(self._outcomes)

    def outcome(self, source: bytes, action: str) -> Outcome | None:
        """What is known of an action in a state; handed out once."""
        return self._outcomes.pop((source, action), None) if self._outcomes else None

    def state(self, digest: bytes) -> tuple[State, tuple[str, ...], tuple[Trouble, ...]]:
        """A state that an outcome leads to, with the actions that were possible in it."""
        data = self._states.pop(digest, None)
        if data is None:
            raise StoreCorruptError(
                f"the journal {self._shelf.name!r} lacks state {digest.hex()[:16]}; explore into a new store"
            )
        record = msgspec.msgpack.decode(data, type=_StateRecord)
        state = State(digest, unpack(record.parts), record.context, record.checkpoint, record.seconds)
        return state, record.enabled, record.troubles

    # -- writing --------------------------------------------------------------------------------------------

    def add_state(self, state: State, enabled: Iterable[str], troubles: list[Trouble]) -> None:
        """A new state."""
        record = _StateRecord(
            pack(state.parts),
            state.context_data,
            state.checkpoint_id,
            state.seconds,
            tuple(enabled),
            tuple(troubles),
        )
        self._add(f"s{state.digest.hex()}", record)

    def add(self, outcome: Outcome) -> None:
        """What an action did."""
        self._add(f"t{self._next:012d}", outcome)
        self._next += 1

    def add_initial(self, troubles: list[Trouble]) -> None:
        """What is wrong with the initial state."""
        self._add("initial", troubles)

    def _add(self, key: str, record: Any) -> None:
        self._pending.append((key, msgspec.msgpack.encode(record)))

    def flush(self) -> None:
        """Write what is pending."""
        if self._pending:
            self._stamp = self._shelf.write(self._pending, expect=self._stamp)
            self._pending = []

    def close(self) -> None:
        """Let go of the shelf."""
        self._shelf.close()


def _check(former: Head, head: Head) -> None:
    for what in ("format", "actions", "invariants", "systems"):
        was, now = getattr(former, what), getattr(head, what)
        if was != now:
            raise JournalMismatchError(
                f"the store holds the journal of another exploration: its {_WORDS[what]} {_told(was)}, here "
                f"{_told(now)}; explore into a new store, or give the exploration another name"
            )
    if former.initial != head.initial:
        raise JournalMismatchError(
            f"the exploration in the store began in state {former.initial[:16]}, and the world is in "
            f"{head.initial[:16]}; bring it back to where it began (a process that was killed leaves it in the "
            "middle), or explore into a new store"
        )


_WORDS = {
    "format": "format is",
    "actions": "actions are",
    "invariants": "invariants are",
    "systems": "systems are",
}


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(item if isinstance(item, str) else str(item[0]) for item in value) or "none"
    return str(value)[:16]
