"""Calibration: learn what is volatile, and find state that is not rolled back.

Each call that may write, and each read, is performed twice from the same state, the second time at least `settle`
seconds later. What differs then depends on a clock or on random numbers:

- Columns whose values differ are volatile. Values are compared as multisets, never by rows with random keys.
- A different status, or a read that answers differently after a rollback, means that the service holds state that is
  not rolled back: a cache in the process, a rate limit. Reads near a write are compared right after its rollback, which
  names the write.

Calls that were accepted are then performed in a row, which makes more calls possible; these are the next *wave*. The
second calls follow when the first ones of all waves are done, so that all waves wait for the clock together.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.explore.api.calls import Call
from clew.explore.api.checks import ACCEPTED, FAILED, RATE_LIMITED
from clew.explore.api.late_writes import Lateness
from clew.explore.api.logins import signs_out
from clew.explore.api.openapi.links import head_of
from clew.explore.api.resources import MADE, new_resource, scalars
from clew.explore.api.sending import LOGINS, Sender
from clew.explore.api.table_changes import Column, Snapshot, same
from clew.explore.api.transports.messages import NOT_JSON, HttpResponse
from clew.explore.model.world import World

SHIFT = 10  # of the values of an operation whose first ones were rejected
NEIGHBOURS = 4  # reads after a write, which fill caches
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?|\b\d{10}(\d{3})?\b")

Columns = set[Column]


class CalibrationResult(msgspec.Struct):
    """What calibration found; it is stored with an exploration, so that a resumed one names states alike."""

    times: list[Column] = []
    volatile: list[Column] = []
    stale: list[str] = []
    shift: dict[str, int] = {}
    seeds: dict[str, list[dict[str, Any]]] = {}
    independent: list[str] = []  # operations that accept a body which refers to nothing
    identities: list[str] = []  # reads that answer who the actor is
    rate_limited: list[str] = []
    accepted: int = 0
    writes: int = 0  # accepted writes
    shown: int = 0  # accepted writes that changed a system
    calls: int = 0
    late: dict[str, Lateness] = {}  # operations whose writes showed after they were answered


class _Seen(msgspec.Struct):
    response: HttpResponse
    after: Snapshot


class _Wave(msgspec.Struct):
    here: str  # the checkpoint from which its calls are performed
    began: float
    reads: dict[Call, str]
    writes: dict[Call, _Seen]

    @property
    def accepted(self) -> list[Call]:
        return [call for call, seen in self.writes.items() if seen.response.status < ACCEPTED]


class Calibration:
    """Calibrates the calls of a world."""

    def __init__(
        self, sender: Sender, world: World, *, settle: float, out_of_time: Callable[[], bool]
    ) -> None:
        self._sender = sender
        self._world = world
        self._settle = settle
        self._late = out_of_time
        self._unsteady: set[str] = set()  # reads that differ without a write
        self.result = CalibrationResult()

    def run(self) -> CalibrationResult:
        """Calibrate, and leave the world in the state after the last calls."""
        self._find_seeds()
        self._sign_in()
        done: set[Call] = set()
        waves: list[_Wave] = []
        while not self._late():
            calls = [call for call in self._offered() if call not in done]
            if not calls:
                break
            done |= set(calls)
            waves.append(self._first(calls))
            if self.result.rate_limited or self.result.stale:
                break
            self._advance(waves[-1].accepted)
        for wave in waves:
            self._second(wave)
            self._world.release(wave.here)
        self.result.shift = dict(self._sender.table.shift)
        self.result.late = dict(self._sender.late.seen)
        return self.result

    def _offered(self) -> list[Call]:
        made = self._world.context.get(MADE) or {}
        calls = self._sender.table.offered(made, self._world.context.get(LOGINS) or {})
        return [call for call in calls if call.role in ("main", "login")]

    # -- one wave -----------------------------------------------------------------------------------------------

    def _first(self, calls: list[Call]) -> _Wave:
        """Perform each call from the current state, and go back to it."""
        here, began = self._world.checkpoint("calibration"), time.monotonic()
        reads = {call: self._read(call, here) for call in calls if self._is_read(call)}
        wave = _Wave(here, began, reads, {})
        for call in calls:
            if self._is_read(call):
                continue
            if self._late() or self.result.stale:
                break
            wave.writes[call] = self._act(call, here, self._near(call, list(reads)))
            self._check_rolled_back(call, here, reads)
        self._world.rollback(here)
        return wave

    def _second(self, wave: _Wave) -> None:
        """Perform the calls of a wave again, and compare. Writes come first: they show what is volatile."""
        if not self._is_over():
            self._wait(wave.began)
        for call, seen in wave.writes.items():
            if self._is_over():
                return
            self._compare(call, seen, self._act(call, wave.here, []))
        for call, answer in wave.reads.items():
            if self._is_over():
                return
            if self._read(call, wave.here) == answer or call.operation in self._unsteady:
                continue
            if self._is_steady(call, wave.here):
                self.result.stale.append(f"{call.name} answers differently after a rollback")

    def _is_over(self) -> bool:
        return self._late() or bool(self.result.stale)

    def _is_read(self, call: Call) -> bool:
        return not self._sender.document.by_name[call.operation].writes

    def _wait(self, began: float) -> None:
        left = self._settle - (time.monotonic() - began)
        if left > 0:
            time.sleep(left)

    def _perform(self, call: Call) -> HttpResponse:
        self._sender.perform(self._world, call)
        assert self._sender.last is not None
        response = self._sender.last[2]
        self.result.calls += 1
        if response.status == RATE_LIMITED and call.operation not in self.result.rate_limited:
            self.result.rate_limited.append(call.operation)
        if response.status < ACCEPTED:
            self.result.accepted += 1
            if not call.linked and call.operation not in self.result.independent:
                self.result.independent.append(call.operation)
            is_new = self._is_read(call) and call.operation not in self.result.identities
            if is_new and self._sender.tells_who(call, response):
                self.result.identities.append(call.operation)
        return response

    def _act(self, call: Call, here: str, reads: list[Call]) -> _Seen:
        """Perform a write from a state, and some reads after it."""
        world, sender = self._world, self._sender
        world.rollback(here)
        before = sender.snapshot()
        response = self._perform(call)
        after = sender.snapshot()
        changed = not same(before, after)
        if response.status < ACCEPTED and call.role == "main":
            self.result.writes += 1
            self.result.shown += changed
        elif (
            response.status < FAILED
            and call.number == 0
            and call.operation.startswith("POST")
            and call.linked
        ):
            sender.table.shift.setdefault(call.operation, SHIFT)
        if response.status < ACCEPTED:
            for each in reads:
                self._perform(each)
        return _Seen(response, after)

    def _near(self, write: Call, reads: list[Call]) -> list[Call]:
        """Return the reads whose answers a write may change."""
        head = write.operation.split(" ", 1)[1].split("{")[0].rstrip("/")
        return [each for each in reads if each.operation.split(" ", 1)[1].startswith(head)][:NEIGHBOURS]

    def _check_rolled_back(self, write: Call, here: str, before: dict[Call, str]) -> None:
        """Compare reads before a write with the same reads after it was rolled back."""
        for read in self._near(write, list(before)):
            if read.operation in self._unsteady or self._read(read, here) == before[read]:
                continue
            if self._is_steady(read, here):
                self.result.stale.append(
                    f"{read.name} answers differently after {write.name} was rolled back"
                )
                return

    def _is_steady(self, read: Call, here: str) -> bool:
        """Return whether a read answers the same without a write; if not, it depends on a clock."""
        one = self._read(read, here)
        self._wait(time.monotonic())
        if self._read(read, here) == one:
            return True
        self._unsteady.add(read.operation)
        return False

    def _read(self, call: Call, here: str) -> str:
        self._world.rollback(here)
        return comparable(self._perform(call))

    # -- differences --------------------------------------------------------------------------------------------

    def _compare(self, call: Call, one: _Seen, two: _Seen) -> None:
        if one.response.status != two.response.status:
            statuses = sorted({one.response.status, two.response.status})
            if RATE_LIMITED not in statuses:
                self.result.stale.append(
                    f"{call.name} answered {statuses[0]} and {statuses[1]} in the same state"
                )
            return
        self._note_volatile(one.after, two.after)

    def _note_volatile(self, one: Snapshot, two: Snapshot) -> None:
        for column, values in volatile_columns(one, two).items():
            known = self.result.times if all(_TIME.match(each) for each in values) else self.result.volatile
            if column not in known and column not in self._sender.times:
                known.append(column)

    def _sign_in(self) -> None:
        """Let the actors sign up and in twice from the same state, and stay signed in: passwords are hashed slowly."""
        sender, world = self._sender, self._world
        actors = [each.name for each in sender.authentication.actors]
        here = world.checkpoint("before the logins")
        before, seen = sender.snapshot(), []
        for turn in range(2 if actors else 0):
            began = time.monotonic()
            world.rollback(here)
            sender.forget_logins()
            for name in actors:
                sender.credentials_of(world, name)
            seen.append(sender.snapshot())
            if not turn and same(before, seen[0]):
                break  # a login that stores nothing
            if not turn:
                self._wait(began)
        if len(seen) == 2:
            self._note_volatile(*seen)
        used = (sender.authentication.sign_up, sender.authentication.login)
        self.result.accepted += any(each is not None and sender.traffic.succeeded(each.name) for each in used)
        world.release(here)

    # -- between waves ------------------------------------------------------------------------------------------

    def _advance(self, accepted: list[Call]) -> None:
        """Perform what was accepted, except deletions, logins and logouts, so that more calls become possible."""
        for call in accepted:
            ends = call.operation.startswith("DELETE") or signs_out(call.operation)
            if not ends and call.role == "main" and not call.probe:
                if self._late():
                    return
                self._perform(call)

    def _find_seeds(self) -> None:
        """Remember resources that exist at the start, for parameters that no operation creates."""
        sender, table = self._sender, self._sender.table
        wanted = {
            head_of(operation.path, name)
            for operation in sender.document.operations
            for name, makers in table.makers[operation.name].items()
            if not makers
        }
        for call in self._offered():
            path = call.operation.split(" ", 1)[1].rstrip("/")
            if not self._is_read(call) or call.args or path not in wanted:
                continue
            found = self._perform(call)
            items = _items(found.json)[: table.resources]
            if items:
                table.seeds[call.operation] = [new_resource(scalars(each), {}, None, {}) for each in items]
        self.result.seeds = table.seeds


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [each for each in value if isinstance(each, Mapping)]
    if isinstance(value, Mapping):
        return next((found for part in value.values() if (found := _items(part))), [])
    return []


def comparable(response: HttpResponse) -> str:
    """Return a response without times, for a comparison."""
    if response.json is NOT_JSON:
        return f"{response.status} {len(response.body)}"
    return _TIME.sub("T", f"{response.status} {json.dumps(response.json, sort_keys=True)}")


def volatile_columns(one: Snapshot, two: Snapshot) -> dict[Column, list[str]]:
    """Return the columns whose multisets of values differ, with the values that only the second has."""
    found: dict[Column, list[str]] = {}
    for system, observation in one.items():
        tables, others = observation.data, two[system].data
        if not isinstance(tables, Mapping) or not isinstance(others, Mapping):
            continue
        for table, rows in tables.items():
            again = others.get(table)
            if not isinstance(rows, list) or not isinstance(again, list) or len(rows) != len(again):
                continue
            for column in rows[0] if rows and isinstance(rows[0], Mapping) else ():
                a = sorted(str(row.get(column)) for row in rows)
                b = sorted(str(row.get(column)) for row in again)
                if a != b:
                    found[system, table, column] = [each for each in b if each not in a]
    return found
