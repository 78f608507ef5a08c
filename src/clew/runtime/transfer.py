"""Export and import: a run as one JSON document, and back into any store.

The document is for two readers. People and other programs read ``checkpoints``: the specification's checkpoints, one
for each state. Clew reads the object ``clew``: the run's row, the description of its graph, the state that it began
with, and its log entry by entry, as they lie in a store. An import trusts neither: every entry is checked against its
digest, every chain against its content, and what people read is made once more from the log and compared. What differs
is named, and nothing is kept. No graph is needed for any of it, and no class is built.

A fork is exported whole, with the state that it went on from. Imported where its parent is, it shares that one's
storage again; elsewhere it stands alone.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clew.engine.programs import program_of
from clew.errors import (
    CheckpointError,
    ClewError,
    DefinitionError,
    RecordCorruptError,
    StateError,
    StoreCorruptError,
)
from clew.graph import Graph
from clew.graph.skeleton import skeleton
from clew.runtime.archive import Archive, fresh_owner
from clew.runtime.codes import description_of
from clew.runtime.documents import FORMAT, Json, checkpoint_json, error_json, recorded_io_json
from clew.runtime.failures import error_of
from clew.runtime.large_values import Blobs, Lookup, blobs_of
from clew.runtime.ledger import Ledger
from clew.runtime.log import RunLog, read_log
from clew.runtime.log_records import SNAPSHOT, with_epoch
from clew.runtime.losses import Chains
from clew.runtime.retrieval import Retrieval
from clew.runtime.rows import sealed_error
from clew.runtime.snapshots import decode_fork, read_start, stored_fork, stored_start
from clew.runtime.soundness import check_log, digest_at
from clew.runtime.wire import Reader, Writer
from clew.state import GraphState
from clew.stores import Entry, RunRow, Store

_ROW = (
    "graph",
    "target",
    "status",
    "created",
    "updated",
    "parent",
    "parent_step",
    "seed",
    "structure",
    "codes",
)


def export_run(store: Store, run_id: str, on_conflict: str, *, latest: bool = False) -> Json:
    """A run as a document; with `latest`, its readable part has the last checkpoint only."""
    run = Retrieval(None, store, on_conflict).open(run_id)
    blobs: Blobs = {}
    log = run.whole()
    row, start = log.row, stored_start(log.start, blobs)
    description = store.blob(row.description) if store.encodes else description_of(run.graph)[1]
    entries = _entries(store, log, start, blobs)
    beside: Json = {"format": FORMAT, **{name: getattr(row, name) for name in _ROW}}
    beside["structure"] = run.graph.structure_hash
    beside["codes"] = dict(beside["codes"])
    beside["error"] = None if row.error is None else error_json(row.error)
    beside["description"] = json.loads(description)
    beside["start"] = start.decode()
    beside["start_digest"] = log.start.digest
    beside["entries"] = [
        {
            "kind": entry.kind,
            "path": entry.path,
            "n": entry.n,
            "body": bytes(entry.body).decode(),
            "digest": bytes(entry.digest).hex(),
        }
        for entry in entries
    ]
    beside["blobs"] = {digest: _content_json(blobs[digest]) for digest in sorted(blobs)}
    # what is read is what an import will read: times are rounded when they are written
    log = _read(row, log.start, entries, blobs)
    document: Json = {"run_id": run_id, **_readable(run.graph, log, latest=latest)}
    beside["latest"] = latest
    beside["open_ios"] = document.pop("open_ios")
    document["clew"] = beside
    beside["digest"] = _digest(document)
    return document


def import_run(store: Store, archive: Archive, document: Mapping[str, Any], *, now: float) -> RunRow:
    """Keep the run of a document; its row. CheckpointError if the document is not what was exported."""
    row, error, entries, blobs = _opened(document)
    run_id = row.run_id
    try:
        start = read_start(row.start, row.start_digest, _lookup(blobs), classes=False)
        wrong = next(iter(check_log(row, entries)[1]), None)
        log = _read(row, start, entries, blobs)
        graph = skeleton(document["clew"]["description"])
    except (StoreCorruptError, RecordCorruptError, StateError, DefinitionError) as refused:
        wrong = str(refused)
    if wrong is not None:
        raise CheckpointError(f"{_changed(run_id)}: {wrong}; export it again")
    _compare(graph, log, document)
    if document["clew"].get("digest") != _digest(document):
        raise CheckpointError(
            f"{_changed(run_id)}: something about the run itself (status, times, error, ...) is not what was written; "
            f"export it again"
        )
    _keep(store, archive, log, graph, error, entries, blobs, now)
    return archive.runs.open(run_id).row


def _read(row: RunRow, start: GraphState, entries: Sequence[Entry], blobs: Mapping[str, bytes]) -> RunLog:
    """The log that entries make; no class is built."""
    reader = Reader(row.run_id, _lookup(blobs), row.created, classes=False)
    log = read_log(row, start, [reader.record(entry) for entry in entries], "error")
    chains = Chains(row.run_id, entries, start.step, start.digest)
    for _ in chains.damage(row):
        pass  # it was checked when the entries were read, or is told by who checks
    log.digests = {
        prefix: chains.digests[with_epoch(prefix, inner.epoch)] for prefix, (inner, _) in log.strands.items()
    }
    log.digests[""] = chains.digests[""]
    return log


def _content_json(content: bytes) -> str | Json:
    """A large content: as text or, where it is none, in Base64."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


