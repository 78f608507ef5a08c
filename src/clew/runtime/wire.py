"""Records to entries of a store and back: the one place that knows how a run looks on disk.

==========  ==================  =============  ==============================================================
kind        path                n              body
==========  ==================  =============  ==============================================================
start       the strand          0              its values, and which of them were given
step        the strand          its number     its outcomes; the digest is that of the state after it
journal     the item            counts         its outcome, until its step is committed; the last one holds
call        the item            counts         a recorded call, with its attempt and number
intent      the item            counts         a call, or a whole node, that is about to be made; or that it has ended
retry       the item            the attempt    when the next attempt is due, and why
question    the item            its number     what it asks
answer      the item            its number     what it was answered
label       the label           0              a step
resume      ""                  counts         a run that had failed is gone on with
accepted    ""                  counts         what is kept of the graph that it goes on with: structure and codes, and
                                               the defaults of fields that the run did not begin with
measured    ""                  counts         how full the queue was in a stretch of the run, where it was full
snapshot    ""                  a step         the whole state: ``clew.runtime.snapshots``
==========  ==================  =============  ==============================================================

Bodies are JSON in the order in which values came, so that code which goes on with them sees what it would have seen. A
value of more than 64 KiB is kept apart, once, by its digest. A step is its only outcome, or a list of several. An
outcome is its node, its visit, its update, and when it began and how long it took, in microseconds since the run was
created; what is out of the ordinary follows: the one node that it chose, or by name ``i`` its index in a batch, ``d``
what it decided, ``a`` its attempt, ``c`` that it was not executed, ``e`` its error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from clew.engine.chain import digest_after, outcome_bytes
from clew.engine.records import Choice, Journaled, Outcome, Question, Retry, Single, Start, Step
from clew.errors import DecodeError, EncodeError, RecordCorruptError, StoreCorruptError
from clew.graph import Send
from clew.runtime.doubts import Intent
from clew.runtime.failures import error_of, plain_error
from clew.runtime.log import Accepted, Answered, Labelled, Resumed, start_state
from clew.runtime.metrics import Measured
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
        kind = type(record)
        if kind is Step:
            return self._step(record)
        if kind is Start:
            self._digests[record.prefix] = bytes.fromhex(start_state(record, self._seed).digest)
            body = [self._values(record.values), sorted(record.given), list(record.epoch)]
            return _checked("start", with_epoch(record.prefix, record.epoch), 0, body)
        if kind is Journaled:
            ordered = encode(dict(record.outcome.update), at="state", ordered=True)
            data = _json([self._outcome(record.outcome, ordered), list(record.epoch)])
            path = with_epoch(record.path, record.epoch)
            return Entry("journal", path, record.n, data, sha256(data).digest()[:16])
        if kind is RecordedCall:
            return self._call(record)
        if kind is Intent:
            body = [record.name, record.attempt, record.number, list(record.epoch)]
            body += [True] if record.is_settled else []
            return _checked("intent", record.path, record.n, body)
        if kind is Retry:
            body = [record.delay, plain_error(record.error), record.due]
            return _checked("retry", with_epoch(record.path, record.epoch), record.attempt, body)
        if kind is Question:
            return _checked(
                "question", record.path, record.number, [record.node, record.question, record.step]
            )
        if kind is Answered:
            return _checked("answer", record.path, record.number, record.answer)
        if kind is Accepted:
            filled = {strand: dict(values) for strand, values in record.filled.items()}
            body = [record.structure, dict(record.codes), *([filled] if filled else ())]
            return _checked("accepted", "", record.n, body)
        if kind is Measured:
            return _checked("measured", "", record.n, [record.peak, record.blocks])
        if kind is Resumed:
            return _checked("resume", "", record.stretch, None)
        if kind is Labelled:
            return _checked("label", record.label, 0, record.step)
        raise TypeError(f"no entry for {record!r}")

    def _step(self, step: Step) -> Entry:
        body, parts = [], []
        for outcome in step.outcomes:
            ordered, canonical = encode_both(dict(outcome.update), at="state")
            parts.append(outcome_bytes(outcome.path, canonical, outcome.decision, outcome.error is not None))
            body.append(self._outcome(outcome, ordered))
        digest = self._digests[step.prefix] = digest_after(self._digests[step.prefix], parts)
        path = with_epoch(step.prefix, step.epoch) if step.epoch else step.prefix
        return Entry("step", path, step.number, _json(body[0] if len(body) == 1 else body), digest)

    def _single(self, step: Single) -> Entry:
        """A step of one plain item: what `_step` would write, in one go."""
        ordered, canonical = encode_both(dict(step.update), at="state")
        if step.decision is not None or len(ordered) > LARGE:
            return self._step(step.step())
        name, visit = step.node, step.visit
        part = outcome_bytes(f"{name}#{visit}", canonical, None, False)
        digest = self._digests[""] = digest_after(self._digests[""], (part,))
        started, duration = round((step.started - self._epoch) * 1e6), round(step.duration * 1e6)
        body = _json([name, visit, msgspec.Raw(ordered), started, duration])
        return Entry("step", "", step.number, body, digest)

    def _outcome(self, outcome: Outcome, update: bytes) -> list[Any]:
        """An outcome for `_json`; `update` is its update as it is stored, unless that is too large for one entry."""
        plain: list[Any] = [
            outcome.node,
            outcome.visit,
            msgspec.Raw(update if len(update) <= LARGE else self._apart(outcome.update)),
            round((outcome.started - self._epoch) * 1e6),
            round(outcome.duration * 1e6),
        ]
        rest = _rest(outcome)
        if rest:
            chosen = outcome.decision or ()
            is_plain = len(rest) == 1 == len(chosen) and isinstance(chosen[0], str)
            plain.append(chosen[0] if is_plain else rest)
        return plain

    def _apart(self, update: Mapping[str, Any]) -> bytes:
        return encode(self._values(update), at="state", ordered=True)

    def _values(self, values: Mapping[str, Any]) -> Any:
        """Values by name; with large ones a pair of the small ones and the digests of the others."""
        small, apart = parted(values, self.blobs)
        return [small, apart, list(values)] if apart else small

    def _call(self, call: RecordedCall) -> Entry:
        args, kwargs = call.request
        body = [
            call.name,
            [list(args), dict(kwargs)],
            call.response,
            None if call.error is None else plain_error(call.error),
            call.timestamp,
            call.duration,
            call.awaited,
            call.attempt,
            call.number,
            list(call.epoch),
            call.stretch,
        ]
        entry = _checked("call", call.path, call.n, body)
        if len(entry.body) <= LARGE:
            return entry
        large = {"request": body[1], "response": body[2]}
        small, apart = parted(large, self.blobs)
        return _checked(
            "call",
            call.path,
            call.n,
            [call.name, small.get("request"), small.get("response"), *body[3:], apart],
        )


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


def with_epoch(path: str, epoch: tuple[int, ...]) -> str:
    """A path in the store: later attempts of what is around it must not meet what earlier ones left."""
    return f"{path}@{'.'.join(map(str, epoch))}" if any(epoch) else path


def _without_epoch(path: str) -> tuple[str, tuple[int, ...]]:
    bare, at, epoch = path.partition("@")
    return bare, tuple(int(attempt) for attempt in epoch.split(".")) if at else ()


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


def _checked(kind: str, path: str, n: int, body: Any) -> Entry:
    data = encode(body, at=f"{kind} {path}", ordered=True)
    return Entry(kind, path, n, data, sha256(data).digest()[:16])


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
            if entry.kind != "step" and sha256(entry.body).digest()[:16] != entry.digest:
                raise DecodeError("its digest does not fit its content")
            return getattr(self, f"_{entry.kind}")(entry, decode(entry.body))
        except StoreCorruptError as error:
            raise StoreCorruptError(f"run {self._run_id!r}: {_where(entry)}: {error}") from error
        except (DecodeError, LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DecodeError) and "register_type" in str(error):
                raise  # nothing is damaged: a class has to be registered before it can be read
            if entry.kind == "call":
                raise RecordCorruptError(_damaged_call(self._run_id, entry, error)) from error
            raise StoreCorruptError(
                f"run {self._run_id!r}: {_where(entry)} is damaged ({error}); other runs can be read, and this one up "
                f"to the step before"
            ) from error

    def _step(self, entry: Entry, body: Any) -> Step:
        prefix, epoch = _without_epoch(entry.path)
        if prefix and not epoch:
            epoch = (0,) * prefix.count("/")
        if body and isinstance(body[0], str):
            body = [body]
        return Step(prefix, entry.n, tuple(self._outcome(plain) for plain in body), epoch)

    def _outcome(self, plain: Sequence[Any]) -> Outcome:
        node, visit, update, started, duration, *more = plain
        rest: Mapping[str, Any] = more[0] if more else {}
        if isinstance(rest, str):
            rest = {"d": [rest]}
        return Outcome(
            node=node,
            visit=visit,
            index=rest.get("i", -1),
            update=self._values(update),
            decision=tuple(_choice(choice) for choice in rest["d"]) if "d" in rest else None,
            started=self._epoch + started / 1e6,
            duration=duration / 1e6,
            attempt=rest.get("a", 0),
            cached=rest.get("c", False),
            error=error_of(rest["e"]) if "e" in rest else None,
        )

    def _values(self, plain: Any) -> dict[str, Any]:
        if isinstance(plain, dict):
            return plain
        small, apart, order = plain
        values = {**small, **{name: decode(self._blob(digest)) for name, digest in apart.items()}}
        return {name: values[name] for name in order}

    def _start(self, entry: Entry, body: Any) -> Start:
        prefix, _ = _without_epoch(entry.path)
        return Start(prefix, self._values(body[0]), frozenset(body[1]), tuple(body[2]))

    def _journal(self, entry: Entry, body: Any) -> Journaled:
        path, _ = _without_epoch(entry.path)
        outcome = self._outcome(body[0])
        return Journaled(path[: len(path) - len(outcome.path)], outcome, tuple(body[1]), entry.n)

    def _call(self, entry: Entry, body: Any) -> RecordedCall:
        (
            name,
            request,
            response,
            error,
            timestamp,
            duration,
            awaited,
            attempt,
            number,
            epoch,
            stretch,
            *more,
        ) = body
        if more:
            large = {what: decode(self._blob(digest)) for what, digest in more[0].items()}
            request, response = large.get("request", request), large.get("response", response)
        return RecordedCall(
            path=entry.path,
            attempt=attempt,
            number=number,
            name=name,
            request=(tuple(request[0]), request[1]),
            response=response,
            error=None if error is None else error_of(error, to_handle=True),
            timestamp=timestamp,
            duration=duration,
            awaited=awaited,
            epoch=tuple(epoch),
            stretch=stretch,
            n=entry.n,
        )

    def _intent(self, entry: Entry, body: Any) -> Intent:
        name, attempt, number, epoch, *settled = body
        return Intent(entry.path, attempt, number, name, tuple(epoch), entry.n, bool(settled))

    def _retry(self, entry: Entry, body: Any) -> Retry:
        path, epoch = _without_epoch(entry.path)
        epoch = epoch or (0,) * path.count("/")
        return Retry(None, path, entry.n, body[0], error_of(body[1]), body[2], epoch)

    def _question(self, entry: Entry, body: Any) -> Question:
        return Question(entry.path, body[0], body[1], body[2], entry.n)

    def _answer(self, entry: Entry, body: Any) -> Answered:
        return Answered(entry.path, body, entry.n)

    def _accepted(self, entry: Entry, body: Any) -> Accepted:
        return Accepted(entry.n, *body)

    def _measured(self, entry: Entry, body: Any) -> Measured:
        return Measured(entry.n, *body)

    def _resume(self, entry: Entry, body: Any) -> Resumed:
        return Resumed(entry.n)

    def _label(self, entry: Entry, body: Any) -> Labelled:
        return Labelled(entry.path, body)


def _where(entry: Entry) -> str:
    if entry.kind != "step":
        return f"{entry.kind} {entry.path}"
    return f"step {entry.n} of {entry.path}" if entry.path else f"step {entry.n}"


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
