"""Stored states: the initial state of a run, and snapshots.

A state is a JSON object with values in their stored form (``clew.state.values.stored``), versions, decisions, history
and position. Content of more than 64 KiB is a blob, stored once and uncompressed, as in steps: a snapshot of a value
that a step has written refers to the same blob. A long list is stored in compressed pieces, so the next snapshot of a
growing list writes only its new end. The body of a snapshot is compressed.

A fork or turn is read from the nearest snapshot among its ancestors. If that is eight runs away or more, the new run
gets a snapshot of its first state (`turn_snapshot`), unless it costs too much: all snapshots of a chain together take
at most eight times the bytes of its steps and inputs. A snapshot stores how much of this is left (its credit). So the
cost of a turn does not grow with the thread as long as a turn changes a small part of the state, and the storage grows
with the new data. Such a snapshot is *fine*: it divides its state further, because it follows soon after the last one.
Values of more than 1 KiB are blobs, and pieces are smaller near the end of a list. What has not changed since the last
snapshot is not stored again.

A forked run stores the change instead of a state: the parent, its step, and the values that were set. A turn of a
thread stores its input instead of these values (``clew.runtime.log.turns``).

The digest of an initial state is in the row of the run; that of a snapshot is the digest of its step. A loaded state
gets that digest. It is never computed from decoded values, because a newer version of a class may add fields to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from zlib import compress, decompress
from zlib import error as ZlibError

import msgspec

from clew.engine.updates.deltas import plain_deltas
from clew.errors import DecodeError, StoreCorruptError
from clew.runtime.log.entries.large_values import Blobs, Kept, Lookup, blobs_of, kept_of, part_kept
from clew.runtime.log.entries.records import SNAPSHOT
from clew.runtime.log.turns import Turn
from clew.state import (
    LARGE,
    GraphState,
    Position,
    assemble,
    canonical,
    changed_digest,
    columns_of,
    decode,
    encode,
    located,
    position_of,
    stored_value,
    stored_values,
)
from clew.state.position import STOPPED, plain_history, plain_position, read_history
from clew.stores import LogEntry

FIRST_SNAPSHOT = 256 * 1024
OUTWEIGH = 8
MANY_STEPS = 1_000
NODE_ENTRY = 32  # bytes that the latest execution of a node takes in a snapshot, at least
_NEVER = 1 << 62
PIECE = 1024  # items of a list in one piece
_FINE = 1024  # bytes of a value that a fine snapshot stores inside its body
_FINE_PIECES = (1024, 128, 16)  # items in one piece of a fine snapshot: large ones first

_json = msgspec.json.Encoder().encode
_FORK = b'{"parent"'
_TURN = b"clew:turn"  # part of the digest of a turn


FAR = 8  # runs between two snapshots of a chain of forks
_SHARE = 8  # bytes of snapshots for each byte of new data
_FREE = 4_096  # bytes


class SnapshotDistance(msgspec.Struct):
    """What was read to get a state: how many runs since the nearest snapshot, and the bytes of their steps."""

    runs: int = 0
    size: int = 0
    blobs: set[str] = set()
    """The blobs of that snapshot."""
    credit: int = _FREE

    def credit_after(self, size: int, stored: Blobs) -> int:
        """Return the credit of the next snapshot, of this size and with these blobs."""
        size += sum(len(stored[each]) for each in stored.keys() - self.blobs)
        return self.credit + _SHARE * self.size - size


class StoredFork(msgspec.Struct, frozen=True):
    """The stored change of a fork to a state of its parent."""

    parent: str
    step: int
    set: msgspec.Raw
    versions: dict[str, int] = {}
    decided: dict[str, str | list[str]] = {}  # [] if a gate was set to select nothing
    stopped: bool = False
    turn: list[str] | None = None  # of a turn: the nodes that it wakes
    deltas: msgspec.Raw = msgspec.Raw(b"{}")  # of a turn

    def digest(self, before: str) -> str:
        """Return the digest of the fork's first state; `before` is that of the parent's state."""
        decided = [encode(_decisions(self.decided))] if self.decided else []
        decided += [STOPPED] if self.stopped else []
        if self.turn is not None:
            decided += [_TURN, encode(self.turn), canonical(bytes(self.deltas))]
        if not self.versions and not decided:
            return before
        return changed_digest(before, canonical(bytes(self.set)), self.versions, *decided)


@dataclass(slots=True)  # each step changes it, and a Struct takes longer to change
class SinceSnapshot:
    """The steps since the last snapshot of a run, and whether the next one is due.

    It is due when these steps outweigh the last one several times, so the snapshots take a fraction of the space of the
    steps. Reading many small steps takes time as well: after `MANY_STEPS`, a state that is small is stored too. A state
    cannot be small if many nodes have run, because it has an entry for each; then it is not even encoded.
    """

    weight: int = 0  # bytes of the last snapshot
    size: int = 0  # bytes of the steps, with their blobs
    steps: int = 0
    most: int = MANY_STEPS
    nodes: int = 0  # that ran for the first time, in all steps of which this is known

    def add(self, size: int, steps: int = 1, nodes: int = 0) -> bool:
        """Count steps; return whether a snapshot may be due. `is_worth` decides, given the snapshot."""
        self.steps = count = self.steps + steps
        self.size = size = self.size + size
        self.nodes += nodes
        if count >= self.most and size >= OUTWEIGH * NODE_ENTRY * self.nodes:
            return True
        return size > FIRST_SNAPSHOT and size > OUTWEIGH * self.weight

    @property
    def is_due(self) -> bool:
        """Whether a snapshot may be due."""
        return self.add(0, 0)

    def is_worth(self, weight: int) -> bool:
        """Return whether to store a snapshot of this weight, and begin to count again."""
        if self.size <= max(FIRST_SNAPSHOT, OUTWEIGH * self.weight) and OUTWEIGH * weight > self.size:
            self.most = _NEVER
            return False
        self.weight, self.size, self.steps, self.most = weight, 0, 0, MANY_STEPS
        return True


# -- writing ---------------------------------------------------------------------------------------------------------


def stored_start(state: GraphState, blobs: Blobs) -> bytes:
    """Encode the initial state of a run."""
    return _stored_state(state, blobs)[0]


def stored_fork(parent: str, state: GraphState, blobs: Blobs) -> bytes:
    """Encode a fork: the step of its parent, and the values that were set."""
    position = position_of(state)
    values = {name: state.get(name) for name in sorted(position.touched)}
    stored, _ = stored_values(values, at="state", blobs=blobs)
    fork = StoredFork(
        parent,
        state.step,
        msgspec.Raw(stored),
        {name: state.get_version(name) for name in values},
        {gate: _listed(state.gate_decisions.get(gate, ())) for gate in sorted(position.decided)},
        position.stopped,
    )
    return _json(fork)


def stored_turn(parent: str, state: GraphState, turn: Turn, blobs: Blobs) -> bytes:
    """Encode a turn: the step of its parent, its input, and the deltas of values with reducers."""
    stored, _ = stored_values(turn.values, at="state", blobs=blobs)
    deltas, _ = stored_values(plain_deltas(turn.deltas), at="state", blobs=blobs)
    versions = {name: state.get_version(name) for name in turn.values}
    fork = StoredFork(
        parent, state.step, msgspec.Raw(stored), versions, turn=list(turn.woken), deltas=msgspec.Raw(deltas)
    )
    return _json(fork)


def digest_of_turn(before: str, parent: str, state: GraphState, turn: Turn) -> str:
    """Return the digest of the first state of a turn; `before` is that of the parent's state."""
    return decode_fork(stored_turn(parent, state, turn, {})).digest(before)


