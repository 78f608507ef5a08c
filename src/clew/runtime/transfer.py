"""Export and import: a run as one JSON document, and back into any store.

The document is for two readers. People and other programs read ``checkpoints``: the specification's checkpoints, one
for each state. Clew reads the object ``clew``: the run's row, the state that it began with, and its log entry by entry,
each in the exact text that a store has. So a document may go through any JSON tool (``clew.runtime.document_form``).

An import trusts nothing. Types, the digest of every entry, every chain, what people read (it is made once more from the
log and compared) and the digest of the document are checked before anything is written. Whatever is wrong is a
`CheckpointError`. Then the run is created with its whole log in one transaction: all of it is there, or nothing.

A fork is exported whole, with the state that it went on from. Imported where its parent is, it shares that one's
storage again; elsewhere it stands alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.engine.programs import program_of
from clew.error_text import line_of
from clew.errors import CheckpointError, ClewError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.archive import Archive, fresh_owner
from clew.runtime.document_form import (
    FORMAT,
    Document,
    Json,
    blobs_json,
    blobs_of,
    digest_of,
    document_of,
    entries_of,
    entry_json,
    normal,
    portable,
    short,
)
from clew.runtime.documents import checkpoint_json, failure_json, recorded_io_json
from clew.runtime.failures import failure_of
from clew.runtime.ledger import Ledger
from clew.runtime.log import RunLog
from clew.runtime.losses import damaged_steps
from clew.runtime.rows import sealed_failures
from clew.runtime.soundness import read_entries
from clew.runtime.starts import kept_start
from clew.runtime.wire import Reader, Writer
from clew.state import GraphState, decode, encode
from clew.stores import Entry, RunRow, Store

_ROW = ("graph", "target", "status", "created", "updated", "parent", "parent_step", "structure")
"""What a document has of a row as it is; the seed is text there, and codes and failures are taken apart."""


def export_run(graph: Graph, store: Store, archive: Archive, run_id: str, *, latest: bool = False) -> Json:
    """A run as a document; with `latest`, its readable part has the last checkpoint only."""
    log = archive.log(run_id, whole=True)
    row = log.row
    entries, blobs = _entries(store, log, archive)
    if (
        not store.encodes
    ):  # what is read is what an import would read: times are rounded when they are written
        log = read_entries(row, log.start, entries, Reader(run_id, _lookup(blobs), row.created))
    failures = [failure_json(failure) for failure in row.failures]
    beside: Json = {"format": FORMAT, **{name: getattr(row, name) for name in _ROW}}
    if not store.encodes:  # a store in memory does not keep these
        beside["structure"] = graph.structure_hash
    beside["seed"], beside["codes"] = str(row.seed), dict(row.codes)
    beside["failures"] = encode(failures, at="failures", ordered=True).decode()
    beside["start"] = b64encode(log.start.to_checkpoint()).decode()
    beside["entries"] = [entry_json(entry) for entry in entries if entry.kind != "snapshot"]
    beside |= blobs_json(blobs)
    beside["latest"] = latest
    readable = _readable(graph, log, failures, latest=latest)
    document: Json = {"run_id": run_id, "checkpoints": readable.pop("checkpoints"), "clew": beside | readable}
    document["clew"]["digest"] = digest_of(document)
    return document


def import_run(
    graph: Graph, store: Store, archive: Archive, document: Mapping[str, Any], *, now: float
) -> RunRow:
    """Keep the run of a document; its row. CheckpointError if the document is not what was exported."""
    try:
        log, entries, blobs = _checked(graph, document)
    except CheckpointError:
        raise
    except Exception as error:  # it may be wrong in ways that nobody thought of; nothing was written yet
        raise CheckpointError(
            f"this document cannot be imported ({line_of(error)}); export the run again"
        ) from error
    _keep(store, archive, log, entries, blobs, now)
    return archive.row(log.row.run_id)


def _checked(graph: Graph, document: Mapping[str, Any]) -> tuple[RunLog, list[Entry], dict[str, bytes]]:
    """The log of a document, its entries and large contents, when all of it is known to be what was exported."""
    form = document_of(document)
    run_id, beside = form.run_id, form.clew
    entries = entries_of(beside)
    try:
        blobs = blobs_of(beside)
        row, start, failures = _opened(form)
        log = read_entries(row, start, entries, Reader(run_id, _lookup(blobs), row.created))
        wrong = next(damaged_steps(log, entries), None)
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
    return log, entries, blobs


# -- writing -----------------------------------------------------------------------------------------------------


class _Capture:
    """Stands where a ledger has its store: entries as a store that encodes would have them in the end."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, int], Entry] = {}
        self.blobs: dict[str, bytes] = {}

    def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = (),
        blobs: Mapping[str, bytes] = {},
    ) -> None:
        """Take entries in and out."""
        self.entries.update((entry.name, entry) for entry in entries)
        for name in drop:
            self.entries.pop(name, None)
        self.blobs.update(blobs)


