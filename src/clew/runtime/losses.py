"""What a log has lost, or has not as it was written: steps by their numbers and digests, other entries by their count.

The numbers of a chain have no gap, and each step's digest continues the one before, so a step that is lost or changed
in the middle shows. What is lost at the end shows by the census that a run has from when it was last let go of. Of what
came after that nobody can tell where the process died: it may always have died a step earlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from clew.engine.chain import step_digest
from clew.engine.records import Step
from clew.runtime.log import RunLog, start_state
from clew.runtime.wire import with_epoch
from clew.stores import Entry, RunRow

_NOUNS = {
    "start": "starts of subgraphs",
    "step": "steps inside subgraphs",
    "journal": "journaled results",
    "call": "recorded calls",
    "intent": "intended calls",
    "retry": "retries",
    "resume": "times that it was resumed",
    "accepted": "changes that were accepted",
}


def damaged_steps(log: RunLog, entries: Iterable[Entry], *, upto: int | None = None) -> Iterator[str]:
    """A sentence for each chain of a log that has a gap, or whose digests do not fit its content.

    With `upto` the log was read up to that step, which there has to be if the run ever came to it.
    """
    stored = {(entry.path, entry.n): bytes(entry.digest).hex() for entry in entries if entry.kind == "step"}
    chains: list[tuple[str, str, Sequence[Step]]] = [("", log.start.digest, log.steps)]
    for prefix, (start, steps) in log.strands.items():
        chains.append((prefix, start_state(start, log.row.seed).digest, steps))
    for prefix, digest, chain in chains:
        first = 1 if prefix else log.start.step + 1
        told = _damaged(prefix, digest, chain, first, stored)
        if told is None and not prefix:
            last, beyond = last_step(log.row, upto), first + len(chain)
            told = missing(beyond) if last is not None and last >= beyond else None
        if told is not None:
            yield f"run {log.row.run_id!r}: {told}"


def _damaged(
    prefix: str, digest: str, chain: Sequence[Step], first: int, stored: dict[tuple[str, int], str]
) -> str | None:
    for number, step in enumerate(chain, start=first):
        if step.number != number:
            return missing(number, prefix)
        digest = step_digest(digest, step)
        if stored.get((with_epoch(prefix, step.epoch), number)) != digest:
            return changed(number, prefix)
    return None


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
    row: RunRow, entries: Iterable[Entry], kinds: Collection[str] | None = None
) -> Iterator[str]:
    """A sentence for each kind of which there are fewer entries than there were; `kinds` are those that were read."""
    if row.census is None:
        return
    found: Counter[str] = Counter()
    numbers: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        if entry.kind != "step" or entry.path:
            found[entry.kind] += 1
            numbers.setdefault((entry.kind, entry.path), []).append(entry.n)
    for kind, before in row.census.items():
        if kind == "journal" and row.status == "running":
            continue  # since then a step may have taken it in
        if kind and found[kind] < before and (kinds is None or kind in kinds):
            noun = _NOUNS.get(kind, f"{kind}s")
            gone = before - found[kind]
            told = f"run {row.run_id!r}: {gone} of its {before} {noun} {'is' if gone == 1 else 'are'} missing"
            gaps = [
                f"{n} of {path}" for (k, path), ns in numbers.items() if k == kind for n in _gaps(kind, ns)
            ]
            yield told + (f" (number {', '.join(gaps)})" if gaps else "") + "; other runs can be read"


def _gaps(kind: str, numbers: list[int]) -> Iterator[int]:
    """The numbers that are not there, where they count from the first on."""
    if kind in ("call", "intent", "question", "answer", "resume", "accepted", "step"):
        known = set(numbers)
        yield from (n for n in range(int(kind in ("step", "resume")), max(known)) if n not in known)
