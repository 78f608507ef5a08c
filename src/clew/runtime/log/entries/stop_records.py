"""Stops in the log of a run: those that it started with, and those of each resume.

The stops of a new run are part of its row (under ``:stops``), so a run never exists without them. A resume of a paused
run, or one with new stops, adds a `StopsRecord`; the last one counts. A resume passes the stops where the run stands:
it records how many steps each frame has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from clew.engine.stops import FrameName, Stops

if TYPE_CHECKING:
    from clew.engine.history.chain import Chain
    from clew.runtime.log.run_log import RunLog

STOPS = ":stops"


class StopsRecord(msgspec.Struct, frozen=True):
    """The stops of a run from this resume on."""

    n: int
    before: tuple[str, ...]
    after: tuple[str, ...]
    passed: Mapping[FrameName, int]

    @property
    def stops(self) -> Stops:
        return Stops(self.before, self.after, self.passed)


def with_stops(codes: Mapping[str, str], stops: Stops | None) -> Mapping[str, str]:
    """Return the fingerprints of a new run with its stops."""
    if stops is None:
        return codes
    return {**codes, STOPS: msgspec.json.encode([stops.before, stops.after]).decode()}


def first_stops(codes: Mapping[str, str]) -> Stops | None:
    """Return the stops that a run started with."""
    text = codes.get(STOPS) if codes else None
    if text is None:
        return None
    before, after = msgspec.json.decode(text, type=tuple[tuple[str, ...], tuple[str, ...]])
    return Stops(before, after)


def stops_of_resume(
    log: RunLog, chain: Chain, given: Stops | None, *, is_paused: bool
) -> tuple[Stops | None, list[StopsRecord]]:
    """Return the stops of a resumed run, and the record of them if they have changed."""
    known = log.stops
    stops = known if given is None else given
    if stops is None:
        return None, []
    passed = {} if known is None else dict(known.passed)
    if is_paused:
        passed["", ()] = chain.last
        passed.update(((prefix, start.epoch), len(steps)) for prefix, (start, steps) in log.frames.items())
    record = StopsRecord(log.stop_records, stops.before, stops.after, passed)
    found = record.stops
    if found.before or found.after:
        stops = msgspec.structs.replace(found, held=frozenset(_held(log, chain, found)))
    else:
        stops = None
    return stops, [record] if given is not None or is_paused else []


def _held(log: RunLog, chain: Chain, stops: Stops) -> list[FrameName]:
    """Return the frames that stand at a stop after their last step, because the run was killed there."""
    if not stops.after:
        return []
    if chain.steps:
        last = {outcome.node for outcome in chain.steps[-1].outcomes}
    else:  # the log starts with a snapshot of the last state
        last = {run.node_name for run in chain.start.node_history.values() if run.step == chain.last}
    held: list[FrameName] = (
        [("", ())] if chain.last and stops.stands_after(("", ()), chain.last, last) else []
    )
    for prefix, (start, steps) in log.frames.items():
        nodes = [outcome.node for outcome in steps[-1].outcomes] if steps else ()
        if stops.stands_after((prefix, start.epoch), len(steps), nodes):
            held.append((prefix, start.epoch))
    return held
