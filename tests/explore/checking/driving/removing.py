"""A path on which runs are removed by `delete` or `prune`.

Three runs have completed: one, its fork, and an unrelated one. A program removes them, and tries again after any
failure, with the same engine or from another process, until they are gone. At every moment:

- a run is complete, to the last entry, and can be read; or none of its rows is left in any table;
- a forked run exists as long as its fork does;
- no run has an unknown owner, so another attempt is not locked out.

When all are gone, a run of the same name can be created, and ends like the first one.
"""

from __future__ import annotations

from typing import Any

from clew.errors import ClewError, RunOwnedError, UnknownRunError
from clew.runtime.log.reader import RunReader
from tests.explore.checking.driving.path import Path
from tests.explore.checking.driving.program import PARENT, RUN, Died, Stopped

FORK, OTHER = "fork", "other"
RUNS = (PARENT, FORK, OTHER)
ORDER = (FORK, PARENT, OTHER)  # in which they can be deleted one by one


class Removal(Path):
    """One execution of a program that removes runs."""

    def _prepare(self) -> None:
        self._make(PARENT)
        self._make(FORK, "fork", PARENT, step=1, values=self.case.begins[2]["values"])
        self._make(OTHER)
        self._whole = {run_id: self._shown(run_id)[:2] for run_id in RUNS}
        self._states = {run_id: self._state(run_id) for run_id in RUNS}

    def _state(self, run_id: str) -> str:
        return RunReader(self.case.graph, self.disk, "error").open(run_id).state().digest

    def _live(self) -> None:
        for _ in range(10):
            try:
                self._remove()
            except Died:
                self._bury()
            except RunOwnedError as error:
                self.fail(f"nobody else has the run: {error}")
            except ClewError as error:
                self._check_owners(error)
                if self.meet("again", "another process does it") != "again":
                    self._bury(is_met=True)
            else:
                self._check_owners("removing")
                self._finish()
        self.fail("the runs are not removed")

    def _remove(self) -> None:
        try:
            self._ask()
        finally:
            if self._gone is not None:  # whatever was made of it
                raise self._gone

    def _ask(self) -> None:
        engine = self.process.engine
        if self.case.begins[0] == "prune":
            there = [run_id for run_id in RUNS if self.disk.has(run_id)]
            gone = engine.prune(keep=0)
            if gone != there:
                self.fail(f"there were {there}, and it is said that {gone} are gone")
            return
        for run_id in ORDER:
            if self.disk.has(run_id):
                try:
                    engine.delete(run_id)
                except UnknownRunError as error:
                    self.fail(f"it was there: {error}")

    def check(self) -> None:
        there = [run_id for run_id in RUNS if self.disk.has(run_id)]
        for run_id in there:
            if self._shown(run_id)[:2] != self._whole[run_id]:
                self.fail(f"{run_id} was changed")
            if self._state(run_id) != self._states[run_id]:
                self.fail(f"{run_id} cannot be read as it was")
        if FORK in there and PARENT not in there:
            self.fail("a run is gone, and there is a fork of it")
        if not there and hasattr(self.disk, "leftovers") and (left := self.disk.leftovers()):
            self.fail(f"all runs are gone, and there is something left: {left}")

    def _check_owners(self, after: object) -> None:
        left = self.process.engine._opener._unreleased
        for run_id in RUNS:
            owner = self.disk.owner(run_id) if self.disk.has(run_id) else None
            if owner is not None and owner.token != left.get(run_id, (0, None))[1]:
                self.fail(f"after {after!r} the engine owns {run_id} without knowing")

    def _left_behind(self) -> list[Any]:
        there = [[run_id, self.disk.owner(run_id) is not None] for run_id in RUNS if self.disk.has(run_id)]
        return [there, sorted(self.process.engine._opener._unreleased), self.faults]

    def _finish(self) -> None:
        self.check()
        if any(self.disk.has(run_id) for run_id in RUNS):
            self.fail("it is said that all runs are gone, and they are not")
        self.audit()
        self._make(RUN)
        self.digest = self._state(RUN)
        if self.digest != self._states[PARENT]:
            self.fail("a run of the same name ended with another chain")
        self.options = []
        raise Stopped