def _listed(decision: str | tuple[str, ...]) -> str | list[str]:
    return list(decision) if isinstance(decision, tuple) else decision


def _decisions(decided: Mapping[str, str | list[str]]) -> dict[str, Any]:
    return {gate: tuple(made) if isinstance(made, list) else made for gate, made in decided.items()}


def turn_snapshot(start: GraphState, distance: SnapshotDistance) -> tuple[LogEntry, Blobs] | None:
    """Return a snapshot of the first state of a run, given how its parent's state was read; None if none is due."""
    if distance.runs < FAR or distance.runs % FAR:
        return None
    blobs: Blobs = {}
    entry, _ = snapshot_entry(start, blobs, distance)
    return (entry, blobs) if credit_of(entry) >= 0 else None


def snapshot_entry(
    state: GraphState, blobs: Blobs, distance: SnapshotDistance | None = None
) -> tuple[LogEntry, int]:
    """Create a snapshot; with a `distance`, a fine one. Its weight is its uncompressed size, without existing blobs
    that it refers to."""
    body, weight = _stored_state(state, blobs, in_pieces=True, distance=distance)
    return LogEntry(SNAPSHOT.name, "", state.step, compress(body, 1), bytes.fromhex(state.digest)), weight


def _stored_state(
    state: GraphState,
    blobs: Blobs,
    *,
    in_pieces: bool = False,
    distance: SnapshotDistance | None = None,
) -> tuple[bytes, int]:
    own: Blobs = {}
    plain: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    pieces: dict[str, list[str]] = {}
    is_fine = distance is not None
    for name, value in columns_of(state)[0].items():
        if type(value) is Kept:
            kept[name] = {"$blob": [value.kind, value.digest]}
        elif (
            in_pieces
            and type(value) is list
            and len(value) > (_FINE_PIECES[-1] if is_fine else PIECE)
            and (found := _pieces(name, value, own, is_fine))
        ):
            pieces[name] = found
        elif is_fine and (reference := _apart(name, value, own)) is not None:
            kept[name] = reference
        else:
            plain[name] = value
    stored, _ = stored_values(plain, at="state", blobs=own)
    weight = len(stored) + sum(map(len, own.values()))
    blobs.update(own)
    form: dict[str, Any] = {"values": msgspec.Raw(stored)}
    if kept:
        form["kept"] = kept
    if pieces:
        form["pieces"] = pieces
    if kept or pieces:
        form["names"] = list(columns_of(state)[0])
    form["rest"] = msgspec.Raw(stored_value(_rest(state), at="state", blobs=blobs))
    if state.step:
        form["step"] = state.step
    if in_pieces:
        form["digest"] = state.digest
    body = _json(form)
    if distance is not None:
        body = _json({**form, "credit": distance.credit_after(len(body), blobs)})
    return body, weight + len(body) - len(stored)


