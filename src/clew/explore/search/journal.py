"""The journal of an exploration: what was seen, written to a shelf of a store as it happens.

It holds each state (with the actions that were possible there) and, for each pair of state and action that was tried,
where it led and what was wrong. That is all there is to know: which pairs are open, and which the strategy picks next,
follows from it. So an exploration that was killed starts again from the beginning, takes from the journal what it
holds, and touches the world only where the journal ends. Checkpoints are gone then; states are reached by replay. What
brings the world back to where it began lies beside the journal (`anchor`).

Rules:

- Records are written in batches, all or nothing; a state is never written after a transition that leads to it. What
  was not written when the process died is done again.
- A journal belongs to one exploration: the same actions with the same conditions, invariants, systems and initial
  state. Another one is refused. The strategy and the limits may differ.
- Two processes cannot write one journal: while one of this machine lives the other does not begin, and the second to
  write is refused wherever it is.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from clew.errors import (
    CheckpointError,
    ExplorationWarning,
    JournalMismatchError,
    StoreConflictError,
    StoreCorruptError,
    StoreError,
)
from clew.explore.model.identity import WorldObservation
from clew.explore.model.invariants import Invariant
from clew.explore.model.states import State, pack, unpack
from clew.explore.model.violations import ViolationKind
from clew.explore.model.world import StoredCheckpoint, World
from clew.explore.process_mark import lives_elsewhere, mark
from clew.explore.search import baseline
from clew.explore.search.action_table import ActionTable
from clew.stores.kv import KeyValueTable

FORMAT = 1
_AT_ONCE = 4 << 20  # bytes of an anchor that are written together
_PROCESS, _ANCHOR, _PIECES = "process", "anchor", "k"


class RecordedViolation(msgspec.Struct, frozen=True, array_like=True):
    """Something that was found wrong."""

    kind: ViolationKind
    severity: str
    message: str
    error: str | None = None


class ActionOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What an action did in a state. `target` is None where it raised."""

    source: bytes
    action: str
    target: bytes | None
    troubles: tuple[RecordedViolation, ...] = ()


class _StateRecord(msgspec.Struct, frozen=True, array_like=True):
    parts: bytes
    context: bytes
    checkpoint: str | None
    seconds: float
    enabled: tuple[str, ...]
    troubles: tuple[RecordedViolation, ...]


class JournalHeader(msgspec.Struct, frozen=True):
    """Which exploration a journal belongs to."""

    format: int
    actions: list[tuple[str, list[str], int | None]]
    invariants: list[str]
    systems: list[str]
    initial: str


def head_of(
    world: World, repertoire: ActionTable, invariants: list[Invariant], initial: bytes
) -> JournalHeader:
    """The head of the journal of an exploration."""
    actions = repertoire.actions if repertoire.fixed else []
    return JournalHeader(
        FORMAT,
        [(action.name, list(action.requires), action.max_calls) for action in actions],
        [invariant.name for invariant in invariants],
        sorted(world.systems),
        initial.hex(),
    )


