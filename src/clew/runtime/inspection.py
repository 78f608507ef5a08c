"""Looking at runs, and looking after them: the verbs of an engine that run no node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from clew.engine.machine import Machine
from clew.engine.next_items import next_items
from clew.engine.options import Status
from clew.engine.reasons import Why, why
from clew.errors import GraphChangedError, InputError, RunStateError
from clew.graph import Graph
from clew.runtime.drivers.session import Session
from clew.runtime.events import Event, Listener, Listeners
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.metrics import Totals
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.records import LabelRecord
from clew.runtime.log.run_checks import is_text
from clew.runtime.log.run_log import lineage_of, read_log
from clew.runtime.opener import RunOpener
from clew.runtime.result import RunResult
from clew.runtime.settings import Settings
from clew.state import GraphState
from clew.stores import RunRow, Store

if TYPE_CHECKING:
    from clew.engine.records import WorkItem
    from clew.runtime.review.run_diff import RunDiff


class RunInspection:
    """What an engine says about the runs in its store. It needs no graph for that: runs keep descriptions of theirs."""

    store: Store
    _settings: Settings
    _listeners: tuple[Listener, ...]
    _live: dict[str, Session]
    _opener: RunOpener

    @property
    def graph(self) -> Graph:
        """The graph of the engine. InputError if it has none."""
        return self._opener.graph

    def result(self, run_id: str) -> RunResult:
        """The result of a run as it stands, without running anything."""
        return self._standing(self._opener.runs.open(run_id))

    def _standing(self, run: StoredRun) -> RunResult:
        """The result of a run as it stands."""
        log = run.log()
        machine = self._opener.machine_at(log, run.program(log.start))
        machine.preview()
        result = self._result(
            log.row.run_id,
            machine,
            log.row.status,
            log.start,
            totals=lambda: run.whole().totals(run.graph),
        )
        result.failures, result.questions = log.row.failures, tuple(log.questions)
        return result

    def state(self, run_id: str, step: int | str | None = None) -> GraphState:
        """The latest state of a run, or S(step); `step` may be a label."""
        return self._opener.state(run_id, step)

    def history(self, run_id: str, *, nested: bool = False) -> list[Checkpoint]:
        """One checkpoint for each S(k); with `nested`, subgraphs' steps are under their items."""
        if not isinstance(nested, bool):
            raise InputError(f"nested is True or False, not {nested!r}")
        run = self._opener.runs.open(run_id)
        log = run.whole()
        return log.checkpoints(log.chain(run.program(log.start)), run.graph, nested=nested)

    def checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), the latest by default, a name."""
        if type(label) is not str or not label or not is_text(label):
            raise InputError(f"a label is text that is not empty, not {label!r}")
        run = self._opener.runs.open(run_id)
        log = run.whole()
        chain = log.chain(run.program(log.start))
        number = log.step_of(chain, step)
        known = log.labels.get(label)
        if known is not None and known != number:
            raise RunStateError(
                f"run {run_id!r} has a label {label!r} at step {known} already; choose another"
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
            Listeners(self._listeners).tell(event)
        return next(c for c in self.history(run_id) if c.step_id == number)

    def why(self, run_id: str, target: str) -> Why:
        """Which change made a node run last, or made the value that it wrote."""
        if not isinstance(target, str):
            raise InputError(f"the target of why is the name of a node or a value, not {target!r}")
        run = self._opener.runs.open(run_id)
        log = run.whole()
        story = lineage_of(log, lambda parent: self._opener.runs.open(parent).whole())
        for step in story.steps:
            for outcome in step.outcomes:
                if outcome.node not in run.graph.nodes:
                    raise GraphChangedError(
                        f"step {step.number} of run {run_id!r} is of node {outcome.node!r}, which this graph does not "
                        f"have; give the node back to ask why"
                    )
        return why(run.program(log.start), story, target)

    def diff(self, a: str, b: str) -> RunDiff:
        """Where run `b` parts from run `a`, and what became of it; readable as text."""
        from clew.runtime.review.run_diff import compare

        return compare(a, b, lambda run: self._opener.runs.open(run).whole(), self._opener.state)

    def frontier(self, run_id: str, step: int | str | None = None) -> list[WorkItem]:
        """The items that would run next at the latest state, or at S(step)."""
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

    def runs(self, *, status: str | None = None) -> list[RunRow]:
        """The runs in the store, oldest first; those of one status, if one is given."""
        if status is not None and status not in get_args(Status):
            raise InputError(f"status is one of {', '.join(get_args(Status))}, not {status!r}")
        return self._opener.runs.rows(status)

    def delete(self, run_id: str) -> None:
        """Forget a run. RunOwnedError if a living owner has it."""
        if run_id in self._live:
            raise RunStateError(f"run {run_id!r} is running; cancel it first")
        self._remove(run_id)

    def _remove(self, run_id: str) -> None:
        fence, owner = self._opener.claim(run_id)
        try:
            self.store.delete(run_id)
        except BaseException:
            self._opener.release(run_id, fence, owner)
            raise

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: float | None = None,
        status: str | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete old runs of the store; their ids. Never those under way, unless `status` asks for them."""
        from clew.runtime.review.retention import prune

        now, live = self._settings.clock.time(), tuple(self._live)
        return prune(
            self.store,
            keep=keep,
            older_than=older_than,
            status=status,
            dry_run=dry_run,
            now=now,
            spare=live,
            delete=self._remove,
        )

    def export(self, run_id: str, *, latest: bool = False) -> dict[str, Any]:
        """A run as a JSON document, with a checkpoint of each state, or of the `latest` only."""
        from clew.runtime.review.transfer import export_run

        return export_run(self.store, run_id, self._settings.on_conflict, latest=latest)

    def import_run(self, document: Mapping[str, Any]) -> RunRow:
        """Keep a run that `export` wrote, of this store or another one."""
        from clew.runtime.review.transfer import import_run

        return import_run(self.store, self._opener.repository, document)

    def _result(
        self,
        run_id: str,
        machine: Machine,
        status: Any,
        start: GraphState,
        *,
        totals: Callable[[], Totals],
        records: Sequence[Any] | None = None,
    ) -> RunResult:
        def state() -> GraphState:
            if records is None:
                run = self._opener.runs.open(run_id)
                log, program = run.log(), run.program(start)
            else:  # the store may have dropped it
                row = RunRow(run_id, seed=machine.options.seed)
                log = read_log(row, start, records, machine.options.on_conflict)
                program = self._opener.program(start)
            root = machine.root
            return log.chain(program).state_of(root.working_state, root.step)

        return RunResult(run_id, machine, status, state, totals=totals)