def _entries(store: Store, log: RunLog, archive: Archive) -> tuple[Sequence[Entry], dict[str, bytes]]:
    """The entries of a run as bytes, and the large contents that they speak of."""
    run_id = log.row.run_id
    if not store.encodes:
        capture = _Capture()
        writer = Writer({"": log.start.digest}, log.row.seed, log.row.created)
        Ledger(capture, run_id, 0, writer=writer).write(store.entries(run_id))  # type: ignore[arg-type]
        return sorted(capture.entries.values(), key=lambda entry: entry.name), capture.blobs
    blobs: dict[str, bytes] = {}

    def remember(digest: str) -> bytes:
        blobs[digest] = store.blob(digest)
        return blobs[digest]

    entries = [entry for entry in store.entries(run_id, after=log.start.step) if entry.kind != "snapshot"]
    read_entries(log.row, log.start, entries, Reader(run_id, remember, log.row.created))
    return entries, blobs


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


def _opened(form: Document) -> tuple[RunRow, GraphState, list[Json]]:
    """The row of a document, the state that the run began with, and the failures as they are written."""
    beside = form.clew
    start = GraphState.from_checkpoint(b64decode(beside.start, validate=True))
    failures: list[Json] = decode(beside.failures.encode())
    row = RunRow(
        form.run_id,
        start=start,
        seed=int(beside.seed),
        codes=beside.codes,
        failures=tuple(failure_of(plain) for plain in failures),
        **{name: getattr(beside, name) for name in _ROW},
    )
    if row.failures:
        row.error = row.failures[0].error
    return row, start, failures


def _lookup(blobs: Mapping[str, bytes]) -> Any:
    def blob(digest: str) -> bytes:
        if digest not in blobs:
            raise StoreCorruptError(f"the content {digest[:12]}… is missing")
        return blobs[digest]

    return blob


def _compare(graph: Graph, log: RunLog, failures: Sequence[Json], form: Document) -> None:
    """Refuse a document whose readable part is not that of its log."""
    if log.row.structure != graph.structure_hash:
        return  # this graph would make something else of the log; its digests are checked all the same
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
    store: Store, archive: Archive, log: RunLog, entries: list[Entry], blobs: dict[str, bytes], now: float
) -> None:
    """Write a run, all of it or nothing."""
    row, start, run_id = log.row, log.start, log.row.run_id
    failures, row.failures = row.failures, ()
    row.parent = row.parent if _has_parent(archive, row, start) else None
    row.parent_step = None if row.parent is None else row.parent_step
    if not store.encodes:
        reader = Reader(run_id, _lookup(blobs), row.created)
        row.error = failures or None
        store.create(row, entries=[reader.record(entry) for entry in entries])
        return
    row.error = sealed_failures(failures) if failures else None
    row.start, apart = kept_start(start, row.parent, row.parent_step)
    owned: Any = {
        "owner": fresh_owner(),
        "lease": 30.0,
        "now": now,
    }  # else somebody could go on with it already
    fence = store.create(row, {**apart, **blobs}, entries=entries, **owned)
    # The run is whole from here on; what follows makes it quick to read, and counts its log.
    try:
        for snapshot, pieces in archive.snapshots(run_id):
            store.append(run_id, [snapshot], fence, blobs=pieces)
        archive.close(run_id, fence, row.status, row.updated, failures)
    except BaseException:
        archive.release(run_id, fence)
        store.delete(run_id)
        raise


def _has_parent(archive: Archive, row: RunRow, start: GraphState) -> bool:
    """Whether the run that this one was forked from is here, and its state is the one that was gone on from."""
    if row.parent is None or row.parent_step is None:
        return False
    touched = start.position.touched
    try:
        state = archive.state(row.parent, row.parent_step)
    except (ClewError, IndexError):
        return False
    if touched:
        state = state.set_multiple({name: start.get(name) for name in sorted(touched)})
    return state.digest == start.digest
