"""Integrity checks: find entries of a log that are missing or damaged.

The numbers of a chain have no gap, and the digest of each step continues the one before. So a missing or changed step
is detected. Other entries are numbered too: the recorded calls of an item, its retries, its answers. Entries that are
missing at the end are detected with the census, which is stored when a run is released. Entries written after that
cannot be checked at the end: the process may have died before it wrote them.

A resume reports only problems that affect it. It does not need the entries of items that have run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from clew.engine.frame import Item
from clew.engine.records import Step
from clew.errors import DecodeError
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.codec import digest_of_start, digest_of_step
from clew.runtime.log.entries.records import CALL, INTENT, KINDS, START, STEP, is_own_step, without_epoch
from clew.state import GraphState, position_of
from clew.stores import LogEntry, RunRow

_MOST = 10_000  # missing numbers that are reported

Visits = Mapping[str, int]
"""The number of visits of each node."""


class Chains:
    """The chains of a log, verified by numbers and digests without decoding values."""

    def __init__(self, run_id: str, entries: Iterable[LogEntry], step: int, digest: str) -> None:
        """Sort entries by chain. `step` and `digest` belong to the state before the run's own steps."""
        self._run_id = run_id
        self._step = step
        self._starts = {"": bytes.fromhex(digest)}
        self._steps: dict[str, list[LogEntry]] = {"": []}  # by path in the store
        self.digests: dict[str, list[str]] = {}  # of the states of each chain, up to the first damage
        for entry in entries:
            if entry.kind == STEP.name:
                self._steps.setdefault(entry.path, []).append(entry)
            elif entry.kind == START.name:
                self._starts[entry.path] = digest_of_start(entry.body)

    def damage(self, row: RunRow, upto: int | None = None) -> Iterator[str]:
        """Yield a message for each chain with a missing or damaged step.

        With `upto`, the log was read up to that step, which has to exist if the run reached it.
        """
        for path, start in self._starts.items():
            first = self._step + 1 if not path else 1
            problem = self._verify(path, start, self._steps.get(path, ()), first)
            if problem is None and not path:
                last, beyond = last_step(row, upto), first + len(self._steps[""])
                problem = missing(beyond) if last is not None and last >= beyond else None
            if problem is not None:
                yield f"run {self._run_id!r}: {problem}"

    def _verify(self, path: str, digest: bytes, steps: Iterable[LogEntry], first: int) -> str | None:
        known = self.digests[path] = [digest.hex()]
        prefix, _ = without_epoch(path)
        for number, entry in enumerate(steps, start=first):
            if entry.n != number:
                return missing(number, prefix)
            if digest_after_entry(digest, entry) != bytes(entry.digest):
                return changed(number, prefix)
            digest = bytes(entry.digest)
            known.append(digest.hex())
        return None


def digest_after_entry(digest: bytes, entry: LogEntry) -> bytes:
    """Return the digest after a step, given the one before it; b"" if its bytes are invalid."""
    try:
        return digest_of_step(digest, entry.body)
    except DecodeError:
        return b""


def last_step(row: RunRow, upto: int | None) -> int | None:
    """Return the last step up to `upto` that the census of a run contains, if it has a census."""
    last = None if row.census is None else row.census.get("")
    return last if last is None or upto is None else min(last, upto)


def _place(number: int, prefix: str) -> str:
    return f"step {number} of {prefix}" if prefix else f"step {number}"


def missing(number: int, prefix: str = "") -> str:
    """Return the message for a missing step."""
    return f"{_place(number, prefix)} is missing; {_rest(number, prefix)}"


def changed(number: int, prefix: str = "") -> str:
    """Return the message for a damaged step."""
    return f"{_place(number, prefix)} is damaged (digest mismatch); {_rest(number, prefix)}"


def _rest(number: int, prefix: str) -> str:
    return "other runs can be read" + ("" if prefix else f", and this one up to step {number - 1}")


