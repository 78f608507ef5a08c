"""Rerun: use again what a recorded run computed, wherever inputs and code are the same.

Each item of the old run is keyed by its node's code and by what it saw. An item of the new run with the same key
gets the old outcome, and its record says that it was cached; everything else is called.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from clew.engine.records import Outcome, Step
from clew.engine.rules import Program
from clew.engine.strand import Item, Level, Strand
from clew.engine.view import View
from clew.graph import Graph
from clew.runtime.cache import key_of
from clew.runtime.log import RunLog


class Reuse:
    """The outcomes of a recorded run, by what they depend on; each is used once, in the order of the old run."""

    def __init__(self, log: RunLog, program: Program, graph: Graph) -> None:
        self._outcomes: dict[str, deque[Outcome]] = {}
        changed = frozenset(n for n, code in graph.node_hashes.items() if log.row.codes.get(n, code) != code)
        self._collect(program, View.restore(program, log.start), log.start.step, log.steps, changed)
        for _, inner in log.inner_chains(graph):
            self._collect(
                inner.program, View.restore(inner.program, inner.start), 0, inner.steps, frozenset()
            )

    def _collect(
        self, program: Program, view: View, step: int, steps: Sequence[Step], changed: frozenset[str]
    ) -> None:
        strand = Strand(program, view, step=step, prefix="", order=(), owner=None)
        for done in steps:
            level = Level(strand, done.number, view)
            for outcome in done.outcomes:
                number = program.index[outcome.node]
                batch = level.batches.get(number) or level.add(number)
                if outcome.error is None and outcome.node not in changed:
                    key = key_of(Item(batch, max(outcome.index, 0)), with_context=True)
                    if key is not None:
                        self._outcomes.setdefault(key, deque()).append(outcome)
            view.apply(done.outcomes)

    def find(self, item: Item) -> Outcome | None:
        """An outcome for this item, if the old run has one."""
        key = key_of(item, with_context=True)
        found = self._outcomes.get(key) if key is not None else None
        return found.popleft() if found else None
