"""The log codec: encodes records as entries of a store, and decodes them. See ``clew.runtime.log.entries.records``.

Bodies are JSON with values in their stored form (``clew.state.values.stored``): in insertion order, so that resumed
code sees the same order, and with large content in blobs. The body of a step is its only outcome, or a list of
outcomes; with deltas it is an object of outcomes (``o``) and deltas (``m``). An outcome is a list: node, visit, update,
start (in microseconds since the run was created) and duration. Optional fields follow: the single node that it chose,
or an object with ``i`` index in a batch, ``d`` decision, ``a`` attempt, ``c`` not executed, ``e`` error, ``r`` the
value whose reducer rejected the update, ``f`` failures that were rescued or happened inside the item, and ``s``
rescued.

The digest of a step continues its chain. It covers paths, updates, deltas and decisions, in the canonical form of the
stored bytes. The digest of any other entry is a checksum of its body. Times, attempts and errors are covered by the
checksum that a store keeps for each entry. So checking an entry decodes no values (``check_entry``,
``digest_of_step``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from clew.engine.history.chain import BY_HAND, digest_after, outcome_bytes, stored_decision, stored_deltas
from clew.engine.records import Choice, FinishedItem, Outcome, SingleItemStep, Start, Step
from clew.engine.updates.deltas import Delta
from clew.engine.updates.unstorable import refused
from clew.errors import ClassChangedError, DecodeError, EncodeError, RecordCorruptError, StoreCorruptError
from clew.graph import Send
from clew.runtime.log.entries.call_records import RecordedCall
from clew.runtime.log.entries.large_values import Blobs, part_kept
from clew.runtime.log.entries.records import CALL, KIND_OF, KINDS, STEP, describe_entry
from clew.runtime.log.entries.stored_errors import error_of, failure_of, plain_error, plain_failure
from clew.runtime.log.metrics import micros
from clew.state import canonical, decode, first_digest, stored_value, stored_values
from clew.stores import LogEntry

_json = msgspec.json.Encoder().encode
_NO_DECISION = b"null"
_MADE_BY_HAND = b"," + _json(BY_HAND) + b"]"


class EntryEncoder:
    """Encodes the records of one run as entries, and computes the digests of its chains."""

    def __init__(self, digests: Mapping[str, str], epoch: float) -> None:
        # by frame: the digest of its last state
        self._digests = {frame: bytes.fromhex(digest) for frame, digest in digests.items()}
        self._epoch = epoch  # when the run was created
        self._parts: list[bytes] = []  # the canonical bytes of the outcomes of a step
        self._deltas = b""  # the canonical bytes of its deltas
        self._values = b""  # the canonical bytes of the values of a start
        self._spans: list[tuple[int, int]] = []  # start and end of each outcome, in microseconds
        self.latency = 0  # of all steps of the root frame, in microseconds
        self.blobs: Blobs = {}
        self.refused: tuple[Step | FinishedItem, Outcome] | None = None  # it cannot be stored

    def entry(self, record: Any) -> LogEntry:
        """Encode a record. Raise EncodeError with node and path if a value has no encoding."""
        known = len(self.blobs)
        try:
            return self._single(record) if type(record) is SingleItemStep else self._entry(record)
        except EncodeError as error:
            # discard the blobs of this record; keep those of the records before it
            self.blobs = dict(islice(self.blobs.items(), known))
            raise self._named(record, error) from error

    def _entry(self, record: Any) -> LogEntry:
        kind = KIND_OF[type(record)]
        self._parts, self._deltas, self._spans = [], b"", []
        path, n, plain = kind.encode(record, self)
        body = _json(plain)
        if kind is STEP:
            before = self._digests[record.prefix]
            digest = self._digests[record.prefix] = digest_after(before, self._parts, self._deltas)
            if not record.prefix:
                self.latency += max(end for _, end in self._spans) - min(began for began, _ in self._spans)
            return LogEntry(kind.name, path, n, body, digest)
        if type(record) is Start:
            versions = dict.fromkeys(record.values, 0)
            self._digests[record.prefix] = bytes.fromhex(first_digest(self._values, versions))
        return LogEntry(kind.name, path, n, body, _checksum(body))

    def _single(self, step: SingleItemStep) -> LogEntry:
        """Encode a step of one plain item: `_entry` for the fast path (``clew.engine.fast_path`` has the numbers)."""
        if step.decision is not None or step.deltas:
            return self._entry(step.step())
        stored, canonical = stored_values(step.update, at="state", blobs=self.blobs)
        name, visit = step.node, step.visit
        part = outcome_bytes(f"{name}#{visit}", canonical, _NO_DECISION, False)
        digest = self._digests[""] = digest_after(self._digests[""], (part,))
        started, duration = round((step.started - self._epoch) * 1e6), round(step.duration * 1e6)
        self.latency += duration
        body = _json([name, visit, msgspec.Raw(stored), started, duration])
        return LogEntry(STEP.name, "", step.number, body, digest)

    def _named(self, record: Any, error: EncodeError) -> EncodeError:
        """Return the error with the node and path of the value, if they can be found; remember the outcome."""
        if isinstance(record, SingleItemStep):
            record = record.step()
        outcomes: Sequence[Outcome] = ()
        if isinstance(record, Step):
            outcomes = record.outcomes
        elif isinstance(record, FinishedItem):
            outcomes = (record.outcome,)
        for each in outcomes:
            found = refused(each.node, record.prefix + each.path, each.update, each.decision)
            if found is not None:
                self.refused = record, each
                return found
        if isinstance(record, RecordedCall):
            return EncodeError(f"the call {record.name!r} at {record.path} cannot be recorded: {error}")
        return error

    # -- parts of bodies, for the kinds ------------------------------------------------------------------

    def outcome(self, outcome: Outcome) -> list[Any]:
        """Return an outcome for `_json`."""
        update, canonical = stored_values(outcome.update, at="state", blobs=self.blobs)
        decision, chosen = stored_decision(outcome.decision, self.blobs)
        ending = BY_HAND if outcome.by_hand else outcome.error is not None
        self._parts.append(outcome_bytes(outcome.path, canonical, chosen, ending))
        started, duration = micros(outcome.started - self._epoch), micros(outcome.duration)
        self._spans.append((started, started + duration))
        plain: list[Any] = [outcome.node, outcome.visit, msgspec.Raw(update), started, duration]
        rest = self._rest(outcome, decision)
        if rest:
            choices = outcome.decision or ()
            is_plain = len(rest) == 1 == len(choices) and isinstance(choices[0], str)
            plain.append(choices[0] if is_plain else rest)
        return plain

    def _rest(self, outcome: Outcome, decision: bytes) -> dict[str, Any]:
        """Return the optional fields of an outcome."""
        rest: dict[str, Any] = {}
        if outcome.index >= 0:
            rest["i"] = outcome.index
        if outcome.decision is not None:
            rest["d"] = msgspec.Raw(decision)
        if outcome.attempt:
            rest["a"] = outcome.attempt
        if outcome.cached:
            rest["c"] = True
        if outcome.refused:
            rest["r"] = outcome.refused
        if outcome.by_hand:
            rest["h"] = True
        if outcome.error is not None:
            rest["e"] = self.value(plain_error(outcome.error), "error")
        if outcome.failures:
            rest["f"] = self.value([plain_failure(failure) for failure in outcome.failures], "error")
        if outcome.rescued:
            rest["s"] = True
        return rest

    def deltas(self, deltas: Mapping[str, Delta]) -> Any:
        """Return deltas for `_json`."""
        stored, self._deltas = stored_deltas(deltas, self.blobs)
        return msgspec.Raw(stored)

    def value(self, value: Any, at: str) -> Any:
        """Return one value for `_json`."""
        return msgspec.Raw(stored_value(value, at=at, blobs=self.blobs))

    def values(self, values: Mapping[str, Any]) -> Any:
        """Return values by name for `_json`."""
        stored, self._values = stored_values(values, at="state", blobs=self.blobs)
        return msgspec.Raw(stored)

    def content(self, content: bytes) -> str:
        """Add a blob and return its digest."""
        digest = sha256(content).hexdigest()
        self.blobs[digest] = content
        return digest


# -- checking --------------------------------------------------------------------------------------------------------


def check_entry(run_id: str, entry: LogEntry) -> None:
    """Raise if the kind of an entry is unknown, or if its digest does not match; chains verify the digests of steps."""
    if entry.kind not in KINDS:
        raise _damage(run_id, entry, DecodeError(f"unknown kind {entry.kind!r}"))
    if entry.kind != STEP.name and _checksum(entry.body) != entry.digest:
        raise _damage(run_id, entry, DecodeError("digest mismatch"))


def _checksum(body: bytes) -> bytes:
    return sha256(body).digest()[:16]


class _Rest(msgspec.Struct):
    i: int = -1
    d: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    e: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    h: bool = False


class _WithDeltas(msgspec.Struct):
    o: list[list[msgspec.Raw]]
    m: msgspec.Raw


_outcomes = msgspec.json.Decoder(list[list[msgspec.Raw]]).decode
_outcome = msgspec.json.Decoder(list[msgspec.Raw]).decode
_with_deltas = msgspec.json.Decoder(_WithDeltas).decode
_rest = msgspec.json.Decoder(_Rest).decode
_plain = msgspec.json.Decoder().decode


def digest_of_step(previous: bytes, body: bytes) -> bytes:
    """Return the digest of the state after a step, from its stored bytes. Raise DecodeError if they are invalid."""
    try:
        deltas, opening = b"", bytes(body[:2])
        if opening[:1] == b"{":
            step = _with_deltas(body)
            outcomes, deltas = step.o, canonical(bytes(step.m))
        else:
            outcomes = _outcomes(body) if opening in (b"[[", b"[]") else [_outcome(body)]
        return digest_after(previous, [_part(fields) for fields in outcomes], deltas)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DecodeError(f"these bytes are not a step: {error}") from error


def _part(fields: Sequence[msgspec.Raw]) -> bytes:
    """Return the canonical bytes of an outcome, as `outcome_bytes` does, from its stored bytes."""
    node, visit, update, _, _, *more = fields
    index, decision, ending = b"", _NO_DECISION, b",false]"
    if more:
        raw = bytes(more[0])
        if raw.startswith(b'"'):
            decision = b"[" + raw + b"]"
        else:
            rest = _rest(raw)
            index = b"[%d]" % rest.i if rest.i >= 0 else b""
            decision = _NO_DECISION if rest.d is msgspec.UNSET else canonical(bytes(rest.d))
            ending = b",false]" if rest.e is msgspec.UNSET else b",true]"
            if rest.h:
                ending = _MADE_BY_HAND
    stored = bytes(update)
    # One name, and no dict or tagged object below it: nothing to sort.
    is_plain = stored.count(b'":') == 1 and b'"$' not in stored
    path = b"[" + bytes(node)[:-1] + b"#" + bytes(visit) + index + b'",'
    return path + (stored if is_plain else canonical(stored)) + b"," + decision + ending


def step_times(body: bytes) -> Iterator[tuple[str, str, float, float, int, bool]]:
    """Yield node, path, start and duration in seconds since the run was created, attempt and whether it failed, for
    each item of a stored step. Its values are not decoded. Raise DecodeError if the bytes are invalid."""
    try:
        opening = bytes(body[:2])
        if opening[:1] == b"{":
            outcomes = _with_deltas(body).o
        else:
            outcomes = _outcomes(body) if opening in (b"[[", b"[]") else [_outcome(body)]
        for node, visit, _, started, duration, *more in outcomes:
            rest = _plain(more[0]) if more else {}
            rest = rest if isinstance(rest, dict) else {}
            name, index = _plain(node), rest.get("i", -1)
            path = f"{name}#{_plain(visit)}" if index < 0 else f"{name}#{_plain(visit)}[{index}]"
            has_failed = "e" in rest or "f" in rest
            yield name, path, _plain(started) / 1e6, _plain(duration) / 1e6, rest.get("a", 0), has_failed
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DecodeError(f"these bytes are not a step: {error}") from error


def digest_of_start(body: bytes) -> bytes:
    """Return the digest of the first state of a frame, from the stored bytes of its start."""
    try:
        stored = bytes(_outcome(body)[0])
        names = (
            decode(stored, blob=lambda digest: b"null", classes=False)
            if b'"$dict"' in stored
            else _plain(stored)
        )
        return bytes.fromhex(first_digest(canonical(stored), dict.fromkeys(names, 0)))
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError) as error:
        raise DecodeError(f"these bytes are not a start: {error}") from error


# -- reading ---------------------------------------------------------------------------------------------------------


class EntryDecoder:
    """Decodes entries as records, and reports damage with its place.

    Without `classes`, it builds no registered class. With `keeps`, it does not fetch large values of steps: see `Kept`.
    """

    def __init__(
        self,
        run_id: str,
        blob: Callable[[str], bytes],
        epoch: float = 0.0,
        *,
        classes: bool = True,
        keeps: bool = False,
    ) -> None:
        self._run_id = run_id
        self._lookup = blob
        self._epoch = epoch  # when the run was created
        self._classes = classes
        self._keeps = keeps
        self.fetched = 0  # bytes of blobs
        self.has_kept = False  # a value was not fetched

    def blob(self, digest: str) -> bytes:
        content = self._lookup(digest)
        self.fetched += len(content)
        return content

    def record(self, entry: LogEntry) -> Any:
        """Decode an entry."""
        check_entry(self._run_id, entry)
        try:
            body = bytes(entry.body)
            if self._keeps and b'"$blob"' in body and entry.kind == STEP.name:
                return self._step_with_kept(entry, body)
            plain = decode(body, blob=self.blob, classes=self._classes, unfit="keep")
            return KINDS[entry.kind].decode(entry, plain, self)
        except ClassChangedError:
            raise  # not damage: the class has changed
        except StoreCorruptError as error:
            raise StoreCorruptError(f"run {self._run_id!r}: {describe_entry(entry)}: {error}") from error
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise _damage(self._run_id, entry, error) from error

    def _step_with_kept(self, entry: LogEntry, body: bytes) -> Step:
        """Decode a step without fetching its large values."""
        tree = _plain(body)
        outcomes = tree["o"] if isinstance(tree, dict) else tree if isinstance(tree[0], list) else [tree]
        kept = []
        for outcome in outcomes:
            stored, held = part_kept(_json(outcome[2]), describe_entry(entry))
            outcome[2] = msgspec.Raw(stored)
            kept.append(held)
        step: Step = STEP.decode(
            entry, decode(_json(tree), blob=self.blob, classes=self._classes, unfit="keep"), self
        )
        for outcome, held in zip(step.outcomes, kept, strict=True):
            if held:
                self.has_kept = True
                outcome.update.update(held)  # type: ignore[attr-defined]  # it was decoded just now
        return step

    def outcome(self, plain: Sequence[Any]) -> Outcome:
        node, visit, update, started, duration, *more = plain
        rest: Mapping[str, Any] = more[0] if more else {}
        if isinstance(rest, str):
            rest = {"d": [rest]}
        return Outcome(
            node=node,
            visit=visit,
            index=rest.get("i", -1),
            update=update,
            decision=tuple(_choice(choice) for choice in rest["d"]) if "d" in rest else None,
            started=self._epoch + started / 1e6,
            duration=duration / 1e6,
            attempt=rest.get("a", 0),
            cached=rest.get("c", False),
            error=error_of(rest["e"]) if "e" in rest else None,
            refused=rest.get("r", ""),
            by_hand=rest.get("h", False),
            failures=tuple(failure_of(failure) for failure in rest.get("f", ())),
            rescued=rest.get("s", False),
        )


def _damage(run_id: str, entry: LogEntry, error: Exception) -> RecordCorruptError | StoreCorruptError:
    if entry.kind == CALL.name:
        return RecordCorruptError(_damaged_call(run_id, entry, error))
    return StoreCorruptError(
        f"run {run_id!r}: {describe_entry(entry)} is damaged ({error}); other runs and the steps "
        f"before it can be read"
    )


def _damaged_call(run_id: str, entry: LogEntry, error: Exception) -> str:
    """Return the message of RecordCorruptError: node, path and, if readable, the call."""
    node = entry.path.rpartition("/")[2].partition("#")[0]
    try:
        body = _plain(entry.body)
        call = f"call {body[8]} ({body[0]!r})"
    except Exception:
        call = f"recording {entry.n}"
    return (
        f"run {run_id!r}: node {node!r} at {entry.path}, {call} is damaged ({error}); other runs can be read, and "
        f"the parts of this one that do not need the call"
    )


def _choice(plain: Any) -> Choice:
    return plain if isinstance(plain, str) else Send(plain[0], plain[1])
