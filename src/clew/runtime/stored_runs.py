"""The methods of an engine that read, label, delete, export and import stored runs. None of them runs a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.errors import InputError
from clew.runtime.inspection import RunInspection
from clew.runtime.result import RunResult
from clew.stores import RunRow, Store

if TYPE_CHECKING:
    from clew.engine.reasons import Why
    from clew.engine.records import WorkItem
    from clew.runtime.log.checkpoints import Checkpoint
    from clew.runtime.review.run_diff import RunDiff
    from clew.state import GraphState


class StoredRuns:
    """The runs of a store, for an `Engine`, which sets `_inspection`."""

    store: Store
    _inspection: RunInspection

    def result(self, run_id: str) -> RunResult:
        """Return the result of a run so far, without running anything."""
        return self._inspection.result(run_id)

    def state(self, run_id: str, step: int | str | None = None, *, path: str | None = None) -> GraphState:
        """Return the latest state of a run, or S(step); `step` can be a label.

        With `path`, the state is that of a child (``outer#0!0``) or of a subgraph (``sub#0``) inside the run.
        """
        return self._inspection.state(run_id, step, path=path)

    def history(self, run_id: str, *, nested: bool = False, path: str | None = None) -> list[Checkpoint]:
        """Return a checkpoint for each S(k), of the run or of what is inside it at `path`.

        With `nested`, the steps of subgraphs are under their items.
        """
        return self._inspection.history(run_id, nested=nested, path=path)

    def label_checkpoint(self, run_id: str, label: str, *, step: int | None = None) -> Checkpoint:
        """Give S(step), by default the latest, a label."""
        return self._inspection.label_checkpoint(run_id, label, step=step)

    def why(self, run_id: str, target: str, *, path: str | None = None) -> Why:
        """Explain why a node ran last, or which node wrote a value and why; `path` looks inside the run."""
        return self._inspection.why(run_id, target, path=path)

    def diff(self, a: str, b: str) -> RunDiff:
        """Compare two runs: where `b` diverges from `a`, and which values differ. The result prints as text."""
        return self._inspection.diff(a, b)

    def frontier(self, run_id: str, step: int | str | None = None) -> list[WorkItem]:
        """Return the items that would run next at the latest state, or at S(step)."""
        return self._inspection.frontier(run_id, step)

    def runs(self, *, status: str | None = None, children: bool = False) -> list[RunRow]:
        """Return the runs of the store, oldest first, or those with one status; with `children`, also children."""
        return self._inspection.runs(status=status, children=children)

    def delete(self, run_id: str) -> None:
        """Delete a run. Raise RunOwnedError if it has a living owner."""
        self._inspection.delete(run_id)

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: float | None = None,
        status: str | None = None,
        dry_run: bool = False,
    ) -> list[str]:
        """Delete old runs and return their ids. Runs that can go on are kept unless `status` selects them."""
        return self._inspection.prune(keep=keep, older_than=older_than, status=status, dry_run=dry_run)

    def clear_cache(self, node: str | None = None) -> int:
        """Delete the cached results of all nodes with a name, or of all nodes; return how many there were."""
        if node is not None and not isinstance(node, str):
            raise InputError(f"node: expected the name of a node or None, got {node!r}")
        return self.store.clear_cache(node)

    def export_run(self, run_id: str, *, latest: bool = False) -> dict[str, Any]:
        """Return a run as a JSON document, with a checkpoint of each state, or of the `latest` only."""
        return self._inspection.export_run(run_id, latest=latest)

    def import_run(self, document: Mapping[str, Any]) -> RunRow:
        """Import a run that `export_run` wrote, from this store or another one."""
        return self._inspection.import_run(document)