def missing_entries(
    row: RunRow,
    entries: Iterable[LogEntry],
    kinds: Collection[str] | None = None,
    visits: Visits | None = None,
) -> Iterator[str]:
    """Yield a message for each kind with fewer entries than the census says, and for each gap in the numbers.

    `kinds` are the kinds that were read, by default all. With `visits`, gaps of items that have run are ignored: a
    resume does not need them.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        if not is_own_step(entry):
            numbers.setdefault((entry.kind, entry.path), []).append(entry.n)
    found: Counter[str] = Counter()
    for (kind, _), ns in numbers.items():
        found[kind] += len(ns)
    gone = {kind: before - found[kind] for kind, before in (row.census or {}).items() if kind}
    problems = chain(
        _uncounted(row, gone, numbers, kinds), _left_out(gone, numbers, visits), _startless(numbers)
    )
    yield from (f"run {row.run_id!r}: {problem}; other runs can be read" for problem in problems)


Numbers: TypeAlias = Mapping[tuple[str, str], list[int]]
"""The numbers of the entries that were found, by kind and path."""


def _uncounted(
    row: RunRow, gone: Mapping[str, int], numbers: Numbers, kinds: Collection[str] | None
) -> Iterator[str]:
    """Yield the kinds that have fewer entries than the census says."""
    for kind, number in gone.items():
        if kind not in KINDS:
            yield f"its census is damaged (unknown kind {kind!r})"
            continue
        if row.status in ("queued", "running") and KINDS[kind].is_temporary:
            continue  # a later step or a rephrased question may have dropped the entry
        if number > 0 and (kinds is None or kind in kinds):
            here = [
                f"{n} of {path}"
                for (each, path), ns in numbers.items()
                if each == kind
                for n in _gaps(kind, ns)
            ]
            where = f" (number {', '.join(here)})" if here else ""
            of = f"{number} of its {(row.census or {})[kind]} {KINDS[kind].noun}"
            yield f"{of} {'is' if number == 1 else 'are'} missing{where}"


def _left_out(gone: Mapping[str, int], numbers: Numbers, visits: Visits | None) -> Iterator[str]:
    """Yield the gaps that the census does not show."""
    for (kind, path), ns in numbers.items():
        if (
            kind != STEP.name
            and gone.get(kind, 0) <= 0
            and not (visits is not None and has_run(path, visits))
        ):
            for n in _gaps(kind, ns):
                yield f"{kind} {n}{f' of {path}' if path else ''} is missing, but later entries exist"


def _startless(numbers: Numbers) -> Iterator[str]:
    """Yield the subgraphs whose steps exist, but not their start."""
    begun = {path for kind, path in numbers if kind == START.name}
    for path in sorted({path for kind, path in numbers if kind == STEP.name} - begun):
        yield f"the start of {path} is missing, but steps of it exist"


def is_harmless(row: RunRow, entries: Sequence[LogEntry], kind: str, visits: Visits) -> bool:
    """Return whether all missing entries of a kind belong to items that have run, so that no resume needs them."""
    numbers: dict[str, list[int]] = {}
    for entry in entries:
        numbers.setdefault(entry.path, []).append(entry.n)
    gaps = [path for path, ns in numbers.items() for _ in _gaps(kind, ns)]
    gone = (row.census or {}).get(kind, 0) - len(entries)
    return len(gaps) >= gone and all(has_run(path, visits) for path in gaps)


def unread_paths(
    names: Iterable[tuple[str, str]], read: Collection[tuple[str, str]], visits: Visits
) -> dict[str, list[tuple[str, str]]]:
    """Return the ranges of paths of each kind that were not read and may belong to an open item.

    `names` are kinds and paths. An entry under a wrong name is in one of the ranges, unless the name is that of an
    item that has run.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    before = ""  # the kind of the range that ends here
    for kind, path in sorted(names):
        if (kind, path) in read or has_run(path, visits):
            before = ""
            continue
        ranges = found.setdefault(kind, [])
        first = ranges.pop()[0] if before == kind else path
        ranges.append((first, f"{path}\x01"))
        before = kind
    return found


def has_run(path: str, visits: Visits) -> bool:
    """Return whether an item, or its enclosing item in the root frame, is in a committed step."""
    item = path.partition("/")[0]
    name, _, place = item.partition("#")
    visit = place.partition("[")[0].partition("@")[0].partition("!")[0]
    return visit.isdigit() and int(visit) < visits.get(name, 0)


def missing_recordings(
    run_id: str, item: Item, entries: Sequence[RecordedCall | CallIntent]
) -> Iterator[str]:
    """Yield a message for each missing recording of an item.

    Recordings of an item are numbered in the order of writing, and a new attempt starts only after the retry is
    written. So a missing recording is detected unless it is the last one.
    """
    where = f"run {run_id!r}, step {item.step}: node {item.node.name!r} at {item.path}"
    for kind in (CALL, INTENT):
        known = {entry.n: entry for entry in entries if isinstance(entry, kind.record)}
        for n in _gaps(kind.name, list(known)) if known else ():
            after = known[min(m for m in known if m > n)]
            yield (
                f"{where}: one of the {kind.noun} is missing (number {n}, before call {after.number}, "
                f"{after.name!r}); the call would be repeated"
            )
    last = max((entry.attempt for entry in entries if entry.epoch == item.frame.epoch), default=0)
    if last > item.attempt:
        yield f"{where}: retry {last} is missing, but calls of that attempt exist; they would be repeated"


def _gaps(kind: str, numbers: list[int]) -> Iterator[int]:
    """Yield the missing numbers of a kind that is numbered without gaps; at most `_MOST`, because a damaged number can
    be huge.
    """
    first = KINDS[kind].first if kind in KINDS else None  # `check_entry` reports an unknown kind
    if first is not None:
        known = set(numbers)
        yield from islice((n for n in range(first, max(known)) if n not in known), _MOST)


def visits_of(start: GraphState, records: Iterable[Any]) -> dict[str, int]:
    """Count the visits of each node, including the steps among records."""
    visits = dict(position_of(start).visits)
    for step in records:
        if isinstance(step, Step):
            for outcome in step.outcomes:
                visits[outcome.node] = max(visits.get(outcome.node, 0), outcome.visit + 1)
    return visits
