"""Records to entries of a store and back. Which kinds there are is in ``clew.runtime.log_records``.

Bodies are JSON in the order in which values came, so that code which goes on with them sees what it would have seen. A
value of more than 64 KiB is kept apart, once, by its digest. A step is its only outcome, or a list of several. An
outcome is its node, its visit, its update, and when it began and how long it took, in microseconds since the run was
created; what is out of the ordinary follows: the one node that it chose, or by name ``i`` its index in a batch, ``d``
what it decided, ``a`` its attempt, ``c`` that it was not executed, ``e`` its error.

The digest of a step continues its chain. The digest of any other entry is a checksum of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from clew.engine.chain import digest_after, outcome_bytes
from clew.engine.records import Choice, Journaled, Outcome, Single, Start, Step
from clew.errors import DecodeError, EncodeError, RecordCorruptError, StoreCorruptError
from clew.graph import Send
from clew.runtime.failures import error_of, plain_error
from clew.runtime.log import start_state
from clew.runtime.log_records import CALL, KIND_OF, KINDS, STEP, describe_entry
from clew.runtime.recorder import RecordedCall
from clew.state import decode, encode, encode_both
from clew.stores import Entry

LARGE = 64 * 1024

_json = msgspec.json.Encoder().encode


class Writer:
    """Writes the records of one run as entries, and keeps the digests of its chains going."""

    def __init__(self, digests: dict[str, str], seed: int, epoch: float) -> None:
        # strand -> the digest of its last state
        self._digests = {strand: bytes.fromhex(digest) for strand, digest in digests.items()}
        self._seed = seed
        self._epoch = epoch  # when the run was created
        self._parts: list[bytes] = []  # the canonical bytes of the outcomes of a step
        self.blobs: dict[str, bytes] = {}

    def entry(self, record: Any) -> Entry:
        """One record as an entry. EncodeError, with node and path, if something in it has no encoding."""
        known = len(self.blobs)
        try:
            return self._single(record) if type(record) is Single else self._entry(record)
        except EncodeError as error:
            # what it had apart goes with it; what records before it had apart stays
            self.blobs = dict(islice(self.blobs.items(), known))
            raise _named(record, error) from error

    def _entry(self, record: Any) -> Entry:
        kind = KIND_OF[type(record)]
        self._parts = []
        path, n, plain = kind.encode(record, self)
        body = _json(plain)
        if kind is STEP:
            digest = self._digests[record.prefix] = digest_after(self._digests[record.prefix], self._parts)
            return Entry(kind.name, path, n, body, digest)
        if type(record) is Start:
            self._digests[record.prefix] = bytes.fromhex(start_state(record, self._seed).digest)
        return Entry(kind.name, path, n, body, sha256(body).digest()[:16])

    def _single(self, step: Single) -> Entry:
        """A step of one plain item: what `_entry` would write, in one go."""
        ordered, canonical = encode_both(dict(step.update), at="state")
        if step.decision is not None or len(ordered) > LARGE:
            return self._entry(step.step())
        name, visit = step.node, step.visit
        part = outcome_bytes(f"{name}#{visit}", canonical, None, False)
        digest = self._digests[""] = digest_after(self._digests[""], (part,))
        started, duration = round((step.started - self._epoch) * 1e6), round(step.duration * 1e6)
        body = _json([name, visit, msgspec.Raw(ordered), started, duration])
        return Entry(STEP.name, "", step.number, body, digest)

    # -- parts of bodies, for the kinds ------------------------------------------------------------------

    def outcome(self, outcome: Outcome) -> list[Any]:
        """An outcome for `_json`."""
        update, canonical = encode_both(dict(outcome.update), at="state")
        self._parts.append(
            outcome_bytes(outcome.path, canonical, outcome.decision, outcome.error is not None)
        )
        plain: list[Any] = [
            outcome.node,
            outcome.visit,
            msgspec.Raw(update) if len(update) <= LARGE else self.values(outcome.update),
            round((outcome.started - self._epoch) * 1e6),
            round(outcome.duration * 1e6),
        ]
        rest = _rest(outcome)
        if rest:
            chosen = outcome.decision or ()
            is_plain = len(rest) == 1 == len(chosen) and isinstance(chosen[0], str)
            plain.append(chosen[0] if is_plain else rest)
        return plain

    def value(self, value: Any, at: str) -> Any:
        """One value for `_json`."""
        return msgspec.Raw(encode(value, at=at, ordered=True))

    def values(self, values: Mapping[str, Any]) -> Any:
        """Values by name; with large ones a pair of the small ones and the digests of the others."""
        small, apart = parted(values, self.blobs)
        return self.value([small, apart, list(values)] if apart else small, "state")


def parted(values: Mapping[str, Any], blobs: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values by name, those that are small and the digests of those that are large, whose contents go to `blobs`."""
    small: dict[str, Any] = {}
    apart: dict[str, str] = {}
    for name, value in values.items():
        if may_be_large(value):
            content = encode(value, at=name, ordered=True)
            if len(content) > LARGE:
                digest = apart[name] = sha256(content).hexdigest()
                blobs[digest] = content
                continue
        small[name] = value
    return small, apart


