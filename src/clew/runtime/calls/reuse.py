"""Reuse results of a recorded run in a rerun, if inputs and code are the same.

Each result of the old run (``recorded_results``) has a key: a digest of the node, the hash of its code, what it writes
and where it goes, how the schema validates what it writes, and its inputs by parameter, with digests of bound values.
An item of the new run with the same key gets the old outcome, marked as cached; all other items are called. Of several
outcomes with one key, an item gets the one with its own path, otherwise the first. Each is used once.

The keys of the old run are made from its log alone, those of the new run from what its items see. So it does not matter
what has changed in between: an item gets a result only if its function returned that result for the same arguments.

These outcomes are not reused: of any node if a reducer has changed; of nodes that failed, rescued or not; of nodes that
the caller forces to run; and those whose inputs or bound values have no encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clew.engine.frame import Item
from clew.engine.program import Program
from clew.engine.records import Outcome
from clew.errors import EncodeError, InputError
from clew.graph import Graph
from clew.graph.hashing.hashes import field_hashes
from clew.graph.names import nearest
from clew.graph.signature import MISSING
from clew.graph_warnings import warn
from clew.runtime.calls.recorded_results import RecordedResults
from clew.runtime.log.checks.fingerprints import bound_digest, changed_parts
from clew.runtime.log.run_log import RunLog
from clew.state import digest, encode, fingerprint
from clew.state.stored_object import holds_stored


class ResultReuse:
    """The outcomes of a recorded run, by the digest of code and inputs.

    `program` is that of the recorded run, and `graph` the graph of the rerun.
    """

    def __init__(self, log: RunLog, program: Program, graph: Graph, force: Iterable[str] = ()) -> None:
        self._forced = checked_nodes(force, graph)
        self._outcomes: dict[str, dict[str, Outcome]] = {}  # by key and path
        if not changed_parts(log.row, graph).has_other_reducers:
            self._read(RecordedResults(log, program))

    def _read(self, results: RecordedResults) -> None:
        for item, outcome in results:
            # values of a class that has changed are computed again
            if not holds_stored(outcome.update.values()):
                key = _key(item, results.code(item), results.rules(item), recorded_bound(results, item))
                if key is not None:
                    self._outcomes.setdefault(key, {})[item.path] = outcome

    def find(self, item: Item) -> Outcome | None:
        """Return an outcome of the old run for this item, or None."""
        if item.node.kind == "rescue" or not self._outcomes or self.is_forced(item):
            return None
        graph = item.frame.program.graph
        fields = field_hashes(graph.schema)
        rules = {name: fields[name] for name in item.node.outputs if name in fields}
        key = _key(item, graph.node_hashes[item.node.name], rules, current_bound(item))
        found = self._outcomes.get(key) if key is not None else None
        return found.pop(item.path if item.path in found else next(iter(found))) if found else None

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


def recorded_bound(results: RecordedResults, item: Item) -> dict[str, str]:
    """Return the digests of the bound values that an item of a recorded run read, by parameter."""
    found = {name: results.bound(item, source) for name, source in _unseen(item)}
    return {name: value for name, value in found.items() if value is not None}


def current_bound(item: Item) -> dict[str, str] | None:
    """Return the digests of the bound values that an item reads, by parameter; None if one has no encoding."""
    bound = item.frame.program.bound
    found = {name: bound_digest(bound[source]) for name, source in _unseen(item) if source in bound}
    known = {name: value for name, value in found.items() if value is not None}
    return known if len(known) == len(found) else None


def _unseen(item: Item) -> list[tuple[str, str]]:
    """Return the parameters, with the names of their values, that neither state nor payload provides."""
    return [
        (p.name, p.source)
        for p in item.node.params
        if p.kind == "value" and item.seen_value(p.source) is MISSING
    ]


def _key(
    item: Item, code: str | None, rules: Mapping[str, str], bound: Mapping[str, str] | None
) -> str | None:
    """Return a digest of what the outcome of an item depends on; None if something has no encoding."""
    node = item.node
    if code is None or bound is None:
        return None
    declared = [
        node.name,
        node.kind,
        node.shape,
        node.writes,
        node.targets,
        node.pruned,
        node.multi,
        node.when,
    ]
    inputs: dict[str, Any] = {
        p.name: value
        for p in node.params
        if p.kind == "value" and (value := item.seen_value(p.source)) is not MISSING
    }  # defaults are part of the code
    before = item.batch.working_state.values
    compared = {name: before[name] for name in node.outputs if name in before} if node.cutoff else {}
    try:
        read = fingerprint([inputs, item.values() if node.reads_state else None, compared])
    except EncodeError:
        return None
    known = encode([*map(_plain, declared), dict(rules), dict(bound)])
    return digest(b"clew:reuse", code.encode(), known, read)


def _plain(part: Any) -> Any:
    return list(part.items()) if isinstance(part, Mapping) else part


def nodes_of(item: Item) -> str:
    """Return the nodes on the path of an item: ``sub/ask`` for ``sub#0[2]/ask#1``."""
    return "/".join(part.partition("#")[0] for part in item.path.split("/"))


def checked_nodes(names: Iterable[str], graph: Graph) -> frozenset[str]:
    """Return the names of nodes, in subgraphs as ``sub/ask``. Raise InputError for a name that the graph lacks."""
    if not isinstance(names, Iterable):
        raise InputError(
            f"force: expected a node or a list of nodes such as ['ask', 'sub/ask'], got {names!r}"
        )
    wanted = [names] if isinstance(names, str) else list(names)
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