class Journal:
    """A journal on a shelf."""

    def __init__(
        self, shelf: KeyValueTable, world: World, repertoire: ActionTable, invariants: list[Invariant]
    ) -> None:
        self._shelf = shelf
        self._about = (world, repertoire, invariants)
        self._outcomes: dict[tuple[bytes, str], ActionOutcome] = {}
        self._states: dict[bytes, bytes] = {}
        self._pending: list[tuple[str, bytes | None]] = []
        self._next = 0
        self._stamp = 0
        self._former: JournalHeader | None = None
        self._anchor: baseline.Baseline | None = None
        self._is_open = self._has_begun = False
        self.initial: list[RecordedViolation] | None = None
        self.recalled = 0  # outcomes that a former process had written

    def open(self) -> None:
        """See whose journal it is; if the process that wrote it was killed, put the world back to where it began."""
        self._stamp = self._shelf.stamp()
        try:
            self._former, self._anchor = (
                self._read("head", JournalHeader),
                self._read(_ANCHOR, baseline.Baseline),
            )
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from error
        self._refuse_if_explored()
        if self._former is not None:
            _check(self._former, head_of(*self._about, b""))
        self.sign()
        if self._anchor is not None and not baseline.put_back(self._about[0], self._anchor, self._pieces):
            raise JournalMismatchError(
                "a process was killed while it explored into this store, which has the only copy of what the systems "
                "held then, and these are others: explore those once more first, or explore into a new store"
            )

    def sign(self) -> None:
        """Say which process explores."""
        self._write([(_PROCESS, mark().encode())])
        self._is_open = True

    def begin(self, initial: bytes) -> None:
        """Read what is there, or start."""
        if self._former is None:
            self._pending.append(("head", msgspec.json.encode(head_of(*self._about, initial))))
        else:
            _check_initial(self._former, initial.hex())
            try:
                self._load()
            except msgspec.MsgspecError as error:
                raise self._unreadable(error) from error
        self._has_begun = True

    def _read(self, key: str, kind: type[Any]) -> Any:
        written = self._shelf.read(key)
        return None if written is None else msgspec.json.decode(written, type=kind)

    def _unreadable(self, error: Exception) -> StoreCorruptError:
        return StoreCorruptError(
            f"the journal {self._shelf.name!r} cannot be read: {error}; explore into a new store"
        )

    def _refuse_if_explored(self) -> None:
        found = self._shelf.read(_PROCESS)
        if found is not None and lives_elsewhere(found.decode()):
            raise StoreConflictError(
                f"process {found.decode().split('/')[-2]} explores into {self._shelf.name!r} of this store; wait "
                "for its end, or give this exploration another name"
            )

    # -- the way back ---------------------------------------------------------------------------------------

    def cast_anchor(self, initial: StoredCheckpoint, sight: WorldObservation) -> None:
        """Keep what brings the world back, before anything is done to it; unless it is there from a former process."""
        if self._anchor is None:
            self._pending += self._keep(initial, sight)
        self.flush()

    def _keep(self, initial: StoredCheckpoint, sight: WorldObservation) -> list[tuple[str, bytes | None]]:
        """Write what is to be kept; the last of it, which makes it complete, is left to be written."""
        world, counts = self._about[0], [0] * len(self._about[0].systems)
        self._write([(key, None) for key, _ in self._shelf.scan(_PIECES, check=False)])
        waiting: list[tuple[str, bytes | None]] = []
        size = 0
        try:
            for number, piece in baseline.pieces_of(world, initial):
                packed = zlib.compress(piece, 1)
                waiting.append((f"{_PIECES}{number:04d}.{counts[number]:08d}", packed))
                counts[number], size = counts[number] + 1, size + len(packed)
                if size > _AT_ONCE:
                    self._write(waiting)
                    waiting, size = [], 0
        except CheckpointError as error:
            warnings.warn(str(error), ExplorationWarning, stacklevel=2)
            return []
        found = baseline.describe(world, initial, sight)
        return [*waiting, (_ANCHOR, msgspec.json.encode(found))] if found.kept else []

    def weigh_anchor(self) -> None:
        """The world is where it began, and nothing more will be done to it."""
        if not self._has_begun:  # it began somewhere else
            return
        try:
            self._write([(_ANCHOR, None), (_PROCESS, None)])
            self._is_open = False
            baseline.let_go(self._about[0])
            self._write([(key, None) for key, _ in self._shelf.scan(_PIECES, check=False)])
        except StoreError:  # the next exploration puts the world back once more, which is no harm
            return

    def _pieces(self, number: int) -> Iterator[bytes]:
        for _, packed in self._shelf.scan(f"{_PIECES}{number:04d}."):
            yield zlib.decompress(packed)

    # -- reading --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for key, data in self._shelf.scan("s"):
            self._states[bytes.fromhex(key[1:])] = data
        for key, data in self._shelf.scan("t"):
            outcome = msgspec.msgpack.decode(data, type=ActionOutcome)
            self._outcomes[outcome.source, outcome.action] = outcome
            self._next = int(key[1:]) + 1
        first = self._shelf.read("initial")
        if first is not None:
            self.initial = msgspec.msgpack.decode(first, type=list[RecordedViolation])
        self.recalled = len(self._outcomes)

    def outcome(self, source: bytes, action: str) -> ActionOutcome | None:
        """What is known of an action in a state; handed out once."""
        return self._outcomes.pop((source, action), None) if self._outcomes else None

    def state(self, digest: bytes) -> tuple[State, tuple[str, ...], tuple[RecordedViolation, ...]]:
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

    def add_state(self, state: State, enabled: Iterable[str], troubles: list[RecordedViolation]) -> None:
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

    def add(self, outcome: ActionOutcome) -> None:
        """What an action did."""
        self._add(f"t{self._next:012d}", outcome)
        self._next += 1

    def add_initial(self, troubles: list[RecordedViolation]) -> None:
        """What is wrong with the initial state."""
        self._add("initial", troubles)

    def _add(self, key: str, record: Any) -> None:
        self._pending.append((key, msgspec.msgpack.encode(record)))

    def flush(self) -> None:
        """Write what is pending."""
        if self._pending:
            self._write(self._pending)
            self._pending = []

    def _write(self, changes: list[tuple[str, bytes | None]]) -> None:
        if changes:
            self._stamp = self._shelf.write(changes, expect=self._stamp)

    def close(self) -> None:
        """Let go of the shelf."""
        if self._is_open:
            with suppress(StoreError):
                self._write([(_PROCESS, None)])
        self._shelf.close()


def _check(former: JournalHeader, head: JournalHeader) -> None:
    for what in ("format", "actions", "invariants", "systems"):
        was, now = getattr(former, what), getattr(head, what)
        if was != now:
            raise JournalMismatchError(
                f"the store holds the journal of another exploration: its {_WORDS[what]} {_told(was)}, here "
                f"{_told(now)}; explore into a new store, or give the exploration another name"
            )


def _check_initial(former: JournalHeader, initial: str) -> None:
    if former.initial != initial:
        raise JournalMismatchError(
            f"the exploration in the store began in state {former.initial[:16]}, and the world is in "
            f"{initial[:16]}; bring it back to where it began (a process that was killed leaves a system without keep "
            "and recover in the middle), or explore into a new store"
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
