"""Export and import: a run as one JSON document, and back into any store.

The document is for two readers. People and other programs read ``checkpoints``: the specification's checkpoints, one
for each state. Clew reads the object ``clew``: the run's row, the state that it began with, and its log entry by entry,
as they lie in a store. An import trusts neither: every entry is checked against its digest, every chain against its
content, and what people read is made once more from the log and compared. What differs is named, and nothing is kept.

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

from clew.engine.programs import program_of
from clew.errors import CheckpointError, ClewError, RecordCorruptError, StateError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.archive import Archive, fresh_owner
from clew.runtime.documents import FORMAT, Json, checkpoint_json, error_json, recorded_io_json
from clew.runtime.failures import error_of
from clew.runtime.ledger import Ledger
from clew.runtime.log import RunLog
from clew.runtime.losses import damaged_steps
from clew.runtime.rows import sealed_error
from clew.runtime.soundness import read_entries
from clew.runtime.starts import kept_start
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


def export_run(graph: Graph, store: Store, archive: Archive, run_id: str, *, latest: bool = False) -> Json:
    """A run as a document; with `latest`, its readable part has the last checkpoint only."""
    log = archive.log(run_id, whole=True)
    row = log.row
    entries, blobs = _entries(store, log, archive)
    if (
        not store.encodes
    ):  # what is read is what an import would read: times are rounded when they are written
        log = read_entries(row, log.start, entries, Reader(run_id, _lookup(blobs), row.created))
    beside: Json = {"format": FORMAT, **{name: getattr(row, name) for name in _ROW}}
    if not store.encodes:  # a store in memory does not keep these
        beside["structure"] = graph.structure_hash
    beside["codes"] = dict(beside["codes"])
    beside["error"] = None if row.error is None else error_json(row.error)
    beside["start"] = b64encode(log.start.to_checkpoint()).decode()
    beside["entries"] = [
        {
            "kind": entry.kind,
            "path": entry.path,
            "n": entry.n,
            "body": bytes(entry.body).decode(),
            "digest": bytes(entry.digest).hex(),
        }
        for entry in entries
        if entry.kind != "snapshot"
    ]
    beside["blobs"] = {digest: blobs[digest].decode() for digest in sorted(blobs)}
    document: Json = {"run_id": run_id, **_readable(graph, log, latest=latest)}
    beside["latest"] = latest
    beside["open_ios"] = document.pop("open_ios")
    document["clew"] = beside
    beside["digest"] = _digest(document)
    return document


def import_run(graph: Graph, store: Store, archive: Archive, document: Mapping[str, Any]) -> RunRow:
    """Keep the run of a document; its row. CheckpointError if the document is not what was exported."""
    row, start, entries, blobs = _opened(document)
    run_id = row.run_id
    try:
        log = read_entries(row, start, entries, Reader(run_id, _lookup(blobs), row.created))
        wrong = next(damaged_steps(log, entries), None)
    except (StoreCorruptError, RecordCorruptError, StateError) as error:
        wrong = str(error)
    if wrong is not None:
        raise CheckpointError(f"{_changed(run_id)}: {wrong}; export it again")
    _compare(graph, log, document)
    if document["clew"].get("digest") != _digest(document):
        raise CheckpointError(
            f"{_changed(run_id)}: something about the run itself (status, times, error, ...) is not what was written; "
            f"export it again"
        )
    _keep(store, archive, log, entries, blobs)
    return archive.row(run_id)


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
) -> tuple[RunRow, GraphState, list[Entry], dict[str, bytes]]:
    """The parts of a document, as a store has them."""
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
        start = GraphState.from_checkpoint(b64decode(beside["start"], validate=True))
        row = RunRow(run_id, start=start, **{name: beside[name] for name in _ROW})
        if beside["error"] is not None:
            row.error = error_of(beside["error"])
        entries = [
            Entry(e["kind"], e["path"], e["n"], e["body"].encode(), bytes.fromhex(e["digest"]))
            for e in beside["entries"]
        ]
        blobs = {digest: text.encode() for digest, text in beside["blobs"].items()}
    except KeyError as error:
        raise CheckpointError(f"{what}: it lacks {error.args[0]!r}; export it again") from error
    except (TypeError, ValueError, AttributeError, Base64Error, CheckpointError) as error:
        raise CheckpointError(f"{what}: {error}; export it again") from error
    for digest, content in blobs.items():
        if sha256(content).hexdigest() != digest:
            raise CheckpointError(
                f"{_changed(run_id)}: the content {digest[:12]}… is another; export it again"
            )
    return row, start, entries, blobs


def _lookup(blobs: Mapping[str, bytes]) -> Any:
    def blob(digest: str) -> bytes:
        if digest not in blobs:
            raise StoreCorruptError(f"the content {digest[:12]}… is missing")
        return blobs[digest]

    return blob


def _compare(graph: Graph, log: RunLog, document: Mapping[str, Any]) -> None:
    """Refuse a document whose readable part is not that of its log."""
    if log.row.structure != graph.structure_hash:
        return  # this graph would make something else of the log; its digests are checked all the same
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


def _keep(store: Store, archive: Archive, log: RunLog, entries: list[Entry], blobs: dict[str, bytes]) -> None:
    row, start, run_id = log.row, log.start, log.row.run_id
    status, error = row.status, row.error
    row.parent = row.parent if _has_parent(archive, row, start) else None
    row.parent_step = None if row.parent is None else row.parent_step
    row.error = None
    kept: Sequence[Any] = entries
    apart: dict[str, bytes] = {}
    if store.encodes:
        row.start, apart = kept_start(start, row.parent, row.parent_step)
    else:
        reader = Reader(run_id, _lookup(blobs), row.created)
        kept, blobs = [reader.record(entry) for entry in entries], {}
    store.create(row, apart)
    fence = archive.claim(run_id, fresh_owner(), 30.0)
    try:
        store.append(run_id, kept, fence, blobs=blobs)
        for snapshot, pieces in archive.snapshots(run_id) if store.encodes else ():
            store.append(run_id, [snapshot], fence, blobs=pieces)
        plain = sealed_error(error) if error and store.encodes else error
        store.update(run_id, status=status, updated=row.updated, error=plain, fence=fence, release=True)
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
