"""Inspection: the methods of an engine that run no node.

They read runs, label, delete, prune, export and import them. They need no graph: a run stores the description of its
own. `Engine` delegates to a `RunInspection`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from clew.engine.blockers import explanation, of_node
from clew.engine.machine import Machine
from clew.engine.next_items import next_items
from clew.engine.options import Status
from clew.engine.reasons import Why, why
from clew.errors import GraphChangedError, InputError, RunStateError, StoreError
from clew.runtime.drivers.session import Session
from clew.runtime.events import Event, Listener, Listeners
from clew.runtime.inside import child_at, frame_at
from clew.runtime.log.checkpoints import Checkpoint, History
from clew.runtime.log.metrics import Totals
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.records import LabelRecord
from clew.runtime.log.run_checks import is_text
from clew.runtime.log.run_log import lineage_of, read_log
from clew.runtime.log.snapshots import begins_turn
from clew.runtime.opener import RunOpener
from clew.runtime.result import RunResult
from clew.runtime.settings import Settings
from clew.state import GraphState, position_of
from clew.stores import RunRow, Store
from clew.stores.memory.store import NOWHERE

if TYPE_CHECKING:
    from clew.engine.records import WorkItem
    from clew.runtime.review.run_diff import RunDiff


_ATTEMPTS = 10  # to read a run that another process continues at the same time


class RunInspection:
    """Reads and manages the runs of one store. `live` holds the sessions that the engine is executing."""

    def __init__(
        self,
        store: Store,
        opener: RunOpener,
        settings: Settings,
        listeners: tuple[Listener, ...],
        live: dict[str, Session],
    ) -> None:
        self._store = store
        self._opener = opener
        self._settings = settings
        self._listeners = listeners
        self._live = live

    def result(self, run_id: str) -> RunResult:
        """Return the result of a run so far, without running anything."""
        for _ in range(_ATTEMPTS):
            run = self._opener.runs.open(run_id)
            result = self.result_so_far(run)
            if run.row.status not in ("waiting", "paused"):
                break
            if self._store.row(run_id).updated == run.row.updated:
                break  # otherwise another process has continued it between two reads
        return result

    def result_so_far(self, run: StoredRun) -> RunResult:
        """Return the result of a run so far."""
        log = run.log()
        machine = self._opener.machine_at(log, run.program(log.start))
        machine.preview()
        result = self.build_result(
            log.row.run_id,
            machine,
            log.row.status,
            log.start,
            totals=lambda: run.whole().totals(run.graph),
        )
        if log.row.status != "running":
            result.failures = log.row.failures
        result.questions = tuple(log.questions)
        return result

    def state(self, run_id: str, step: int | str | None = None, *, path: str | None = None) -> GraphState:
        """Return the latest state of a run, or S(step); `step` can be a label. `path` looks inside the run."""
        if path is not None:
            run_id, rest = child_at(self._opener.runs, run_id, path)
            if rest:
                return frame_at(self._opener.runs, run_id, rest).state(step)
        return self._opener.state(run_id, step)

    def history(self, run_id: str, *, nested: bool = False, path: str | None = None) -> list[Checkpoint]:
        """Return a checkpoint for each S(k); with `nested`, the steps of subgraphs are under their items."""
        if not isinstance(nested, bool):
            raise InputError(f"nested must be True or False, got {nested!r}")
        if path is not None:
            run_id, rest = child_at(self._opener.runs, run_id, path)
            if rest:
                return History(frame_at(self._opener.runs, run_id, rest).history(nested=nested))
        return History(self._history(run_id, nested=nested))

    def histories(self, runs: Iterable[str]) -> list[Checkpoint]:
        """Return the checkpoints of runs, each a fork of the one before it; each is read once."""
        found, last = History(), dict[int, GraphState]()
        for run_id in runs:
            chain = self._history(run_id, last.__getitem__ if last else None)
            last = {each.step_id: each.state for each in chain}
            found += chain
        return found

    def _history(
        self, run_id: str, before: Callable[[int], GraphState] | None = None, *, nested: bool = False
    ) -> list[Checkpoint]:
        run = self._opener.runs.open(run_id)
        log = run.whole(before)
        return log.checkpoints(log.chain(run.program(log.start)), run.graph, nested=nested)

    def label_checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), by default the latest, a label."""
        if type(label) is not str or not label or not is_text(label):
            raise InputError(f"a label must be a string that is not empty, got {label!r}")
        run = self._opener.runs.open(run_id)
        log = run.whole()
        chain = log.chain(run.program(log.start))
        number = log.step_of(chain, step)
        known = log.labels.get(label)
        if known is not None and known != number:
            raise RunStateError(
                f"run {run_id!r} already has a label {label!r} at step {known}; choose another label"
            )
        live = self._live.get(run_id)
        fence, owner = (live.fence, "") if live is not None else self._opener.claim(run_id)
        try:
            self._opener.repository.writer(log, fence, "sync").write([LabelRecord(label, number)])
        finally:
            if live is None:
                self._opener.release(run_id, fence, owner)
        if self._listeners:
            event = Event("checkpoint", run_id, number, "", self._settings.clock.time(), {"label": label})
            Listeners(self._listeners).send(event)
        return next(c for c in self.history(run_id) if c.step_id == number)

    def why(self, run_id: str, target: str, *, path: str | None = None) -> Why:
        """Explain why a node ran last, or which node wrote a value and why. `path` looks inside the run."""
        if not isinstance(target, str):
            raise InputError(f"target must be the name of a node or of a value, got {target!r}")
        if path is not None:
            run_id, rest = child_at(self._opener.runs, run_id, path)
            if rest:
                return frame_at(self._opener.runs, run_id, rest).why(target)
        run = self._opener.runs.open(run_id)
        log = run.whole()
        story = lineage_of(log, lambda parent: self._opener.runs.open(parent).whole())
        for step in story.steps:
            for outcome in step.outcomes:
                if outcome.node and outcome.node not in run.graph.nodes:
                    raise GraphChangedError(
                        f"step {step.number} of run {run_id!r} executed node {outcome.node!r}, which this graph does "
                        f"not have; add the node again to explain the run"
                    )
        program = run.program(log.start)

        def not_run(name: str) -> str:
            result = self.result_so_far(run)
            found = result.blocked.get(name) or of_node(program, name, [*result.failures, *result.questions])
            lacking = result.never_ran.get(name)
            return explanation(run_id, program, name, lacking, found, position_of(result.state).failed)

        return why(program, story, target, not_run)

    def diff(self, a: str, b: str) -> RunDiff:
        """Compare two runs: where `b` diverges from `a`, and which values differ. The result prints as text."""
        from clew.runtime.review.run_diff import compare

        return compare(a, b, lambda run: self._opener.runs.open(run).whole(), self._opener.state)

    def frontier(self, run_id: str, step: int | str | None = None) -> list[WorkItem]:
        """Return the items that would run next at the latest state, or at S(step)."""
        run = self._opener.runs.open(run_id)
        log = run.whole() if step is not None else run.log()
        chain = log.chain(run.program(log.start))
        number = log.step_of(chain, step)
        return next_items(
            chain.program,
            chain.state(number),
            attempts=log.retried(chain.steps),
            past=lambda node: chain.last_run(node, number),
        )

    def runs(self, *, status: Status | None = None, children: bool = False) -> list[RunRow]:
        """Return the runs of the store, oldest first, or those with one status; with `children`, also children."""
        if status is not None and status not in get_args(Status):
            raise InputError(f"status must be one of {', '.join(get_args(Status))}, got {status!r}")
        if not isinstance(children, bool):
            raise InputError(f"children must be True or False, got {children!r}")
        return self._opener.runs.rows(status, of=None if children else "")

    def delete(self, run_id: str) -> None:
        """Delete a run. Raise RunOwnedError if it has a living owner."""
        if run_id in self._live:
            raise RunStateError(f"run {run_id!r} is running; cancel it first")
        self._remove(run_id)

    def _remove(self, run_id: str) -> None:
        fence, owner = self._opener.claim(run_id)
        try:
            self._store.delete(run_id)
        except StoreError as error:
            self._opener.release(run_id, fence, owner)
            turn = next((row for row in self._store.rows() if row.parent == run_id), None)
            if turn is None or not begins_turn(turn.start):
                raise
            raise StoreError(
                f"run {run_id!r} is followed by the turn {turn.run_id!r} of its thread; delete the later turns first, "
                f"or drop old ones with engine.prune(...)"
            ) from error
        except BaseException:
            self._opener.release(run_id, fence, owner)
            raise

    def _detach(self, row: RunRow) -> None:
        """Make a turn independent of the runs before it: it gets a full initial state."""
        if row.run_id in self._live:
            raise RunStateError(f"run {row.run_id!r} is running")
        fence, owner = self._opener.claim(row.run_id)
        try:
            self._opener.repository.detach(row.run_id, fence)
        finally:
            self._opener.release(row.run_id, fence, owner)

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: float | None = None,
        status: Status | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete old runs and return their ids. Runs that can go on are kept unless `status` selects them."""
        from clew.runtime.review.retention import prune

        now, live = self._settings.clock.time(), tuple(self._live)
        return prune(
            self._store,
            keep=keep,
            older_than=older_than,
            status=status,
            dry_run=dry_run,
            now=now,
            spare=live,
            delete=self._remove,
            detach=self._detach,
        )

    def export_run(self, run_id: str, *, latest: bool = False) -> dict[str, Any]:
        """Return a run as a JSON document, with a checkpoint of each state, or of the `latest` only."""
        from clew.runtime.review.transfer import export_run

        return export_run(self._store, run_id, self._settings.on_conflict, latest=latest)

    def import_run(self, document: Mapping[str, Any]) -> RunRow:
        """Import a run that `export_run` wrote, from this store or another one."""
        from clew.runtime.review.transfer import import_run

        return import_run(self._store, self._opener.repository, document)

    def build_result(
        self,
        run_id: str,
        machine: Machine,
        status: Any,
        start: GraphState,
        *,
        totals: Callable[[], Totals],
        records: Sequence[Any] | None = None,
    ) -> RunResult:
        """Build a result whose state is computed on demand; `records` are those that the store may have dropped."""

        def state() -> GraphState:
            if records is None:
                run = self._opener.runs.open(run_id)
                log, program = run.log(), run.program(start)
            else:
                row = RunRow(run_id, seed=machine.options.seed)
                log = read_log(row, start, records, machine.options.on_conflict)
                program = self._opener.program(start)
            root = machine.root
            return log.chain(program).state_of(root.working_state, root.step)

        return RunResult(run_id, machine, status, state, totals=totals, is_stored=self._store is not NOWHERE)
