"""Export and import: a run as one JSON document, and back into any store.

``checkpoints`` is for people and other programs: the checkpoints of the specification, one for each state. The object
``clew`` is for Clew: the row of the run, the description of its graph, its initial state, and its log entries, each in
its stored text. So a document survives any JSON tool (``clew.runtime.review.document_format``). Export and import need
no graph and build no registered class.

An import treats the document as untrusted. Before it writes, it checks the types, the digest of every entry, all
chains, the readable part (rebuilt from the log and compared) and the digest of the document. Any problem is a
`CheckpointError`. Then it creates the run with its whole log in one transaction.

Children are exported and imported with the run that contains them; the object ``clew`` has their documents.

A fork is exported with its full initial state. If its parent is in the target store, the imported fork shares the
parent's storage again; otherwise it is independent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from clew.engine.program import program_of
from clew.error_text import line_of
from clew.errors import CheckpointError, ClewError, StoreCorruptError
from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import described
from clew.runtime.log.checks.integrity import Chains
from clew.runtime.log.checks.verification import check_log
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.entries.records import with_epoch
from clew.runtime.log.entries.stored_errors import failure_of
from clew.runtime.log.in_memory.reader import reader_of
from clew.runtime.log.repository import RunRepository
from clew.runtime.log.run_log import RunLog, read_log
from clew.runtime.log.snapshots import decode_fork, read_start, stored_fork, stored_start
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
    with_ints,
)
from clew.runtime.review.json_documents import (
    checkpoint_json,
    failure_json,
    is_time,
    recorded_io_json,
    time_json,
)
from clew.state import GraphState, decode, encode, position_of
from clew.stores import LogEntry, RunRow, Store

_ROW = ("graph", "target", "status", "created", "updated", "parent", "parent_step", "structure")
"""The columns of a row that a document contains unchanged."""


def export_run(store: Store, run_id: str, on_conflict: str, *, latest: bool = False) -> Json:
    """Return a run as a document; with `latest`, its readable part has only the last checkpoint."""
    run = reader_of(None, store, on_conflict).open(run_id)
    log = run.whole()
    row, blobs = log.row, Blobs()
    start = stored_start(log.start, blobs)
    description, entries = run.description(), run.exported(log.start, blobs)
    log = _read(row, log.start, entries, blobs)  # as an import reads it: written times are rounded
    failures = [failure_json(failure) for failure in row.failures]
    extra: Json = {"format": FORMAT, **{name: getattr(row, name) for name in _ROW}}
    extra["structure"] = run.graph.structure_hash
    extra["seed"], extra["codes"] = str(row.seed), dict(row.codes)
    extra["failures"] = encode(failures, at="failures", ordered=True).decode()
    extra["description"], extra["start"] = description.decode(), start.decode()
    extra["start_digest"] = log.start.digest
    extra["entries"] = [entry_json(entry) for entry in entries]
    extra |= blobs_json(blobs)
    extra["latest"] = latest
    if row.attributes:
        extra["attributes"] = dict(row.attributes)
    if row.child_of is not None:
        extra["place"] = row.place
    inside = [export_run(store, child.run_id, on_conflict, latest=latest) for child in store.rows(of=run_id)]
    if inside:
        extra["children"] = inside
    readable = _readable(run.graph, log, failures, latest=latest)
    document: Json = {"run_id": run_id, "checkpoints": readable.pop("checkpoints"), "clew": extra | readable}
    document["clew"]["digest"] = digest_of(document)
    return document


def import_run(store: Store, repository: RunRepository, document: Mapping[str, Any]) -> RunRow:
    """Store the run of a document and return its row. Raise CheckpointError if the document was changed."""
    try:
        found = _family(document, None)
    except CheckpointError:
        raise
    except Exception as error:  # any other invalid input; nothing was written yet
        raise CheckpointError(
            f"this document cannot be imported ({line_of(error)}); export the run again"
        ) from error
    run_id = found[0][0].row.run_id
    _store_run(repository, *found[0])
    try:
        for child in found[1:]:
            _store_run(repository, *child)
    except BaseException:
        store.delete(run_id)  # with the children that were imported so far
        raise
    return repository.runs.open(run_id).row


Checked = tuple[RunLog, Graph, list[LogEntry], Blobs]


def _family(document: Mapping[str, Any], outer: str | None) -> list[Checked]:
    """Check the documents of a run and of its children; return the run first."""
    checked = _checked(document)
    row = checked[0].row
    row.child_of, row.place = outer, "" if outer is None else document["clew"].get("place", "")
    if outer is not None and not row.place:
        raise CheckpointError(f"the document of child {row.run_id!r} has no place; export the run again")
    inside = document["clew"].get("children", ())
    return [checked, *(each for child in inside for each in _family(child, row.run_id))]


def _checked(document: Mapping[str, Any]) -> Checked:
    """Check a document; return its log, its graph without code, its entries and its blobs."""
    form = document_of(document)
    run_id, extra = form.run_id, form.clew
    entries = entries_of(extra)
    try:
        blobs = blobs_of_document(extra)
        row, failures = _opened(form)
        problem = next(iter(check_log(row, entries)[1]), None)
        start = read_start(row.start, row.start_digest, _lookup(blobs), classes=False)
        log = _read(row, start, entries, blobs)
        graph = described(extra.description.encode())
        blobs[row.description] = extra.description.encode()
    except ClewError as error:
        problem = str(error)
    if problem is not None:
        raise CheckpointError(f"{_changed(run_id)}: {problem}; export the run again")
    _check_times(run_id, [time_json(row.created), time_json(row.updated)])
    _compare(graph, log, failures, form)
    if extra.digest != digest_of(document):
        raise CheckpointError(
            f"{_changed(run_id)}: its digest does not match (status, times, error, ...); export the run again"
        )
    return log, graph, entries, blobs


def _read(row: RunRow, start: GraphState, entries: Sequence[LogEntry], blobs: Mapping[str, bytes]) -> RunLog:
    """Build the log from entries, without registered classes."""
    reader = EntryDecoder(row.run_id, _lookup(blobs), row.created, classes=False)
    log = read_log(row, start, [reader.record(entry) for entry in entries], "error")
    chains = Chains(row.run_id, entries, start.step, start.digest)
    for _ in chains.damage(row):
        pass  # computes the digests; callers report damage
    log.digests = {
        prefix: chains.digests[with_epoch(prefix, inner.epoch)] for prefix, (inner, _) in log.frames.items()
    }
    log.digests[""] = chains.digests[""]
    return log


# -- writing -----------------------------------------------------------------------------------------------------


def _readable(graph: Graph, log: RunLog, failures: Sequence[Json], *, latest: bool) -> Json:
    """Return the readable part, built only from the log and the failures, so that an import can rebuild it."""
    chain = log.chain(program_of(graph, position_of(log.start).given))
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
    """Return the row of a document, and its failures as JSON."""
    extra = form.clew
    failures: list[Json] = decode(extra.failures.encode(), classes=False)
    row = RunRow(
        form.run_id,
        start=extra.start.encode(),
        start_digest=extra.start_digest,
        description=sha256(extra.description.encode()).hexdigest(),
        seed=int(extra.seed),
        codes=extra.codes,
        attributes=extra.attributes,
        failures=tuple(failure_of(plain) for plain in failures),
        **{name: getattr(extra, name) for name in _ROW},
    )
    if row.failures and not row.failures[0].rescued:
        row.error = row.failures[0].error
    return row, failures


def _lookup(blobs: Mapping[str, bytes]) -> Any:
    def blob(digest: str) -> bytes:
        if digest not in blobs:
            raise StoreCorruptError(f"the content {digest[:12]}… is missing")
        return blobs[digest]

    return blob


def _compare(graph: Graph, log: RunLog, failures: Sequence[Json], form: Document) -> None:
    """Raise CheckpointError if the readable part does not match the log."""
    made = json.loads(json.dumps(_readable(graph, log, failures, latest=form.clew.latest)))
    _check_times(log.row.run_id, _times(made["checkpoints"]))
    _check_times(log.row.run_id, [call["timestamp"] for call in made["open_ios"]])
    given = {"checkpoints": form.checkpoints, "open_ios": form.clew.open_ios, "error": form.clew.error}
    for where, *found in differences(normal(given), normal(made)):
        written, logged = (short(with_ints(each)) for each in found)
        raise CheckpointError(
            f"{_changed(log.row.run_id)}: {where} is {written}, but the log has {logged}; "
            f"export the run again"
        )


def _check_times(run_id: str, times: Iterable[str]) -> None:
    for time in times:
        if not is_time(time):
            raise CheckpointError(
                f"{_changed(run_id)}: {short(time)} is not a valid time; export the run again"
            )


def _times(checkpoints: Sequence[Json]) -> Iterator[str]:
    """Yield all times in checkpoints, including nested ones."""
    for checkpoint in checkpoints:
        yield checkpoint["timestamp"]
        yield from (call["timestamp"] for call in checkpoint["recorded_ios"])
        yield from (execution["timestamp"] for execution in checkpoint["clew"]["history"].values())
        for chain in checkpoint["clew"].get("nested", {}).values():
            yield from _times(chain)


def differences(one: Any, other: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two JSON trees, with paths like ``checkpoints[3].state.answer``."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in [*one, *(name for name in other if name not in one)]:
            yield from differences(one.get(name), other.get(name), f"{at}.{name}" if at else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other)):
            yield from differences(a, b, f"{at}[{i}]")
    elif one != other or type(one) is not type(other):
        yield at, one, other


# -- storing -----------------------------------------------------------------------------------------------------


def _store_run(
    repository: RunRepository, log: RunLog, graph: Graph, entries: Sequence[LogEntry], blobs: Blobs
) -> None:
    """Write a run, as a fork if its parent is in the store with the same state."""
    row = log.row
    row.parent = row.parent if _has_parent(repository, row, log.start) else None
    row.parent_step = None if row.parent is None else row.parent_step
    repository.import_run(row, log, graph, entries, blobs)


def _has_parent(repository: RunRepository, row: RunRow, start: GraphState) -> bool:
    """Return whether the parent of a fork is in the store with the same state."""
    if row.parent is None or row.parent_step is None:
        return False
    try:
        before = repository.runs.open(row.parent).digest_at(row.parent_step)
    except (ClewError, IndexError):
        return False
    return decode_fork(stored_fork(row.parent, start, {})).digest(before) == row.start_digest
