"""Reuse results of a recorded run in a rerun, if inputs and code are the same.

The old run is retraced with its recorded outcomes. Each item gets a key made of its inputs and the code of its node. An
item of the new run with the same key gets the old outcome, marked as cached; all other items are called. Outcomes with
equal keys are used in the order of the old run, each once.

These outcomes are not reused: of a node whose code, inputs or bound values have changed; of nodes in a subgraph whose
initial values have changed; of any node if a reducer has changed; of nodes that failed, rescued or not; of nodes that
the caller forces to run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program
from clew.engine.records import Outcome, Start
from clew.errors import EncodeError, InputError
from clew.graph import Graph
from clew.graph.names import nearest
from clew.graph.signature import MISSING
from clew.graph_warnings import warn
from clew.runtime.log.fingerprints import changed_parts
from clew.runtime.log.run_log import RunLog
from clew.runtime.settings import Settings
from clew.state import digest, fingerprint, position_of, same
from clew.state.stored_object import holds_stored


class ResultReuse:
    """The outcomes of a recorded run, by the digest of code and inputs."""

    def __init__(
        self, log: RunLog, program: Program, graph: Graph, settings: Settings, force: Iterable[str] = ()
    ) -> None:
        self._forced = checked_nodes(force, graph)
        self._outcomes: dict[str, deque[Outcome]] = {}
        self._log = log
        self._foreign: set[str] = set()  # frames whose initial values have changed
        self._changed = changed_parts(log.row, graph)
        if not self._changed.has_other_reducers:
            self._retrace(program, settings)

    def _retrace(self, program: Program, settings: Settings) -> None:
        log = self._log
        options = Options(
            seed=log.row.seed,
            max_steps=settings.max_steps + position_of(log.start).began,
            on_error="continue",  # recorded failures are adopted like other outcomes
            on_conflict=settings.on_conflict,
            edits=log.edits,
        )
        outcomes = log.outcomes()
        prior_work = PriorWork(log.rescued(), attempts=log.attempts, retraced=log.steps_by_place())
        machine = Machine.restore(program, log.start, options, prior_work)
        while (item := machine.take()) is not None:
            for record in machine.outbox:
                if isinstance(record, Start) and not self._has_same_start(record):
                    self._foreign.add(record.prefix)
            machine.outbox.clear()
            outcome = outcomes.get(item.path)
            if outcome is None:
                continue
            # values of a class that has changed are computed again
            is_built = not holds_stored(outcome.update.values())
            if outcome.error is None and is_built and self._is_unchanged(item):
                key = key_of(item)
                if key is not None:
                    self._outcomes.setdefault(key, deque()).append(outcome)
            machine.adopt(item, outcome)

    def _has_same_start(self, start: Start) -> bool:
        known = self._log.frames.get(start.prefix)
        return known is not None and same(dict(known[0].values), dict(start.values))

    def _is_unchanged(self, item: Item) -> bool:
        if self._foreign and any(item.path.startswith(prefix) for prefix in self._foreign):
            return False
        nodes = nodes_of(item)
        if (
            self.is_forced(item)
            or nodes in self._changed.code
            or any(nodes == part or nodes.startswith(f"{part}/") for part in self._changed.wiring)
        ):
            return False
        return not self._changed.bound or not self._reads_changed(item)

    def _reads_changed(self, item: Item) -> bool:
        """Return whether the item, or an enclosing one, reads a bound value that has changed."""
        here: Item | None = item
        while here is not None:
            if not self._changed.bound.isdisjoint(here.node.inputs):
                return True
            here = here.frame.owner
        return False

    def find(self, item: Item) -> Outcome | None:
        """Return an outcome of the old run for this item, or None."""
        if item.node.kind == "rescue":
            return None
        key = key_of(item)
        found = self._outcomes.get(key) if key is not None else None
        return found.popleft() if found else None

    def is_forced(self, item: Item) -> bool:
        """Return whether the item has to run: its node, or a subgraph that it is in, is forced."""
        if not self._forced:
            return False
        parts = nodes_of(item).split("/")
        return any("/".join(parts[:length]) in self._forced for length in range(1, len(parts) + 1))


def warn_of_edits(log: RunLog) -> None:
    """Warn about the steps by hand of a run, which a rerun does not repeat."""
    if log.edits:
        steps = ", ".join(
            f"{number} of {prefix[:-1]}" if prefix else str(number) for prefix, number in log.edits
        )
        warn(f"run {log.row.run_id!r} was changed by hand in step {steps}; the rerun drops these changes")


def key_of(item: Item) -> str | None:
    """Return a digest of the code and inputs of an item; None if its inputs cannot be encoded."""
    node = item.node
    found = {name: item.lookup(name, MISSING) for name in node.inputs}
    inputs = {
        name: value for name, value in found.items() if value is not MISSING
    }  # defaults are part of the code
    try:
        encoded = fingerprint([inputs, item.values() if node.reads_state else None])
    except EncodeError:
        return None
    code = item.frame.program.graph.node_hashes[node.name]
    return digest(node.name.encode(), code.encode(), encoded)


def nodes_of(item: Item) -> str:
    """Return the nodes on the path of an item: ``sub/ask`` for ``sub#0[2]/ask#1``."""
    return "/".join(part.partition("#")[0] for part in item.path.split("/"))


def checked_nodes(names: Iterable[str], graph: Graph) -> frozenset[str]:
    """Return the names of nodes, in subgraphs as ``sub/ask``. Raise InputError for a name that the graph lacks."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"force: expected a list of nodes such as ['ask', 'sub/ask'], got {names!r}")
    wanted = list(names)
    known = list(_paths(graph, "")) if wanted else []
    for name in wanted:
        if name not in known:
            raise InputError(f"force: the graph has no node {name!r}; {nearest(str(name), known)}")
    return frozenset(wanted)


def _paths(graph: Graph, prefix: str) -> Iterable[str]:
    for name, node in graph.nodes.items():
        yield prefix + name
        if node.subgraph is not None:
            yield from _paths(node.subgraph.graph, f"{prefix}{name}/")
