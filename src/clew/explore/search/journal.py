"""The journal of an exploration: a record of every state and transition, written to a store as they are found.

The journal holds each state with its enabled actions, and for each tried pair of state and action its result and its
violations. The open pairs and the order of the strategy follow from these. A resumed exploration therefore starts from
the beginning, takes from the journal what it contains, and runs actions only after that. Checkpoints do not survive a
process, so states are reached by replay. The baseline of the systems is stored next to the journal
(`clew.explore.search.baseline`).

Rules:

- Records are written in atomic batches. A state is never written after a transition that leads to it. Work that was not
  written when the process died is repeated.
- A journal belongs to one exploration: the same actions with the same conditions, invariants, systems and initial
  state. Any other exploration is rejected. The strategy and the limits may differ.
- Two processes cannot write one journal. While a process of this machine explores, another one does not start; on
  different machines the second writer is rejected.
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
from clew.explore.model.states import ID_LENGTH, State, pack, unpack
from clew.explore.model.violations import RecordedViolation
from clew.explore.model.world import StoredCheckpoint, World
from clew.explore.process_mark import lives_elsewhere, mark
from clew.explore.search import baseline
from clew.explore.search.action_table import ActionTable
from clew.stores.kv import KeyValueTable

FORMAT = 2
_BATCH_BYTES = 4 << 20  # of a baseline, written in one transaction
_HEADER, _PROCESS, _BASELINE, _INITIAL = "head", "process", "baseline", "initial"
_PIECE, _STATE, _OUTCOME = "k", "s", "t"  # prefixes of keys


class ActionOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The result of an action in a state. `target` is None if the action raised."""

    source: bytes
    action: str
    target: bytes | None
    violations: tuple[RecordedViolation, ...] = ()


class _StateRecord(msgspec.Struct, frozen=True, array_like=True):
    parts: bytes
    context: bytes
    checkpoint: str | None
    seconds: float
    enabled: tuple[str, ...]
    violations: tuple[RecordedViolation, ...]


class JournalHeader(msgspec.Struct, frozen=True):
    """The exploration that a journal belongs to."""

    format: int
    actions: list[tuple[str, list[str], int | None]]
    invariants: list[str]
    systems: list[str]
    initial: str


def header_of(world: World, table: ActionTable, invariants: list[Invariant], initial: bytes) -> JournalHeader:
    """Return the header of the journal of an exploration."""
    actions = table.actions if table.fixed else []
    return JournalHeader(
        FORMAT,
        [(action.name, list(action.requires), action.max_calls) for action in actions],
        [invariant.name for invariant in invariants],
        sorted(world.systems),
        initial.hex(),
    )


