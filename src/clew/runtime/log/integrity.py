"""What a log has lost, or has not as it was written: steps by their numbers and digests, other entries by their count.

The numbers of a chain have no gap, and each step's digest continues the one before, so a step that is lost or changed
in the middle shows. Other entries are numbered too: the recorded calls of an item, its retries, its answers. What is
lost at the end shows by the census that a run has from when it was last let go of. Of what came after that nobody can
tell where the process died: it may always have died a step earlier, or just before a call was recorded.

A loss is told where it matters. Who goes on with a run does without what is known of items that have run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from clew.engine.frame import Item
from clew.errors import DecodeError
from clew.runtime.log.call_records import CallIntent, RecordedCall
from clew.runtime.log.codec import digest_of_start, digest_of_step
from clew.runtime.log.records import CALL, INTENT, KINDS, START, STEP, is_own_step, without_epoch
from clew.stores import LogEntry, RunRow

_MOST = 10_000  # missing numbers that are told

Visits = Mapping[str, int]
"""How often each node has run."""


class Chains:
    """The chains of a log, checked in their stored form: by their numbers and digests, and nothing is decoded."""

    def __init__(self, run_id: str, entries: Iterable[LogEntry], step: int, digest: str) -> None:
        """`step` and `digest` are those of the state that the run's own steps among `entries` follow."""
        self._run_id = run_id
        self._step = step
        self._starts = {"": bytes.fromhex(digest)}
        self._steps: dict[str, list[LogEntry]] = {"": []}  # by path in the store
        self.digests: dict[str, list[str]] = {}  # of the states of each chain, as far as it is sound
        for entry in entries:
            if entry.kind == STEP.name:
                self._steps.setdefault(entry.path, []).append(entry)
            elif entry.kind == START.name:
                self._starts[entry.path] = digest_of_start(entry.body)

    def damage(self, row: RunRow, upto: int | None = None) -> Iterator[str]:
        """A sentence for each chain that has a gap, or whose digests do not fit its content.

        With `upto` the log was read up to that step, which there has to be if the run ever came to it.
        """
        for path, start in self._starts.items():
            first = self._step + 1 if not path else 1
            told = self._follow(path, start, self._steps.get(path, ()), first)
            if told is None and not path:
                last, beyond = last_step(row, upto), first + len(self._steps[""])
                told = missing(beyond) if last is not None and last >= beyond else None
            if told is not None:
                yield f"run {self._run_id!r}: {told}"

    def _follow(self, path: str, digest: bytes, steps: Iterable[LogEntry], first: int) -> str | None:
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
    """The digest that a step makes of the one before it; b"" if its bytes are no step."""
    try:
        return digest_of_step(digest, entry.body)
    except DecodeError:
        return b""


def last_step(row: RunRow, upto: int | None) -> int | None:
    """The last own step that a run is known to have had, of those up to `upto`."""
    last = None if row.census is None else row.census.get("")
    return last if last is None or upto is None else min(last, upto)


def _place(number: int, prefix: str) -> str:
    return f"step {number} of {prefix}" if prefix else f"step {number}"


def missing(number: int, prefix: str = "") -> str:
    """What is said of a step that is not there."""
    return f"{_place(number, prefix)} is missing; {_rest(number, prefix)}"


def changed(number: int, prefix: str = "") -> str:
    """What is said of a step that is not what was written."""
    return (
        f"{_place(number, prefix)} is damaged: its digest does not fit its content; {_rest(number, prefix)}"
    )


def _rest(number: int, prefix: str) -> str:
    return "other runs can be read" + ("" if prefix else f", and this one up to step {number - 1}")


