"""Replay recorded runs of a store to check that the current code still produces their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.errors import ClewError, DefinitionError, InputError, StoreCorruptError, StoreError
from clew.graph import Graph
from clew.runtime.engine import Engine
from clew.runtime.log.checks.fingerprints import changed_structure
from clew.runtime.project import graph_for
from clew.runtime.review.replay_report import ReplayReport
from clew.stores import Store


class ReplayVerdict(msgspec.Struct, frozen=True):
    """The result of replaying one run: a report, or the problem that prevented the replay."""

    run_id: str
    report: ReplayReport | None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Return whether the run was replayed and nothing differs."""
        return self.report is not None and self.report.ok

    def __str__(self) -> str:
        if self.report is not None:
            return str(self.report)
        return f"run {self.run_id!r} was not replayed: {self.problem}"


def replays(
    store: Store, graph: Graph | None = None, runs: Iterable[str] | None = None, *, strict: bool = True
) -> Iterator[ReplayVerdict]:
    """Replay runs of a store, all of them by default, with `graph` or with the graphs that the project lists."""
    for run_id in [row.run_id for row in store.rows(of="")] if runs is None else runs:
        try:
            row = store.row(run_id)
            found = graph if graph is not None else graph_for(row)[0]
        except (StoreCorruptError, DefinitionError, InputError) as error:
            yield ReplayVerdict(run_id, None, str(error))
            continue
        try:
            report = Engine(found, store=store).replay(run_id, strict=strict)
        except Exception as error:
            if row.structure and row.structure != found.structure_hash and not isinstance(error, StoreError):
                yield ReplayVerdict(run_id, None, changed_structure(row, found))
            elif isinstance(error, ClewError):
                yield ReplayVerdict(run_id, None, str(error))
            else:
                raise
        else:
            yield ReplayVerdict(run_id, report)
