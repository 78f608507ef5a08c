"""Whether a run's log is what was written: digests of every chain against its content.

No graph is needed for that, but for a fork, whose first state only its graph can make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clew.engine.programs import program_of
from clew.errors import RecordCorruptError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.log import RunLog, read_log
from clew.runtime.log_records import SNAPSHOT
from clew.runtime.losses import damaged_steps, lost_entries
from clew.runtime.retrieval import Retrieval, StoredRun
from clew.runtime.rows import opened_row
from clew.runtime.snapshots import snapshot_state
from clew.runtime.starts import first_state, is_fork
from clew.runtime.upcoming import upcoming
from clew.runtime.wire import Reader
from clew.state import GraphState
from clew.stores import Entry, RunRow, Store


def read_entries(row: RunRow, start: GraphState, entries: Iterable[Entry], reader: Reader) -> RunLog:
    """The log that entries make, each checked by itself; only its own steps are checked together yet."""
    records = [reader.record(entry) for entry in entries if entry.kind != SNAPSHOT.name]
    return read_log(row, start, records, "error")


def complaints(store: Store, row: RunRow, graph: Graph | None) -> Iterator[str]:
    """A sentence for each thing that is wrong with a run in a store."""
    if not store.encodes:
        return
    damage = opened_row(row).damage
    if damage:
        yield damage
        return
    try:
        yield from _complaints(store, row, graph)
    except (StoreCorruptError, RecordCorruptError) as error:
        yield str(error)
    except Exception as error:  # whatever it is, the other runs are looked at
        yield f"run {row.run_id!r} cannot be read: {error}"


def _complaints(store: Store, row: RunRow, graph: Graph | None) -> Iterator[str]:
    start = _start(store, row, graph)
    if start is None:
        return
    entries = store.entries(row.run_id, after=start.step)
    log = read_entries(row, start, entries, Reader(row.run_id, store.blob, row.created))
    wrong = [*damaged_steps(log, entries), *lost_entries(row, entries)]
    yield from wrong
    for snapshot in store.find(row.run_id, SNAPSHOT.name, ""):
        digest = snapshot_state(snapshot, store.blob)[0].digest
        if digest != bytes(snapshot.digest).hex():
            yield f"run {row.run_id!r}: the snapshot at step {snapshot.n} is not of that step"
    last = start.step + len(log.steps)
    beyond = [entry.n for entry in entries if entry.kind == SNAPSHOT.name and entry.n > last]
    if not wrong and (beyond or (graph is not None and _is_cut_off(log, graph))):
        why = "there is a snapshot of a later one" if beyond else "the run has ended, and is not at its end"
        yield f"run {row.run_id!r}: step {last + 1} is missing: {why}"


def _is_cut_off(log: RunLog, graph: Graph) -> bool:
    """Whether a run that has ended has something left to do: only its own graph can tell."""
    if log.row.status != "completed" or log.row.structure != graph.structure_hash:
        return False
    program = program_of(graph, log.start.position.given)
    chain = log.chain(program)
    return bool(upcoming(program, chain.state(chain.last)))


def needs_graph(store: Store, row: RunRow) -> bool:
    """Whether a run's first state can only be made with its graph: it is kept as a step of another run."""
    return store.encodes and row.start is not None and is_fork(row.start)


def _start(store: Store, row: RunRow, graph: Graph | None) -> GraphState | None:
    if needs_graph(store, row):
        return None if graph is None else StoredRun(Retrieval(graph, store, "error"), row).start()
    return first_state(row.start, store.blob)