class Journal:
    """The journal of an exploration in a key-value table."""

    def __init__(
        self, table: KeyValueTable, world: World, actions: ActionTable, invariants: list[Invariant]
    ) -> None:
        self._table = table
        self._exploration = (world, actions, invariants)
        self._outcomes: dict[tuple[bytes, str], ActionOutcome] = {}
        self._states: dict[bytes, bytes] = {}
        self._pending: list[tuple[str, bytes | None]] = []
        self._next = 0
        self._version = 0
        self._header: JournalHeader | None = None
        self._baseline: baseline.Baseline | None = None
        self._is_open = self._has_begun = False
        self.was_restored = False  # the systems, because an earlier process was killed
        self.initial: list[RecordedViolation] | None = None
        self.resumed_transitions = 0  # outcomes that an earlier process wrote

    def open(self) -> None:
        """Check that the journal belongs to this exploration. Restore the world if its process was killed."""
        self._version = self._table.version()
        try:
            self._header = self._read(_HEADER, JournalHeader)
            self._baseline = self._read(_BASELINE, baseline.Baseline)
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from error
        self._check_not_in_use()
        if self._header is not None:
            _check(self._header, header_of(*self._exploration, b""))
        self.sign()
        world = self._exploration[0]
        if self._baseline is not None and not baseline.restore(world, self._baseline, self._pieces):
            raise JournalMismatchError(
                "this store holds the recovery data of an interrupted exploration of other systems; resume that "
                "exploration first, or use a new store"
            )

        self.was_restored = self._baseline is not None

    def sign(self) -> None:
        """Record that this process explores."""
        self._write([(_PROCESS, mark().encode())])
        self._is_open = True

    def begin(self, initial: bytes) -> None:
        """Load the journal, or start a new one."""
        if self._header is None:
            self._pending.append((_HEADER, msgspec.json.encode(header_of(*self._exploration, initial))))
        else:
            _check_initial(self._header, initial.hex())
            try:
                self._load()
            except msgspec.MsgspecError as error:
                raise self._unreadable(error) from error
        self._has_begun = True

    def _read(self, key: str, kind: type[Any]) -> Any:
        data = self._table.read(key)
        return None if data is None else msgspec.json.decode(data, type=kind)

    def _unreadable(self, error: Exception) -> StoreCorruptError:
        return StoreCorruptError(
            f"the journal {self._table.name!r} cannot be read: {error}; explore with a new store"
        )

    def _check_not_in_use(self) -> None:
        found = self._table.read(_PROCESS)
        if found is not None and lives_elsewhere(found.decode()):
            raise StoreConflictError(
                f"process {found.decode().split('/')[-2]} uses the journal {self._table.name!r} of this store; wait "
                "until it ends, or give this exploration another name"
            )

    # -- the baseline ---------------------------------------------------------------------------------------

    def save_baseline(self, initial: StoredCheckpoint, observed: WorldObservation) -> None:
        """Store the baseline of the world, unless an earlier process did."""
        if self._baseline is None:
            self._pending += self._baseline_records(initial, observed)
        self.flush()

    def _baseline_records(
        self, initial: StoredCheckpoint, observed: WorldObservation
    ) -> list[tuple[str, bytes | None]]:
        """Write the baseline, and return its last records, which complete it."""
        world = self._exploration[0]
        counts = [0] * len(world.systems)
        self._delete_pieces()
        batch: list[tuple[str, bytes | None]] = []
        size = 0
        try:
            for number, piece in baseline.save(world, initial):
                packed = zlib.compress(piece, 1)
                batch.append((f"{_PIECE}{number:04d}.{counts[number]:08d}", packed))
                counts[number], size = counts[number] + 1, size + len(packed)
                if size > _BATCH_BYTES:
                    self._write(batch)
                    batch, size = [], 0
        except CheckpointError as error:
            warnings.warn(str(error), ExplorationWarning, stacklevel=2)
            return []
        last = baseline.describe(world, initial, observed)
        return [*batch, (_BASELINE, msgspec.json.encode(last))] if last.saved else []

    def delete_baseline(self) -> None:
        """Delete the baseline, because the exploration has ended with the world in its initial state."""
        if not self._has_begun:  # this exploration never reached the initial state of the journal
            return
        try:
            self._write([(_BASELINE, None), (_PROCESS, None)])
            self._is_open = False
            baseline.release(self._exploration[0])
            self._delete_pieces()
        except StoreError:  # harmless: the next exploration restores the world once more
            return

    def _delete_pieces(self) -> None:
        self._write([(key, None) for key, _ in self._table.scan(_PIECE, check=False)])

    def _pieces(self, number: int) -> Iterator[bytes]:
        for _, packed in self._table.scan(f"{_PIECE}{number:04d}."):
            yield zlib.decompress(packed)

    # -- read -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for key, data in self._table.scan(_STATE):
            self._states[bytes.fromhex(key[1:])] = data
        for key, data in self._table.scan(_OUTCOME):
            outcome = msgspec.msgpack.decode(data, type=ActionOutcome)
            self._outcomes[outcome.source, outcome.action] = outcome
            self._next = int(key[1:]) + 1
        first = self._table.read(_INITIAL)
        if first is not None:
            self.initial = msgspec.msgpack.decode(first, type=list[RecordedViolation])
        self.resumed_transitions = len(self._outcomes)

    def outcome(self, source: bytes, action: str) -> ActionOutcome | None:
        """Return the recorded result of an action in a state, once; None if it was not recorded."""
        return self._outcomes.pop((source, action), None) if self._outcomes else None

    def state(self, digest: bytes) -> tuple[State, tuple[str, ...], tuple[RecordedViolation, ...]]:
        """Return a recorded state with its enabled actions and the violations of its preconditions."""
        data = self._states.pop(digest, None)
        if data is None:
            raise StoreCorruptError(
                f"the journal {self._table.name!r} lacks state {digest.hex()[:ID_LENGTH]}; explore with a new store"
            )
        record = msgspec.msgpack.decode(data, type=_StateRecord)
        state = State(digest, unpack(record.parts), record.context, record.checkpoint, record.seconds)
        return state, record.enabled, record.violations

    # -- write ----------------------------------------------------------------------------------------------

    def add_state(self, state: State, enabled: Iterable[str], violations: list[RecordedViolation]) -> None:
        """Record a new state."""
        record = _StateRecord(
            pack(state.parts),
            state.context_data,
            state.checkpoint_id,
            state.seconds,
            tuple(enabled),
            tuple(violations),
        )
        self._add(f"{_STATE}{state.digest.hex()}", record)

    def add(self, outcome: ActionOutcome) -> None:
        """Record the result of an action."""
        self._add(f"{_OUTCOME}{self._next:012d}", outcome)
        self._next += 1

    def add_initial(self, violations: list[RecordedViolation]) -> None:
        """Record the violations of the initial state."""
        self._add(_INITIAL, violations)

    def _add(self, key: str, record: Any) -> None:
        self._pending.append((key, msgspec.msgpack.encode(record)))

    def flush(self) -> None:
        """Write all pending records."""
        if self._pending:
            self._write(self._pending)
            self._pending = []

    def _write(self, changes: list[tuple[str, bytes | None]]) -> None:
        if changes:
            self._version = self._table.write(changes, expect=self._version)

    def close(self) -> None:
        """Remove the mark of this process and close the table."""
        if self._is_open:
            with suppress(StoreError):
                self._write([(_PROCESS, None)])
        self._table.close()


def _check(stored: JournalHeader, current: JournalHeader) -> None:
    for field in ("format", "actions", "invariants", "systems"):
        was, now = getattr(stored, field), getattr(current, field)
        if was != now:
            raise JournalMismatchError(
                f"the store holds the journal of another exploration, with {field} {_joined(was)} instead of "
                f"{_joined(now)}; use a new store, or give this exploration another name"
            )


def _check_initial(stored: JournalHeader, initial: str) -> None:
    if stored.initial != initial:
        raise JournalMismatchError(
            f"the exploration in the store began in state {stored.initial[:ID_LENGTH]}, but the world is in state "
            f"{initial[:ID_LENGTH]}; restore the initial state (a system without save_baseline is not restored after a "
            "kill), or use a new store"
        )


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(item if isinstance(item, str) else str(item[0]) for item in value) or "none"
    return str(value)
