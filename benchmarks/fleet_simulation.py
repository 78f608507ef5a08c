"""Many machines on a virtual clock: `python -m benchmarks.fleet_simulation --machines 100 --minutes 10`.

The store is real, a SQLite file whose leases and due times follow the virtual clock, and so are all calls of a worker
to it: take, append, update, renew, expire. Only the machines and the time that a step takes are simulated. Machines
are lost one by one, a third of them at once, and some are cut off from the store for longer than their lease, which
go on working as if they had their runs. A lost machine is replaced after a minute.

The result says how many runs were lost, how many steps were committed more or less than once, how many commits the
store refused, how many steps were executed in vain, and how long runs took.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from clew import SQLiteStore
from clew.errors import OwnerDeadError, RunOwnedError
from clew.stores import LogEntry, QueueEntry, RunRow

STEPS = 3
LEASE = 30.0
POLL = 1.0
EXPIRY = 2.0  # seconds between two looks for dead owners
BOOT = 60.0  # seconds until a lost machine is replaced
CUT = 1.5 * LEASE


class FleetClock:
    """The clock of the store and of everything else."""

    boot = "simulation"
    now = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@dataclass(frozen=True)
class Plan:
    """What is simulated."""

    machines: int
    slots: int = 8
    minutes: float = 10.0
    rate: float = 0.8  # runs a second for each machine
    step: float = 2.0  # seconds of a step, in the mean
    lifetime: float = 1800.0  # seconds until a machine is lost, in the mean
    cuts: int = 4  # machines that are cut off
    seed: int = 1


@dataclass
class Report:
    """What came of it."""

    submitted: int = 0
    completed: int = 0
    machines_lost: int = 0
    machines_cut: int = 0
    steps_begun: int = 0
    commits: Counter[tuple[str, int]] = field(default_factory=Counter)
    refused: int = 0  # commits of a machine that no longer had the run
    seconds: dict[str, float] = field(default_factory=dict)  # of each run, from submission to completion
    disturbed: set[str] = field(default_factory=set)  # runs whose machine was lost or cut off
    calls: int = 0  # of the store

    @property
    def wrong(self) -> int:
        """The steps that were not committed exactly once."""
        expected = {(run, n) for run in self.seconds for n in range(1, STEPS + 1)}
        return sum(count != 1 for count in self.commits.values()) + len(expected ^ self.commits.keys())

    def quantile(self, share: float, *, disturbed: bool) -> float:
        found = sorted(took for run, took in self.seconds.items() if (run in self.disturbed) == disturbed)
        return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0


class Machine:
    """A worker on a machine of its own."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.fleet, self.number, self.life = fleet, number, 0
        self.held: dict[str, tuple[int, int]] = {}  # run -> fence and committed steps
        self.is_gone = False
        self.cut_until = 0.0
        fleet.after(fleet.rng.uniform(0, POLL), self.look)
        fleet.after(LEASE / 3, self.renew)
        fleet.after(EXPIRY, self.expire)
        fleet.store.register(self.name, lease=LEASE)

    @property
    def name(self) -> str:
        return f"machine {self.number}.{self.life}"

    @property
    def is_cut(self) -> bool:
        return self.fleet.clock.now < self.cut_until

    def look(self, *, again: bool = True) -> None:
        """Take runs for the free slots; poll if there are none."""
        if self.is_gone:
            return
        free = self.fleet.plan.slots - len(self.held)
        if free > 0 and not self.is_cut:
            try:
                found = self.fleet.store.take(
                    self.name, structures=["s"], queues=["default"], limit=free, lease=LEASE
                )
            except OwnerDeadError:
                self.begin_anew()
            else:
                self.fleet.report.calls += 1
                for taken in found:
                    run = taken.row.run_id
                    done = 0 if taken.is_new else len(self.fleet.store.entries(run))
                    self.held[run] = (taken.fence, done)
                    self.execute(run)
        if again:
            self.fleet.after(POLL * self.fleet.rng.uniform(0.75, 1.25), self.look)

    def execute(self, run: str) -> None:
        """Execute the next step of a run, and commit it afterwards."""
        life, fence = self.life, self.held[run][0]
        self.fleet.report.steps_begun += 1
        took = self.fleet.rng.expovariate(1 / self.fleet.plan.step)
        self.fleet.after(took, lambda: self.commit(run, life, fence))

    def commit(self, run: str, life: int, fence: int) -> None:
        if self.is_gone or life != self.life or self.held.get(run, (0, 0))[0] != fence:
            return
        if self.is_cut:  # the store is not reached; the commit is repeated
            self.fleet.after(self.cut_until - self.fleet.clock.now, lambda: self.commit(run, life, fence))
            return
        report, store = self.fleet.report, self.fleet.store
        number = self.held[run][1] + 1
        report.calls += 1
        try:
            store.append(run, [_entry(number)], fence)
            report.commits[run, number] += 1
            self.held[run] = (fence, number)
            if number < STEPS:
                self.execute(run)
                return
            store.update(run, status="completed", updated=0.0, error=None, fence=fence, release=True)
            report.calls += 1
            report.completed += 1
            report.seconds[run] = self.fleet.clock.now - self.fleet.submitted[run]
        except RunOwnedError:
            report.refused += 1
        del self.held[run]
        self.look(again=False)

    def renew(self) -> None:
        if self.is_gone:
            return
        if not self.is_cut:
            try:
                self.fleet.store.renew(self.name, lease=LEASE)
                self.fleet.report.calls += 1
            except OwnerDeadError:
                self.begin_anew()
        self.fleet.after(LEASE / 3, self.renew)

    def expire(self) -> None:
        if not self.is_gone:
            if not self.is_cut:
                self.fleet.store.expire()
                self.fleet.report.calls += 1
            self.fleet.after(EXPIRY * self.fleet.rng.uniform(0.75, 1.25), self.expire)

    def begin_anew(self) -> None:
        """Continue under a new name, without the runs, after others have declared this one dead."""
        self.life += 1
        self.held = {}
        self.fleet.store.register(self.name, lease=LEASE)

    def lose(self) -> None:
        if not self.is_gone:
            self.is_gone = True
            self.fleet.report.machines_lost += 1
            self.fleet.report.disturbed.update(self.held)
            self.fleet.after(BOOT, self.fleet.add)

    def cut(self) -> None:
        if not self.is_gone:
            self.cut_until = self.fleet.clock.now + CUT
            self.fleet.report.machines_cut += 1
            self.fleet.report.disturbed.update(self.held)