def _named(record: Any, error: EncodeError) -> EncodeError:
    """The same, said of the node that is to blame."""
    if isinstance(record, Single):
        record = record.step()
    prefix = getattr(record, "prefix", "")
    outcomes: Sequence[Outcome] = ()
    if isinstance(record, Step):
        outcomes = record.outcomes
    elif isinstance(record, Journaled):
        outcomes = (record.outcome,)
    for outcome in outcomes:
        for name, value in outcome.update.items():
            try:
                encode(value, at=name, ordered=True)
            except EncodeError as found:
                return EncodeError(
                    f"node {outcome.node!r} at {prefix}{outcome.path} returned what cannot be stored: {found}"
                )
    if isinstance(record, RecordedCall):
        return EncodeError(f"the call {record.name!r} at {record.path} cannot be recorded: {error}")
    return error


def may_be_large(value: Any) -> bool:
    """Whether it is worth encoding a value by itself to see how large it is."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value) > LARGE // 4
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return len(value) > 64 or any(map(may_be_large, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, (int, float, bool, type(None)))


def _rest(outcome: Outcome) -> dict[str, Any]:
    """What is out of the ordinary about an outcome."""
    rest: dict[str, Any] = {}
    if outcome.index >= 0:
        rest["i"] = outcome.index
    if outcome.decision is not None:
        choices = [_plain_choice(choice) for choice in outcome.decision]
        rest["d"] = msgspec.Raw(encode(choices, at="decision", ordered=True))
    if outcome.attempt:
        rest["a"] = outcome.attempt
    if outcome.cached:
        rest["c"] = True
    if outcome.error is not None:
        rest["e"] = msgspec.Raw(encode(plain_error(outcome.error), at="error", ordered=True))
    return rest


def _plain_choice(choice: Choice) -> Any:
    return [choice.target, dict(choice.payload)] if isinstance(choice, Send) else choice


class Reader:
    """Reads entries as records; damage is found and named."""

    def __init__(self, run_id: str, blob: Callable[[str], bytes], epoch: float = 0.0) -> None:
        self._run_id = run_id
        self._lookup = blob
        self._epoch = epoch  # when the run was created
        self.fetched = 0  # bytes of large contents

    def _blob(self, digest: str) -> bytes:
        content = self._lookup(digest)
        self.fetched += len(content)
        return content

    def record(self, entry: Entry) -> Any:
        """One entry as a record."""
        try:
            kind = KINDS[entry.kind]
            if kind is not STEP and sha256(entry.body).digest()[:16] != entry.digest:
                raise DecodeError("its digest does not fit its content")
            return kind.decode(entry, decode(entry.body), self)
        except StoreCorruptError as error:
            raise StoreCorruptError(f"run {self._run_id!r}: {describe_entry(entry)}: {error}") from error
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DecodeError) and "register_type" in str(error):
                raise  # nothing is damaged: a class has to be registered before it can be read
            if entry.kind == CALL.name:
                raise RecordCorruptError(_damaged_call(self._run_id, entry, error)) from error
            raise StoreCorruptError(
                f"run {self._run_id!r}: {describe_entry(entry)} is damaged ({error}); other runs can be read, and "
                f"this one up to the step before"
            ) from error

    def outcome(self, plain: Sequence[Any]) -> Outcome:
        node, visit, update, started, duration, *more = plain
        rest: Mapping[str, Any] = more[0] if more else {}
        if isinstance(rest, str):
            rest = {"d": [rest]}
        return Outcome(
            node=node,
            visit=visit,
            index=rest.get("i", -1),
            update=self.values(update),
            decision=tuple(_choice(choice) for choice in rest["d"]) if "d" in rest else None,
            started=self._epoch + started / 1e6,
            duration=duration / 1e6,
            attempt=rest.get("a", 0),
            cached=rest.get("c", False),
            error=error_of(rest["e"]) if "e" in rest else None,
        )

    def values(self, plain: Any) -> dict[str, Any]:
        if isinstance(plain, dict):
            return plain
        small, apart, order = plain
        values = {**small, **{name: decode(self._blob(digest)) for name, digest in apart.items()}}
        return {name: values[name] for name in order}


def _damaged_call(run_id: str, entry: Entry, error: Exception) -> str:
    """What RecordCorruptError says: node, path and, as far as it can be read, the call."""
    node = entry.path.rpartition("/")[2].partition("#")[0]
    try:
        body = decode(entry.body)
        call = f"call {body[8]} ({body[0]!r})"
    except Exception:
        call = f"recording {entry.n}"
    return (
        f"run {run_id!r}: node {node!r} at {entry.path}, {call} is damaged ({error}); other runs can be read, and all "
        f"of this one that does not need it"
    )


def _choice(plain: Any) -> Choice:
    return plain if isinstance(plain, str) else Send(plain[0], plain[1])
