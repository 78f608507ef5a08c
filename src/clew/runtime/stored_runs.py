"""The methods of an engine that run no node: they read, label, delete, export and import the runs of its store, and
send messages to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from clew.engine.history.blockers import explanation, of_node
from clew.engine.history.next_items import next_items
from clew.engine.history.reasons import Why, why
from clew.engine.options import Status
from clew.errors import GraphChangedError, InputError, RunStateError
from clew.graph.names import is_text, nearest, similar
from clew.runtime.children.inside import child_at, frame_at
from clew.runtime.drivers.session import Session
from clew.runtime.inspection import read_history, read_result, result_so_far
from clew.runtime.log.checkpoints import Checkpoint, History
from clew.runtime.log.entries.records import LabelRecord
from clew.runtime.log.run_log import lineage_of
from clew.runtime.messages import answer_run, send_signal
from clew.runtime.reporting.events import Event, Listeners
from clew.runtime.result import RunResult
from clew.runtime.run_ids import checked_run_id
from clew.runtime.run_pages import RunFilter, RunPage, list_runs
from clew.runtime.turns.threads import Thread, ThreadOpener, all_threads, find_thread
from clew.state import GraphState, position_of
from clew.stores import RunRow, Store

if TYPE_CHECKING:
    from clew.engine.records import WorkItem
    from clew.runtime.review.run_diff import RunDiff


class StoredRuns:
    """The runs of a store. `live` holds the sessions of those that the engine is executing."""

    def __init__(self, store: Store, opener: ThreadOpener, live: dict[str, Session]) -> None:
        self.store = store
        self._opener = opener
        self._settings = opener.settings
        self._live = live

    def result(self, run_id: str) -> RunResult:
        """Return the result of a run so far, without running anything."""
        return read_result(self._opener, run_id)

    def state(self, run_id: str, step: int | str | None = None, *, path: str | None = None) -> GraphState:
        """Return the latest state of a run, or S(step); `step` can be a label.

        With `path`, the state is that of a child (``outer#0!0``) or of a subgraph (``sub#0``) inside the run.
        """
        run_id, inner = self._inside(run_id, path)
        return (
            frame_at(self._opener.runs, run_id, inner).state(step)
            if inner
            else self._opener.state(run_id, step)
        )

    def history(self, run_id: str, *, nested: bool = False, path: str | None = None) -> list[Checkpoint]:
        """Return a checkpoint for each S(k), of the run or of what is inside it at `path`.

        With `nested`, the steps of subgraphs are under their items.
        """
        if not isinstance(nested, bool):
            raise InputError(f"nested must be True or False, got {nested!r}")
        run_id, inner = self._inside(run_id, path)
        if inner:
            return History(frame_at(self._opener.runs, run_id, inner).history(nested=nested))
        return History(read_history(self._opener, run_id, nested=nested))

    def label_checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), by default the latest, a label."""
        if type(label) is not str or not label or not is_text(label):
            raise InputError(f"a label must be a string that is not empty, got {label!r}")
        opener = self._opener
        run = opener.runs.open(run_id)
        log = run.whole()
        chain = log.chain(run.program(log.start))
        number = log.step_of(chain, step)
        known = log.labels.get(label)
        if known is not None and known != number:
            raise RunStateError(
                f"run {run_id!r} already has a label {label!r} at step {known}; choose another label"
            )
        live = self._live.get(run_id)
        fence, owner = (live.fence, "") if live is not None else opener.claim(run_id)
        try:
            opener.repository.writer(log, fence, "sync").write([LabelRecord(label, number)])
        finally:
            if live is None:
                opener.release(run_id, fence, owner)
        if opener.listeners:
            event = Event("checkpoint", run_id, number, "", self._settings.clock.time(), {"label": label})
            Listeners(opener.listeners).send(event)
        return next(c for c in self.history(run_id) if c.step_id == number)

    def why(self, run_id: str, target: str, *, path: str | None = None) -> Why:
        """Explain why a node ran last, or an item (``load#0[1]``), or which node wrote a value; `path` looks inside."""
        if not isinstance(target, str):
            raise InputError(f"target must be the name of a node or of a value, got {target!r}")
        run_id, inner = self._inside(run_id, path)
        if inner:
            return frame_at(self._opener.runs, run_id, inner).why(target)
        run = self._opener.runs.open(run_id)
        log = run.whole()
        lineage = lineage_of(log, lambda parent: self._opener.runs.open(parent).whole())
        for step in lineage.steps:
            for outcome in step.outcomes:
                if outcome.node and outcome.node not in run.graph.nodes:
                    raise GraphChangedError(
                        f"step {step.number} of run {run_id!r} executed node {outcome.node!r}, which this graph does "
                        f"not have; add the node again to explain the run"
                    )
        program = run.program(log.start)

        def not_run(name: str) -> str:
            result = result_so_far(self._opener, run)
            found = result.blocked.get(name) or of_node(program, name, [*result.failures, *result.questions])
            lacking = result.never_ran.get(name)
            return explanation(run_id, program, name, lacking, found, position_of(result.state).failed)

        return why(program, lineage, target, not_run)

    def _inside(self, run_id: str, path: str | None) -> tuple[str, str]:
        """Return the innermost child on a path, and the path of a subgraph in it, or ""."""
        return (run_id, "") if path is None else child_at(self._opener.runs, run_id, path)

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

    def signal(self, run_id: str, name: str, value: Any = None, *, id: str | None = None) -> None:
        """Send a signal to a run, wherever it executes; ``ctx.wait_for(name)`` takes it. An `id` counts once."""
        send_signal(self._opener, run_id, name, value, id)

    def answer(self, run_id: str, value: Any, question: str | None = None) -> None:
        """Answer a run that is in a queue or in another process; `question` is the path of one of several questions."""
        answer_run(self._opener, run_id, question or "", value)

    def runs(self, *, limit: int = 100, cursor: str | None = None, **chosen: Unpack[RunFilter]) -> RunPage:
        """Return the newest runs that match, oldest first; the `cursor` of that page leads to older ones.

        Choose with `status`, `graph` (a name), `attributes`, `text` (in the run id, the name of the graph or an
        attribute), `after` and `before` (times of creation), and `children`, which lists these too.
        """
        for name in chosen:
            if name not in RunFilter.__optional_keys__:
                known = nearest(name, [*RunFilter.__optional_keys__, "limit", "cursor"])
                raise InputError(f"runs() has no option {name!r}; {known}")
        return list_runs(self.store, chosen, limit, cursor, classes=self._opener.runs.classes)

    def thread(self, name: str) -> Thread:
        """Return a thread: its state, its history and its runs. Raise UnknownRunError if it does not exist."""
        return find_thread(name, self._opener)

    def threads(self) -> list[Thread]:
        """Return the threads of the store, by name."""
        return all_threads(self._opener)

    def delete(self, run_id: str) -> None:
        """Delete a run. Raise RunOwnedError if it has a living owner."""
        if checked_run_id(run_id) in self._live:
            raise RunStateError(f"run {run_id!r} is running; cancel it first")
        from clew.runtime.review.retention import delete

        delete(self._opener, run_id)

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: float | None = None,
        status: Status | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete old runs and return their ids. Runs that can continue are kept, unless `status` selects them."""
        from clew.runtime.review.retention import prune

        chosen: Any = {"keep": keep, "older_than": older_than, "status": status}
        return prune(self._opener, self._live, **chosen, dry_run=dry_run)

    def clear_cache(self, node: str | None = None) -> int:
        """Delete the cached results of all nodes with a name, or of all nodes; return how many there were."""
        if node is not None and not isinstance(node, str):
            raise InputError(f"node: expected the name of a node or None, got {node!r}")
        cleared = self.store.clear_cache(node)
        if not cleared and node is not None and self._opener.has_graph:
            nodes = self._opener.graph.nodes
            if node not in nodes and (meant := similar(node, nodes)):
                raise InputError(f"no results of a node {node!r} are cached; did you mean {meant!r}?")
        return cleared

    def export_run(self, run_id: str, *, latest: bool = False) -> dict[str, Any]:
        """Return a run as a JSON document, with a checkpoint of each state, or of the `latest` only."""
        from clew.runtime.review.transfer import export_run

        return export_run(self.store, run_id, self._settings.on_conflict, latest=latest)

    def import_run(self, document: Mapping[str, Any]) -> RunRow:
        """Import a run that `export_run` wrote, from this store or another one."""
        from clew.runtime.review.transfer import import_run

        return import_run(self.store, self._opener.repository, document)