def _content(plain: Any) -> bytes:
    if isinstance(plain, str):
        return plain.encode()
    return b64decode(plain["base64"], validate=True)


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


def _entries(store: Store, log: RunLog, start: bytes, blobs: Blobs) -> Sequence[Entry]:
    """The entries of a run as bytes; the large contents that they and `start` speak of go to `blobs`."""
    run_id = log.row.run_id
    if not store.encodes:
        capture = _Capture()
        writer = Writer({"": log.start.digest}, log.row.created)
        Ledger(capture, run_id, 0, writer=writer).write(store.entries(run_id))  # type: ignore[arg-type]
        blobs.update(capture.blobs)
        return sorted(capture.entries.values(), key=lambda entry: entry.name)
    found = store.entries(run_id, after=log.start.step, skip=(SNAPSHOT.name,))
    for stored in (start, *(entry.body for entry in found)):
        blobs.update(blobs_of(stored, store.blob if stored is not start else _either(blobs, store)))
    return found


def _either(blobs: Blobs, store: Store) -> Lookup:
    return lambda digest: blobs[digest] if digest in blobs else store.blob(digest)


def _readable(graph: Graph, log: RunLog, *, latest: bool) -> Json:
    """What people read: made from the log alone, so that an import can make it again."""
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
    return {"checkpoints": found, "open_ios": pending}


def _digest(document: Mapping[str, Any]) -> str:
    beside = {name: value for name, value in document["clew"].items() if name != "digest"}
    text = json.dumps({**document, "clew": beside}, sort_keys=True, separators=(",", ":"))
    return f"sha256:{sha256(text.encode()).hexdigest()}"


# -- reading -----------------------------------------------------------------------------------------------------


def _changed(run_id: str) -> str:
    return f"the document of run {run_id!r} was changed after it was exported"


