"""What ran inside an item: the chain of its subgraph, or its child run.

Only the entries of that subgraph are read, of its last attempt. Steps inside are numbered by themselves. A subgraph
that is mapped over a list has a chain for each element; their items are given together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.engine.history.reasons import Explainer, RunLineage
from clew.engine.program import program_of
from clew.engine.records import Start, Step
from clew.errors import UnknownRunError
from clew.graph import Graph
from clew.runtime.children.inside import child_at
from clew.runtime.log.entries.records import START, STEP, names_of, without_epoch
from clew.runtime.log.frames import graph_at
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.run_log import start_state
from clew.views.run.stored_steps import counts_of, record_of
from clew.views.run.timeline import (
    MOST_ITEMS,
    MOST_STEPS,
    Columns,
    attempts_of,
    calls_of,
    open_items,
    waits_of,
    window,
)

Json = dict[str, Any]


class InnerChain(msgspec.Struct, frozen=True):
    """The chain of one subgraph."""

    prefix: str
    start: Start
    steps: Sequence[Step]

    def explainer(self, run: StoredRun) -> Explainer:
        """Return what finds the reasons of its items, by their paths within it."""
        program = program_of(graph_at(run.graph, self.prefix), self.start.given)
        return Explainer(program, RunLineage(start_state(self.start, run.row.seed), self.steps))


def inner_chains(run: StoredRun, path: str) -> list[InnerChain]:
    """Return the chain inside the item at `path`, or the chains of a mapped subgraph. Raise UnknownRunError if there is
    none."""
    own = [(f"{path}/", f"{path}/\x01"), (f"{path}/@", f"{path}/A")]  # not what is deeper
    found = run.store.within(run.row.run_id, names_of(START, STEP), [*own, (f"{path}[", f"{path}\\")])
    entries: dict[str, dict[tuple[int, ...], list[Any]]] = {}
    for entry in found:
        prefix, epoch = without_epoch(entry.path)
        if prefix.count("/") == path.count("/") + 1:
            entries.setdefault(prefix, {}).setdefault(epoch, []).append(record_of(run, entry))
    chains = []
    for prefix, epochs in entries.items():
        records = epochs[max(epochs)]
        start = next((each for each in records if isinstance(each, Start)), None)
        if start is not None:
            steps = sorted((each for each in records if isinstance(each, Step)), key=lambda step: step.number)
            chains.append(InnerChain(prefix, start, steps))
    if not chains:
        raise UnknownRunError(f"run {run.row.run_id!r} has no subgraph at {path!r}; it may not have begun")
    return chains


def is_mapped(graph: Graph, path: str) -> bool:
    """Return whether the subgraph at a path is mapped over a list."""
    around, slash, item = path.rpartition("/")
    inner = graph_at(graph, around + slash).nodes[item.partition("#")[0]].subgraph
    return inner is not None and bool(inner.mapped)


def inside_json(runs: RunReader, run_id: str, inside: str) -> Json:
    """Return the items inside the item, or inside the child run, at a path."""
    own_id, path = child_at(runs, run_id, inside)
    run = runs.open(own_id)
    if not path:
        return {**window(run, 1, MOST_STEPS), "run": own_id, "inside": inside}
    counts = counts_of(run.store, own_id)
    columns = Columns(run.row.created, calls_of(counts))
    chains = inner_chains(run, path)
    for chain in chains:
        for step in chain.steps:
            if len(columns) < MOST_ITEMS:
                columns.add(msgspec.structs.replace(step, prefix=chain.prefix))
    unfinished = [
        item for item in open_items(run) if any(item["path"].startswith(chain.prefix) for chain in chains)
    ]
    paths = columns.paths | {item["path"] for item in unfinished}
    last = max((len(chain.steps) for chain in chains), default=0)
    return {
        "from": 1,
        "to": last,
        "last": last,
        "next": None,
        "origin": run.row.created,
        "run": own_id,
        "inside": inside,
        "columns": columns.columns,
        "open": unfinished,
        "attempts": attempts_of(run, paths, counts),
        "waits": waits_of(run, paths, counts),
    }
