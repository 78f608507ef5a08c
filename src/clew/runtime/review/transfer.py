"""Export and import: a run as one JSON document, and back into any store.

The document is for two readers. People and other programs read ``checkpoints``: the specification's checkpoints, one
for each state. Clew reads the object ``clew``: the run's row, the description of its graph, the state that it began
with, and its log entry by entry, each in the exact text that a store has. So a document may go through any JSON tool
(``clew.runtime.review.document_format``). No graph is needed for any of it, and no class is built.

An import trusts nothing. Types, the digest of every entry, every chain, what people read (it is made once more from the
log and compared) and the digest of the document are checked before anything is written. Whatever is wrong is a
`CheckpointError`. Then the run is created with its whole log in one transaction: all of it is there, or nothing.

A fork is exported whole, with the state that it went on from. Imported where its parent is, it shares that one's
storage again; elsewhere it stands alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from clew.engine.program import program_of
from clew.error_text import line_of
from clew.errors import CheckpointError, ClewError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.log.codec import EntryDecoder, EntryEncoder
from clew.runtime.log.fingerprints import described, description_of
from clew.runtime.log.integrity import Chains
from clew.runtime.log.large_values import Blobs, blobs_of
from clew.runtime.log.reader import RunReader
from clew.runtime.log.records import SNAPSHOT, with_epoch
from clew.runtime.log.repository import RunRepository, fresh_owner
from clew.runtime.log.run_log import RunLog, read_log
from clew.runtime.log.run_rows import sealed_failures
from clew.runtime.log.snapshots import decode_fork, read_start, stored_fork, stored_start
from clew.runtime.log.stored_errors import failure_of
from clew.runtime.log.verification import check_log, digest_at
from clew.runtime.log.writer import LogWriter
from clew.runtime.review.document_format import (
    FORMAT,
    Document,
    Json,
    blobs_json,
    blobs_of_document,
    digest_of,
    document_of,
    entries_of,
    entry_json,
    normal,
    portable,
    short,
)
from clew.runtime.review.json_documents import checkpoint_json, failure_json, recorded_io_json
from clew.state import GraphState, decode, encode
from clew.stores import LogEntry, RunRow, Store

_ROW = ("graph", "target", "status", "created", "updated", "parent", "parent_step", "structure")
"""What a document has of a row as it is; the seed is text there, and codes and failures are taken apart."""


def export_run(store: Store, run_id: str, on_conflict: str, *, latest: bool = False) -> Json:
    """A run as a document; with `latest`, its readable part has the last checkpoint only."""
    run = RunReader(None, store, on_conflict).open(run_id)
    log = run.whole()
    row, blobs = log.row, Blobs()
    start = stored_start(log.start, blobs)
    description = store.blob(row.description) if store.encodes else description_of(run.graph)[1]
    entries = _entries(store, log, start, blobs)
    log = _read(
        row, log.start, entries, blobs
    )  # what an import would read: times are rounded when they are written
    failures = [failure_json(failure) for failure in row.failures]
    beside: Json = {"format": FORMAT, **{name: getattr(row, name) for name in _ROW}}
    beside["structure"] = run.graph.structure_hash
    beside["seed"], beside["codes"] = str(row.seed), dict(row.codes)
    beside["failures"] = encode(failures, at="failures", ordered=True).decode()
    beside["description"], beside["start"] = description.decode(), start.decode()
    beside["start_digest"] = log.start.digest
    beside["entries"] = [entry_json(entry) for entry in entries]
    beside |= blobs_json(blobs)
    beside["latest"] = latest
    readable = _readable(run.graph, log, failures, latest=latest)
    document: Json = {"run_id": run_id, "checkpoints": readable.pop("checkpoints"), "clew": beside | readable}
    document["clew"]["digest"] = digest_of(document)
    return document


def import_run(store: Store, archive: RunRepository, document: Mapping[str, Any]) -> RunRow:
    """Keep the run of a document; its row. CheckpointError if the document is not what was exported."""
    try:
        log, graph, entries, blobs = _checked(document)
    except CheckpointError:
        raise
    except Exception as error:  # it may be wrong in ways that nobody thought of; nothing was written yet
        raise CheckpointError(
            f"this document cannot be imported ({line_of(error)}); export the run again"
        ) from error
    _keep(store, archive, log, graph, entries, blobs)
    return archive.runs.open(log.row.run_id).row


def _checked(document: Mapping[str, Any]) -> tuple[RunLog, Graph, list[LogEntry], Blobs]:
    """The log of a document, its graph without code, its entries and large contents, when all of it is known to be what
    was exported."""
    form = document_of(document)
    run_id, beside = form.run_id, form.clew
    entries = entries_of(beside)
    try:
        blobs = blobs_of_document(beside)
        row, failures = _opened(form)
        wrong = next(iter(check_log(row, entries)[1]), None)
        start = read_start(row.start, row.start_digest, _lookup(blobs), classes=False)
        log = _read(row, start, entries, blobs)
        graph = described(beside.description.encode())
        blobs[row.description] = beside.description.encode()
    except ClewError as error:
        wrong = str(error)
    if wrong is not None:
        raise CheckpointError(f"{_changed(run_id)}: {wrong}; export it again")
    _compare(graph, log, failures, form)
    if beside.digest != digest_of(document):
        raise CheckpointError(
            f"{_changed(run_id)}: something about the run itself (status, times, error, ...) is not what was written; "
            f"export it again"
        )
    return log, graph, entries, blobs


def _read(row: RunRow, start: GraphState, entries: Sequence[LogEntry], blobs: Mapping[str, bytes]) -> RunLog:
    """The log that entries make; no class is built."""
    reader = EntryDecoder(row.run_id, _lookup(blobs), row.created, classes=False)
    log = read_log(row, start, [reader.record(entry) for entry in entries], "error")
    chains = Chains(row.run_id, entries, start.step, start.digest)
    for _ in chains.damage(row):
        pass  # whoever reads has checked that, or does so
    log.digests = {
        prefix: chains.digests[with_epoch(prefix, inner.epoch)] for prefix, (inner, _) in log.strands.items()
    }
    log.digests[""] = chains.digests[""]
    return log


# -- writing -----------------------------------------------------------------------------------------------------


class _EntryCollector:
    """Stands where a ledger has its store: entries as a store that encodes would have them in the end."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, int], LogEntry] = {}
        self.blobs: dict[str, bytes] = {}

    def append(
        self,
        run_id: str,
        entries: Sequence[LogEntry],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = (),
        blobs: Mapping[str, bytes] = {},
        **_: Any,
    ) -> None:
        """Add and remove entries."""
        self.entries.update((entry.name, entry) for entry in entries)
        for name in drop:
            self.entries.pop(name, None)
        self.blobs.update(blobs)