def _rest(state: GraphState) -> dict[str, Any]:
    """Return the parts of a state other than values, without those that equal an empty state."""
    rest: dict[str, Any] = {
        "versions": {name: version for name, version in columns_of(state)[1].items() if version},
        "decisions": dict(state.gate_decisions),
        "terminated": state.has_chosen_end,
        "history": plain_history(state.node_history),
        "position": plain_position(located(state)),
    }
    return {name: value for name, value in rest.items() if value}


def _pieces(name: str, value: list[Any], blobs: Blobs, is_fine: bool) -> list[str]:
    """Store a list as compressed pieces and return their digests; [] if the list is small."""
    contents, size, own = list[tuple[str, bytes]](), 0, Blobs()
    for first, last in _ranges(len(value), _FINE_PIECES if is_fine else (PIECE,)):
        content = _unwrapped(stored_value(value[first:last], at=name, blobs=own), own)
        size += len(content)
        piece = compress(content, 1)
        contents.append((sha256(piece).hexdigest(), piece))
    if size <= (_FINE if is_fine else LARGE):
        return []
    blobs.update(own)
    blobs.update(contents)
    return [digest for digest, _ in contents]


def _ranges(length: int, sizes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Divide a list into pieces of these sizes, and a rest. A longer list has the same pieces, or larger ones."""
    first = 0
    for size in sizes:
        while length - first >= size:
            yield first, first + size
            first += size
    if first < length:
        yield first, length


def _apart(name: str, value: Any, blobs: Blobs) -> Any:
    """Store a value of more than 1 KiB as a blob and return the reference; None if the value is small."""
    own = Blobs()
    stored = stored_value(value, at=name, blobs=own)
    if own or len(stored) <= _FINE:
        return None
    digest = sha256(stored).hexdigest()
    blobs[digest] = stored
    return {"$blob": ["json", digest]}


def _unwrapped(stored: bytes, blobs: Blobs) -> bytes:
    """Return the stored bytes of a piece, not of a reference to a blob: the piece is a blob itself."""
    if stored.startswith(b'{"$blob":["json"'):
        return blobs.pop(msgspec.json.decode(stored)["$blob"][1])
    return stored


# -- reading ---------------------------------------------------------------------------------------------------------


def is_fork(data: bytes) -> bool:
    """Return whether an initial state is stored as a fork."""
    return bytes(data[: len(_FORK)]) == _FORK


def begins_turn(start: Any) -> bool:
    """Return whether the initial state of a run that has a parent, as its row has it, is that of a turn."""
    if isinstance(start, GraphState):  # in memory
        return position_of(start).began == start.step and not position_of(start).touched
    try:
        return is_turn(start)
    except msgspec.MsgspecError:  # damaged
        return False


def is_turn(data: Any) -> bool:
    """Return whether the initial state of a run, as its row has it, is stored as a turn."""
    return isinstance(data, bytes) and is_fork(data) and decode_fork(data).turn is not None


def decode_fork(data: bytes) -> StoredFork:
    """Decode a fork. Raise ValueError if it is damaged."""
    return msgspec.json.decode(data, type=StoredFork)


def read_start(data: bytes, digest: str, blob: Lookup, *, classes: bool = True) -> GraphState:
    """Decode the initial state of a run, given its digest. Raise StoreCorruptError if it is damaged."""
    return _state(bytes(data), digest, blob, classes, keeps=False)[0]


def read_snapshot(
    entry: LogEntry, blob: Lookup, *, classes: bool = True, keeps: bool = False
) -> tuple[GraphState, int]:
    """Decode a snapshot: the state and its weight. With `keeps`, large values are not fetched but `Kept`."""
    return _state(_decompressed(entry.body), bytes(entry.digest).hex(), blob, classes, keeps=keeps)


def step_of_start(data: bytes) -> int:
    """Return the step of an initial state. Raise ValueError if it is damaged."""
    return msgspec.json.decode(data, type=_Form).step


def credit_of(entry: LogEntry) -> int:
    """Return how many bytes the snapshots of a chain may add besides those for its new data."""
    return msgspec.json.decode(_decompressed(entry.body), type=_Form).credit


def is_of_step(entry: LogEntry) -> bool:
    """Return whether a snapshot contains the state of its digest. Raise DecodeError if it is damaged."""
    return msgspec.json.decode(_decompressed(entry.body), type=_Form).digest == bytes(entry.digest).hex()


def blobs_of_snapshot(entry: LogEntry, blob: Lookup) -> Iterator[tuple[str, bytes]]:
    """Yield digest and content of the blobs of a snapshot. Raise DecodeError if it is damaged."""
    body = _decompressed(entry.body)
    yield from blobs_of(body, blob)
    for pieces in msgspec.json.decode(body, type=_Form).pieces.values():
        for digest in pieces:
            content = blob(digest)
            yield digest, content
            yield from blobs_of(_decompressed(content), blob)


def _decompressed(data: bytes) -> bytes:
    try:
        return decompress(data)
    except ZlibError as error:
        raise DecodeError(f"it cannot be decompressed: {error}") from error


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    values: msgspec.Raw
    rest: msgspec.Raw
    kept: dict[str, msgspec.Raw] = {}
    pieces: dict[str, list[str]] = {}
    names: list[str] = []
    step: int = 0
    digest: str = ""
    credit: int = 0  # of a snapshot at the start of a turn


def _state(data: bytes, digest: str, blob: Lookup, classes: bool, *, keeps: bool) -> tuple[GraphState, int]:
    weight = len(data)

    def fetch(name: str) -> bytes:
        nonlocal weight
        content = blob(name)
        weight += len(content)
        return content

    def read(stored: bytes) -> Any:
        return decode(stored, blob=fetch, classes=classes, unfit="keep")

    try:
        form = msgspec.json.decode(data, type=_Form)
        where = f"the state at step {form.step}"
        if form.digest and form.digest != digest:
            raise ValueError("it belongs to a different state")
        stored, held = part_kept(bytes(form.values), where) if keeps else (bytes(form.values), {})
        values: dict[str, Any] = {**read(stored), **held}
        for name, reference in form.kept.items():
            values[name] = kept_of(reference, where) if keeps else read(bytes(reference))
        for name, digests in form.pieces.items():
            pieces = (read(_decompressed(fetch(each))) for each in digests)
            values[name] = [item for piece in pieces for item in piece]
        if form.names:
            values = {name: values[name] for name in form.names}
        rest = read(bytes(form.rest))
        return _assembled(values, rest, digest), weight
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreCorruptError(f"its parts are inconsistent: {error}") from error


def _assembled(values: dict[str, Any], rest: dict[str, Any], digest: str) -> GraphState:
    versions = rest.get("versions", {})
    state = assemble(
        values=values,
        versions={name: versions.get(name, 0) for name in values},
        decisions=rest.get("decisions", {}),
        terminated=rest.get("terminated", False),
        position=Position(**rest.get("position", {})),
        history=read_history(rest.get("history", ())),
    )
    return state.with_digest(digest)
