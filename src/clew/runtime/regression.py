"""Replaying recorded runs, one or all of a store, as a check of today's code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.errors import ClewError, DefinitionError, StoreCorruptError, StoreError
from clew.graph import Graph
from clew.runtime.codes import changed_structure
from clew.runtime.engine import Engine
from clew.runtime.replay import ReplayReport
from clew.runtime.targets import load_graph
from clew.stores import Store


class Verdict(msgspec.Struct, frozen=True):
    """What became of replaying one run: a report, or the reason why there is none."""

    run_id: str
    report: ReplayReport | None
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the run was replayed, and nothing differs."""
        return self.report is not None and self.report.ok

    def __str__(self) -> str:
        return (
            str(self.report)
            if self.report is not None
            else f"run {self.run_id!r} is not replayed: {self.problem}"
        )


def replays(
    store: Store,
    graph: Graph | None = None,
    runs: Iterable[str] | None = None,
    *,
    strict: bool = True,
) -> Iterator[Verdict]:
    """Replay runs of a store, all of them by default, each with its own graph unless one is given."""
    graphs: dict[str, Graph | DefinitionError] = {}
    for run_id in [row.run_id for row in store.rows()] if runs is None else runs:
        try:
            row = store.row(run_id)
        except StoreCorruptError as error:
            yield Verdict(run_id, None, str(error))
            continue
        found: Graph | DefinitionError | None = graph
        if found is None:
            if not row.target:
                yield Verdict(run_id, None, "it does not say which graph made it; give the graph")
                continue
            if row.target not in graphs:
                graphs[row.target] = _loaded(row.target)
            found = graphs[row.target]
        if isinstance(found, DefinitionError):
            yield Verdict(run_id, None, str(found))
            continue
        try:
            report = Engine(found, store=store, target=row.target).replay(run_id, strict=strict)
        except Exception as error:
            if row.structure and row.structure != found.structure_hash and not isinstance(error, StoreError):
                yield Verdict(run_id, None, changed_structure(row, found))
            elif isinstance(error, ClewError):
                yield Verdict(run_id, None, str(error))
            else:
                raise
        else:
            yield Verdict(run_id, report)


def _loaded(target: str) -> Graph | DefinitionError:
    try:
        return load_graph(target)
    except DefinitionError as error:
        return error