def _entries(store: Store, log: RunLog, start: bytes, blobs: Blobs) -> Sequence[LogEntry]:
    """The entries of a run as bytes; the large contents that they and `start` speak of go to `blobs`."""
    run_id = log.row.run_id
    if not store.encodes:
        capture = _EntryCollector()
        writer = EntryEncoder({"": log.start.digest}, log.row.created)
        LogWriter(capture, run_id, 0, writer=writer).write(store.entries(run_id))  # type: ignore[arg-type]
        blobs.update(capture.blobs)
        return sorted(capture.entries.values(), key=lambda entry: entry.name)
    found = store.entries(run_id, after=log.start.step, skip=(SNAPSHOT.name,))
    for entry in found:
        blobs.update(blobs_of(entry.body, store.blob))
    return found


def _readable(graph: Graph, log: RunLog, failures: Sequence[Json], *, latest: bool) -> Json:
    """What people read: made from the log and the failures alone, so that an import can make it again."""
    chain = log.chain(program_of(graph, log.start.position.given))
    checkpoints = log.checkpoints(chain, graph, nested=True)
    history = dict(log.start.node_history)
    ran: dict[int, list[Any]] = {}
    for execution in chain.executions():
        ran.setdefault(execution.step, []).append(execution)
    found: list[Json] = []
    for checkpoint in checkpoints:
        history.update((execution.node_name, execution) for execution in ran.get(checkpoint.step_id, ()))
        if not latest or checkpoint is checkpoints[-1]:
            found.append(checkpoint_json(checkpoint, history))
    shown = {id(call) for checkpoint in checkpoints for call in checkpoint.recorded_ios}
    pending = [recorded_io_json(call) for call in log.calls if id(call) not in shown]
    error = {name: failures[0][name] for name in ("type", "message", "at")} if failures else None
    made: Json = portable({"checkpoints": found, "open_ios": pending, "error": error})
    return made


