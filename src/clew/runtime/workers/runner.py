"""Execute the runs of one graph that a worker takes. All graphs of a worker share its owner, its lease and its live
sessions.

A new run starts from its row, which the take returned, without another read of the store. Any other run, and the next
run of a thread, is opened like a resumed one, with the fence of the take.
"""

from __future__ import annotations

from functools import partial

from clew.engine.machine import Machine
from clew.engine.records import Failure
from clew.errors import ClewError, StoreCorruptError, TriesExhaustedError
from clew.graph import Graph
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.lease_renewal import LeaseRenewer
from clew.runtime.drivers.session import Session
from clew.runtime.execution import RunExecution
from clew.runtime.log.checks.fingerprints import conflict_rule
from clew.runtime.log.engine_owner import EngineOwner
from clew.runtime.log.entries.stop_records import first_stops
from clew.runtime.log.run_rows import opened_row
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.reporting.observers import Followers
from clew.runtime.reporting.reports import report_failure
from clew.runtime.settings import Settings
from clew.runtime.workers.presence import history_of
from clew.stores import Store, TakenRun


class GraphRunner(RunOpener):
    """Opens and executes the runs of one graph that a worker has taken."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        settings: Settings,
        listeners: Followers,
        owner: EngineOwner,
        renewer: LeaseRenewer,
        live: dict[str, Session],
    ) -> None:
        super().__init__(graph, store, settings, listeners)
        self.repository.owner = owner
        self._execution = RunExecution(self, live, lease_renewer=renewer)

    def execute(self, taken: TakenRun, token: str) -> str:
        """Execute a run in this thread until it stops, and return its status. Raise what prevents that."""
        hold = Hold(taken.row.run_id, token)
        opening = partial(self.taken, taken, token)
        return self._execution.drive(hold, opening, check=False).status

    def give_back(self, run_id: str, fence: int) -> None:
        """Return a run to its queue, for another worker to take at once."""
        try:
            self.store.enqueue(run_id, fence, status="queued")
        except ClewError:
            pass  # another one has it, or takes it when this worker is declared dead

    def fail(self, taken: TakenRun) -> None:
        """End a run that was taken too often without result: it failed, with its history."""
        row, tries = taken.row, taken.tries - 1
        history = history_of(row.run_id, self.store.workers())
        error = TriesExhaustedError(
            f"run {row.run_id!r} was taken from its queue {tries} times in a row and committed nothing"
            + (f" ({'; '.join(history)})" if history else ": its worker died each time")
            + f"; fix the cause, then call engine.resume({row.run_id!r})"
        )
        now = self.settings.clock.time()
        self.repository.close(row.run_id, taken.fence, "failed", now, (Failure(error),))
        report_failure(row.run_id, row.graph, Failure(error))

    def taken(self, taken: TakenRun, token: str) -> Session:
        """Open a run. Release it if that fails."""
        row = taken.row
        if taken.is_new and row.parent is None:
            try:
                session = self._first(taken, token)
            except BaseException:
                self.release(row.run_id, taken.fence, token)
                raise
        else:
            found = self.again(row.run_id, NO_ANSWER, None, False, token, fence=taken.fence)
            assert isinstance(found, Session)
            session = found
        session.releases, session.executing = True, {}
        return session

    def _first(self, taken: TakenRun, token: str) -> Session:
        """Open a run that has committed nothing, without reading it."""
        row = opened_row(taken.row, classes=True)
        if row.damage:
            raise StoreCorruptError(row.damage)
        self.check_structure(row)
        start = self.runs.run_of(row).start()
        rule = self._on_conflict(conflict_rule(row.codes, self.settings.on_conflict))
        options, listeners = self._options(row.seed, None, rule, start, first_stops(row.codes))
        machine = Machine.restore(self.program(start), start, options)
        durability, run_id = self.settings.durability, row.run_id
        return Session(
            run_id,
            machine,
            self.repository.new_writer(run_id, start, row.created, taken.fence, durability),
            self.settings,
            self.runs,
            start,
            fence=taken.fence,
            owner=token,
            created=row.created,
            listeners=listeners,
            cache=self._cache,
        )