def _opened(
    document: Any,
) -> tuple[RunRow, BaseException | None, list[Entry], Blobs]:
    """The parts of a document, as a store has them; the row without its error, and the error."""
    what = "this is no export of a run"
    if not isinstance(document, Mapping) or not isinstance(document.get("clew"), Mapping):
        raise CheckpointError(f'{what}: it has no object "clew"; make one with engine.export(run_id)')
    beside = document["clew"]
    if beside.get("format") != FORMAT:
        raise CheckpointError(
            f"{what} that this version reads: its format is {beside.get('format')!r}, and {FORMAT} is known; "
            f"import it with the version that wrote it, or a newer one"
        )
    try:
        run_id = document["run_id"]
        if not isinstance(run_id, str) or not run_id:
            raise TypeError("run_id is a string that is not empty")
        row = RunRow(run_id, start=beside["start"].encode(), **{name: beside[name] for name in _ROW})
        row.start_digest = beside["start_digest"]
        bytes.fromhex(row.start_digest)
        described = msgspec.json.encode(beside["description"])
        row.description = sha256(described).hexdigest()
        error = None if beside["error"] is None else error_of(beside["error"])
        entries = [
            Entry(e["kind"], e["path"], e["n"], e["body"].encode(), bytes.fromhex(e["digest"]))
            for e in beside["entries"]
        ]
        blobs = {digest: _content(content) for digest, content in beside["blobs"].items()}
    except KeyError as error:
        raise CheckpointError(f"{what}: it lacks {error.args[0]!r}; export it again") from error
    except (TypeError, ValueError, AttributeError, Base64Error, CheckpointError) as error:
        raise CheckpointError(f"{what}: {error}; export it again") from error
    for digest, content in blobs.items():
        if sha256(content).hexdigest() != digest:
            raise CheckpointError(
                f"{_changed(run_id)}: the content {digest[:12]}… is another; export it again"
            )
    blobs[row.description] = described
    return row, error, entries, blobs


def _lookup(blobs: Mapping[str, bytes]) -> Any:
    def blob(digest: str) -> bytes:
        if digest not in blobs:
            raise StoreCorruptError(f"the content {digest[:12]}… is missing")
        return blobs[digest]

    return blob


def _compare(graph: Graph, log: RunLog, document: Mapping[str, Any]) -> None:
    """Refuse a document whose readable part is not that of its log."""
    beside = document["clew"]
    made = json.loads(json.dumps(_readable(graph, log, latest=bool(beside.get("latest")))))
    given = {"checkpoints": document.get("checkpoints"), "open_ios": beside.get("open_ios")}
    for where, told, logged in differences(given, made):
        raise CheckpointError(
            f"{_changed(log.row.run_id)}: {where} is {_short(told)}, and the log says {_short(logged)}; export it again"
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


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


# -- keeping -----------------------------------------------------------------------------------------------------


def _keep(
    store: Store,
    archive: Archive,
    log: RunLog,
    graph: Graph,
    error: BaseException | None,
    entries: Sequence[Entry],
    blobs: Blobs,
    now: float,
) -> None:
    row, run_id = log.row, log.row.run_id
    status, kept, apart = row.status, list[Any](entries), dict(blobs)
    row.parent = row.parent if _has_parent(store, archive, row, log.start) else None
    row.parent_step = None if row.parent is None else row.parent_step
    if store.encodes and row.parent is not None:
        row.start = stored_fork(row.parent, log.start, apart)
    if not store.encodes:
        reader = Reader(run_id, _lookup(blobs), row.created)
        kept, apart = [reader.record(entry) for entry in entries], {}
        row.start = read_start(row.start, row.start_digest, _lookup(blobs))
        row.description = graph
    store.create(row, apart)
    fence = archive.claim(run_id, fresh_owner(), 30.0, now)
    try:
        store.append(run_id, kept, fence)
        for snapshot, pieces in archive.runs.open(run_id).missing_snapshots() if store.encodes else ():
            store.append(run_id, [snapshot], fence, blobs=pieces)
        plain = sealed_error(error) if error and store.encodes else error
        store.update(run_id, status=status, updated=row.updated, error=plain, fence=fence, release=True)
    except BaseException:
        archive.release(run_id, fence)
        store.delete(run_id)
        raise


def _has_parent(store: Store, archive: Archive, row: RunRow, start: GraphState) -> bool:
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
