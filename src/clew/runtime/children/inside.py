"""Look inside a run: at the chain of a child or of a subgraph, by its path.

The path of a child is the path of the item that started it, "!" and the number of the call: ``outer#0!0``. The path of
a subgraph is that of its item: ``sub#0``, or ``sub#0[2]`` for one item of a mapped subgraph. The path inside a child or
a subgraph follows after "/". If there were several children at one place, the path names the last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from clew.engine.history.chain import Chain
from clew.engine.history.reasons import RunLineage, Why, why
from clew.engine.stops import Nodes, read_stops
from clew.errors import InputError, UnknownRunError
from clew.graph import Graph
from clew.runtime.children.inner_graphs import subgraph_at
from clew.runtime.derived_runs import DerivedRunOpener
from clew.runtime.drivers.session import Session
from clew.runtime.log.checkpoints import Checkpoint
from clew.runtime.log.checks.run_checks import check_step
from clew.runtime.log.frames import graph_at
from clew.runtime.log.reader import RunReader
from clew.runtime.log.registration import NewRun, Registration
from clew.runtime.log.run_log import RunLog
from clew.runtime.opener import RunOpener
from clew.state import GraphState
from clew.stores import ThreadMove

_CHILD = re.compile(r"(.+?![0-9]+(?:\.[0-9]+)*)(?:/(.*))?")


def child_at(runs: RunReader, run_id: str, path: Any) -> tuple[str, str]:
    """Return the innermost child on a path, and the rest of the path: of a subgraph in that child, or empty."""
    if type(path) is not str or not path:
        raise InputError(
            f"path must be the path of a child or of a subgraph, such as 'outer#0!0', got {path!r}"
        )
    runs.store.row(run_id)  # raises if there is no such run
    while (found := _CHILD.fullmatch(path)) is not None:
        place, path = found[1], found[2] or ""
        children = runs.store.rows(of=run_id)
        here = [row.run_id for row in children if row.place == place]
        if not here:
            places = ", ".join(dict.fromkeys(row.place for row in children)) or "none"
            raise UnknownRunError(f"run {run_id!r} has no child at {place!r}; its children: {places}")
        run_id = here[-1]
    return run_id, path


class StoredFrame(msgspec.Struct, frozen=True):
    """The chain of a subgraph in a run."""

    log: RunLog
    graph: Graph
    chain: Chain
    prefix: str

    def state(self, step: Any) -> GraphState:
        """Return S(step) of the subgraph, by default its last state."""
        check_step(step)
        if isinstance(step, str):
            raise InputError(f"labels name steps of the run itself, not of {self.prefix[:-1]}; give a number")
        return self.chain.state(self.log.step_of(self.chain, step))

    def history(self, *, nested: bool) -> list[Checkpoint]:
        """Return a checkpoint for each state of the subgraph."""
        return self.log.checkpoints(self.chain, self.graph, nested=nested, prefix=self.prefix)

    def why(self, target: str) -> Why:
        """Explain why a node of the subgraph ran last, or which node wrote a value."""
        lineage = RunLineage(self.chain.start, self.chain.steps)
        return why(
            self.chain.program,
            lineage,
            target,
            lambda name: f"node {name!r} has not run in {self.prefix[:-1]}",
        )


def frame_at(runs: RunReader, run_id: str, path: str) -> StoredFrame:
    """Return the chain of a subgraph of a run, of its last attempt."""
    run = runs.open(run_id)
    log, prefix = run.whole(), f"{path}/"
    if prefix not in log.frames:
        places = ", ".join(known[:-1] for known in log.frames) or "none"
        raise UnknownRunError(f"run {run_id!r} has no subgraph at {path!r}; its subgraphs: {places}")
    graph = graph_at(run.graph, prefix)
    return StoredFrame(log, graph, log.inner_chain(graph, prefix), prefix)


def forked(
    opener: DerivedRunOpener,
    parent: str,
    path: str | None,
    step: int | str | None,
    values: Mapping[str, Any] | None,
    new: NewRun,
    stops: tuple[Nodes, Nodes] = (None, None),
    move: ThreadMove | None = None,
) -> Session:
    """Start a run from a step of another run, or of a child or a subgraph inside it.

    A fork of a subgraph is independent of the run around it, and executes the inner graph. `stops` name nodes of the
    graph that is executed. With a `move`, the new run becomes the head of a thread.
    """
    rest, registration = "", Registration(move)
    if path is not None:
        parent, rest = child_at(opener.runs, parent, path)
    if not rest:
        new = replace(new, registration=registration, stops=read_stops(opener.graph, *stops))
        return opener.forked(parent, step, values, new)
    frame = frame_at(opener.runs, parent, rest)
    state = frame.state(step).rooted()
    graph = subgraph_at(opener.graph, frame.graph, frame.prefix, state, parent)
    inner = RunOpener(graph, opener.store, opener.settings, (*opener.listeners, *opener.observers))
    state = inner.with_values(state, values, f"fork of {path}")
    return inner.begin(state, replace(new, registration=registration, stops=read_stops(graph, *stops)))