# -- reading -----------------------------------------------------------------------------------------------------


def _changed(run_id: str) -> str:
    return f"the document of run {run_id!r} was changed after it was exported"


def _opened(form: Document) -> tuple[RunRow, list[Json]]:
    """The row of a document, and the failures as they are written."""
    beside = form.clew
    failures: list[Json] = decode(beside.failures.encode())
    row = RunRow(
        form.run_id,
        start=beside.start.encode(),
        start_digest=beside.start_digest,
        description=sha256(beside.description.encode()).hexdigest(),
        seed=int(beside.seed),
        codes=beside.codes,
        failures=tuple(failure_of(plain) for plain in failures),
        **{name: getattr(beside, name) for name in _ROW},
    )
    if row.failures:
        row.error = row.failures[0].error
    return row, failures


def _lookup(blobs: Mapping[str, bytes]) -> Any:
    def blob(digest: str) -> bytes:
        if digest not in blobs:
            raise StoreCorruptError(f"the content {digest[:12]}… is missing")
        return blobs[digest]

    return blob


def _compare(graph: Graph, log: RunLog, failures: Sequence[Json], form: Document) -> None:
    """Refuse a document whose readable part is not that of its log."""
    made = json.loads(json.dumps(_readable(graph, log, failures, latest=form.clew.latest)))
    given = {"checkpoints": form.checkpoints, "open_ios": form.clew.open_ios, "error": form.clew.error}
    for where, told, logged in differences(normal(given), normal(made)):
        raise CheckpointError(
            f"{_changed(log.row.run_id)}: {where} is {short(told)}, and the log says {short(logged)}; export it again"
        )


def differences(one: Any, other: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two trees of JSON differ, as paths like ``checkpoints[3].state.answer``."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            yield from differences(one.get(name), other.get(name), f"{at}.{name}" if at else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other)):
            yield from differences(a, b, f"{at}[{i}]")
    elif one != other or type(one) is not type(other):
        yield at, one, other


# -- keeping -----------------------------------------------------------------------------------------------------


def _keep(
    store: Store,
    archive: RunRepository,
    log: RunLog,
    graph: Graph,
    entries: Sequence[LogEntry],
    blobs: Blobs,
) -> None:
    """Write a run, all of it or nothing."""
    row, run_id = log.row, log.row.run_id
    failures, row.failures = row.failures, ()
    row.parent = row.parent if _has_parent(store, archive, row, log.start) else None
    row.parent_step = None if row.parent is None else row.parent_step
    if not store.encodes:
        classes = archive.runs.classes
        reader = EntryDecoder(run_id, _lookup(blobs), row.created, classes=classes)
        row.start = read_start(row.start, row.start_digest, _lookup(blobs), classes=classes)
        row.error, row.description = failures or None, graph
        store.create(row, entries=[reader.record(entry) for entry in entries])
        return
    apart = dict(blobs)
    if row.parent is not None:
        row.start = stored_fork(row.parent, log.start, apart)
    row.error = sealed_failures(failures) if failures else None
    # owned: else somebody could continue it already
    fence = store.create(row, apart, entries=entries, owner=fresh_owner(), lease=30.0)
    # The run is whole from here on; what follows makes it quick to read, and counts its log.
    try:
        for snapshot, pieces in archive.runs.open(run_id).missing_snapshots():
            store.append(run_id, [snapshot], fence, blobs=pieces)
        archive.close(run_id, fence, row.status, row.updated, failures)
    except BaseException:
        archive.release(run_id, fence)
        store.delete(run_id)
        raise


def _has_parent(store: Store, archive: RunRepository, row: RunRow, start: GraphState) -> bool:
    """Whether the run that this one was forked from is here, and its state is the one that it continued from."""
    if row.parent is None or row.parent_step is None:
        return False
    try:
        if store.encodes:
            before = digest_at(store, store.row(row.parent), row.parent_step)
        else:
            before = archive.runs.open(row.parent).state(row.parent_step).digest
    except (ClewError, IndexError):
        return False
    return decode_fork(stored_fork(row.parent, start, {})).digest(before) == row.start_digest
