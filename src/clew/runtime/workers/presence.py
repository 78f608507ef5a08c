"""What other processes know about a worker: its row in the store, and its description there.

The description has its graphs with their structures and code, its queues and slots, and shortened lists of the runs
that it executes and those that it could not execute. It is the only way to notice that two workers have different code
for one structure, so that a run may start on one and continue on the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import node_codes
from clew.stores import WorkerRow

MOST_LISTED = 50  # runs that a worker lists
MOST_ITEMS = 20  # items that execute now, of each of them


class ServedGraph(msgspec.Struct, frozen=True):
    """A graph of a worker."""

    graph: str  # its name
    structure: str
    code: str  # a hash of the code of its nodes


class OtherCode(msgspec.Struct, frozen=True):
    """Workers that have different code for one structure."""

    graph: str
    structure: str
    workers: Mapping[str, str]  # label of each worker -> hash of its code


def served(graph: Graph) -> ServedGraph:
    """Return what a worker says about a graph."""
    codes = msgspec.json.encode(sorted(node_codes(graph).items()))
    return ServedGraph(graph.name or "", graph.structure_hash, sha256(codes).hexdigest()[:16])


def graphs_of(worker: WorkerRow) -> list[ServedGraph]:
    """Return the graphs of a worker; none for an engine, or if its description is not readable."""
    try:
        return msgspec.convert(worker.info.get("graphs", ()), list[ServedGraph])
    except msgspec.ValidationError:
        return []


def name_of(worker: WorkerRow) -> str:
    """Return how a worker is called in messages."""
    return f"{worker.label or worker.owner} ({worker.host}, process {worker.pid})"


def with_other_code(graphs: Sequence[ServedGraph], workers: Sequence[WorkerRow]) -> Iterator[tuple[str, str]]:
    """Yield graph and worker for each living worker with other code for one of these structures."""
    own = {each.structure: each for each in graphs}
    for worker in workers:
        for there in graphs_of(worker) if worker.is_alive else ():
            here = own.get(there.structure)
            if here is not None and here.code != there.code:
                yield here.graph, name_of(worker)


def different_codes(workers: Sequence[WorkerRow]) -> list[OtherCode]:
    """Return the structures for which living workers have different code."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for worker in workers:
        for each in graphs_of(worker) if worker.is_alive else ():
            found.setdefault(each.structure, (each.graph, {}))[1][name_of(worker)] = each.code
    return [
        OtherCode(graph, structure, codes)
        for structure, (graph, codes) in found.items()
        if len(set(codes.values())) > 1
    ]


def was_executed(run_id: str, tries: int, workers: Sequence[WorkerRow]) -> bool:
    """Return whether a worker has begun to execute a run at this try or a later one. A run that waited to be executed
    alone, while another one killed the worker, was not."""
    return any(
        each["run"] == run_id and each["tries"] >= tries
        for worker in workers
        for each in (*worker.info.get("running", ()), *worker.info.get("troubles", ()))
    )


def history_of(run_id: str, workers: Sequence[WorkerRow]) -> list[str]:
    """Return what workers have said about a run that none of them could execute."""
    lines = list[tuple[Any, str]]()
    for worker in workers:
        for trouble in worker.info.get("troubles", ()):
            if trouble.get("run") == run_id:
                said = f"try {trouble['tries']} on {name_of(worker)}: {trouble['error']}"
                lines.append((trouble["tries"], said))
        for running in worker.info.get("running", ()):
            if running.get("run") == run_id and not worker.is_alive:
                said = f"try {running['tries']} on {name_of(worker)}: the worker died"
                lines.append((running["tries"], said))
    return [line for _, line in sorted(lines)]