def lost_entries(
    row: RunRow,
    entries: Iterable[LogEntry],
    kinds: Collection[str] | None = None,
    visits: Visits | None = None,
) -> Iterator[str]:
    """A sentence for each kind of which there are fewer entries than there were, and for each gap in what is numbered.

    `kinds` are those that were read, all by default. With `visits`, how often each node has run, a gap in what is known
    of an item that has run is no loss: nobody who goes on with the run needs it.
    """
    found: Counter[str] = Counter()
    numbers: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        if not is_own_step(entry):
            found[entry.kind] += 1
            numbers.setdefault((entry.kind, entry.path), []).append(entry.n)
    gaps = [(kind, path, n) for (kind, path), ns in numbers.items() for n in _gaps(kind, ns)]
    census = row.census or {}
    for kind, before in census.items():
        if row.status == "running" and kind and KINDS[kind].is_temporary:
            continue  # since then a step may have taken it in, or it was to be asked in other words
        if kind and found[kind] < before and (kinds is None or kind in kinds):
            gone = before - found[kind]
            are = "is" if gone == 1 else "are"
            told = f"run {row.run_id!r}: {gone} of its {before} {KINDS[kind].noun} {are} missing"
            here = [f"{n} of {path}" for k, path, n in gaps if k == kind]
            yield told + (f" (number {', '.join(here)})" if here else "") + "; other runs can be read"
    for kind, path, n in gaps:
        is_told = found[kind] < census.get(kind, 0)
        if kind != STEP.name and not is_told and not (visits is not None and has_run(path, visits)):
            where = f"{kind} {n} of {path}" if path else f"{kind} {n}"
            yield f"run {row.run_id!r}: {where} is missing, and later ones are there; other runs can be read"
    begun = {path for kind, path in numbers if kind == START.name}
    for path in sorted({path for kind, path in numbers if kind == STEP.name} - begun):
        yield (
            f"run {row.run_id!r}: what {path} began with is missing, and steps of it are there; other runs can be read"
        )


def is_harmless(row: RunRow, entries: Sequence[LogEntry], kind: str, visits: Visits) -> bool:
    """Whether all that is lost of a kind is known by its number, and of items that have run: nobody needs it."""
    numbers: dict[str, list[int]] = {}
    for entry in entries:
        numbers.setdefault(entry.path, []).append(entry.n)
    gaps = [path for path, ns in numbers.items() for _ in _gaps(kind, ns)]
    gone = (row.census or {}).get(kind, 0) - len(entries)
    return len(gaps) >= gone and all(has_run(path, visits) for path in gaps)


def has_run(path: str, visits: Visits) -> bool:
    """Whether an item, or the one of the run itself around it, is in a committed step, given each node's visits."""
    item = path.partition("/")[0]
    name, _, place = item.partition("#")
    visit = place.partition("[")[0].partition("@")[0].partition("!")[0]
    return visit.isdigit() and int(visit) < visits.get(name, 0)


def lost_recordings(run_id: str, item: Item, entries: Sequence[RecordedCall | CallIntent]) -> Iterator[str]:
    """A sentence for each thing that what was recorded of an item says is lost.

    Recordings of an item are numbered in the order in which they were written. A later attempt is made when it is
    written down that the one before has failed. So all but the last recordings are missed if they are lost.
    """
    where = f"run {run_id!r}, step {item.step}: node {item.node.name!r} at {item.path}"
    for kind in (CALL, INTENT):
        known = {entry.n: entry for entry in entries if isinstance(entry, kind.record)}
        for n in _gaps(kind.name, list(known)) if known else ():
            after = known[min(m for m in known if m > n)]
            yield (
                f"{where}: one of the {kind.noun} is missing (number {n}, before call {after.number}, "
                f"{after.name!r}); it would be made again"
            )
    last = max((entry.attempt for entry in entries if entry.epoch == item.frame.epoch), default=0)
    if last > item.attempt:
        yield f"{where}: retry {last} is missing, and calls of that attempt are there; it would be made again"


def _gaps(kind: str, numbers: list[int]) -> Iterator[int]:
    """Return the numbers that are not there, where they count from the first on. A damaged number may be any: not all
    before it are told."""
    first = KINDS[kind].first
    if first is not None:
        known = set(numbers)
        yield from islice((n for n in range(first, max(known)) if n not in known), _MOST)