class Fleet:
    """The machines, their clock, and what happens next."""

    def __init__(self, plan: Plan, store: SQLiteStore, clock: FleetClock) -> None:
        self.plan, self.store, self.clock = plan, store, clock
        self.rng = Random(plan.seed)
        self.report = Report()
        self.submitted: dict[str, float] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.machines: list[Machine] = []

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.clock.now + seconds, self._count, do))

    def add(self) -> None:
        machine = Machine(self, len(self.machines))
        self.machines.append(machine)
        self.after(self.rng.expovariate(1 / self.plan.lifetime), machine.lose)

    def submit(self) -> None:
        run = f"run {len(self.submitted)}"
        self.submitted[run] = self.clock.now
        self.store.create(RunRow(run, structure="s", start=b""), queue=QueueEntry())
        self.report.submitted += 1
        self.report.calls += 1

    def simulate(self) -> Report:
        plan, seconds = self.plan, self.plan.minutes * 60
        for _ in range(plan.machines):
            self.add()
        at = 0.0
        while (at := at + self.rng.expovariate(plan.rate * plan.machines)) < seconds:
            self.after(at, self.submit)
        for machine in self.rng.sample(self.machines, plan.machines // 3):
            self.after(seconds / 2, machine.lose)
        for _ in range(plan.cuts):
            self.after(self.rng.uniform(0.2, 0.4) * seconds, self.rng.choice(self.machines).cut)
        end = self.clock.now + seconds
        while self.clock.now < end or self.report.completed < self.report.submitted:
            self.clock.now, _, do = heapq.heappop(self._events)
            if self.clock.now > end + 3600.0:
                break  # what has not ended by now is lost
            do()
        return self.report


def _entry(n: int) -> LogEntry:
    body = b"{}"
    return LogEntry("step", "", n, body, sha256(f"{n}".encode()).digest())


def simulate(plan: Plan, folder: Path) -> Report:
    """Simulate a plan, with a store in a folder."""
    clock = FleetClock()
    store: Any = SQLiteStore(folder / "fleet.db", synchronous="off", clock=clock)
    try:
        return Fleet(plan, store, clock).simulate()
    finally:
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clew-fleet-") as folder:
        report = simulate(Plan(given.machines, minutes=given.minutes, seed=given.seed), Path(folder))
    lost = report.submitted - report.completed
    print(f"runs: {report.submitted:,} submitted, {lost} lost; calls of the store: {report.calls:,}")
    print(f"machines: {report.machines_lost} lost, {report.machines_cut} cut off from the store")
    print(f"steps not committed exactly once: {report.wrong}; commits refused: {report.refused}")
    committed = report.commits.total()
    print(f"steps: {committed:,} committed, {report.steps_begun - committed:,} begun in vain")
    for disturbed in (False, True):
        times = ", ".join(f"{report.quantile(share, disturbed=disturbed):.1f}" for share in (0.5, 0.99, 1.0))
        which = "runs whose machine was lost or cut off" if disturbed else "other runs"
        print(f"{which}: {times} s (median, 99%, longest)")


if __name__ == "__main__":
    main()
