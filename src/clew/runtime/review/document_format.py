"""The format of an exported document: its types, its digest, and numbers that survive any JSON tool.

``jq`` and JavaScript have one kind of number, a 64-bit float. They write 0.0 as 0, and change integers beyond 2^53. So:

- An import uses only text: each log entry in its stored bytes, the initial state, the description of the graph, the
  seed and the failures.
- The readable part is derived from that. Its integers beyond 2^53 are ``{"$int": "0x..."}``.
- The digest of a document and the comparison of its readable part treat numbers as floats and ignore the order of keys:
  1 equals 1.0, but not 2. No value is imported from there.

Documents are untrusted input. `document_of` checks the type of everything that an import uses.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from clew.engine.options import Status
from clew.errors import CheckpointError
from clew.state.type_names import a
from clew.stores import LogEntry

FORMAT = 3

Json = dict[str, Any]

_LARGEST = 2**53 - 1  # the largest integer that all JSON readers preserve
_Number = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
_Seed = Annotated[str, msgspec.Meta(pattern=r"^-?[0-9]{1,4000}$")]
_Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
_Hex = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2})*$")]


class EntryForm(msgspec.Struct, forbid_unknown_fields=True):
    """A log entry."""

    kind: str
    path: str
    n: _Number
    body: str
    digest: _Hex


class RunForm(msgspec.Struct, forbid_unknown_fields=True):
    """The object ``clew`` of a document."""

    format: int
    graph: str
    target: str
    status: Status
    created: float
    updated: float
    parent: str | None
    parent_step: _Number | None
    seed: _Seed
    structure: str
    codes: dict[str, str]
    failures: str
    error: Json | None
    description: str
    start: str
    start_digest: _Digest
    entries: list[EntryForm]
    blobs: dict[str, str]
    blobs64: dict[str, str]
    latest: bool
    open_ios: list[Json]
    digest: str
    attributes: dict[str, str] = {}
    place: str = ""  # of a child
    children: list[Json] = []  # the documents of its children


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """An exported run."""

    run_id: Annotated[str, msgspec.Meta(min_length=1)]
    checkpoints: list[Json]
    clew: RunForm


def _problem(document: Document) -> str | None:
    """Return which names of a document are not valid, or None."""
    run = document.clew
    names = [(entry.kind, entry.path, entry.n) for entry in run.entries]
    if len(set(names)) != len(names):
        return "its log contains an entry twice"
    texts = [document.run_id, run.graph, run.target, run.parent or "", run.structure]
    texts += [part for pair in (*run.codes.items(), *(name[:2] for name in names)) for part in pair]
    # a lone surrogate is found by the digest, which has to be encoded
    return next((f"{short(text)} is not a valid name" for text in texts if "\0" in text), None)


def document_of(document: Any) -> Document:
    """Check the types of a document. Raise CheckpointError if one is invalid, or if the format differs."""
    what = "this is not an exported run"
    if not isinstance(document, Mapping) or not isinstance(document.get("clew"), Mapping):
        raise CheckpointError(
            f'{what}: it has no object "clew"; export the run with engine.export_run(run_id)'
        )
    known = document["clew"].get("format")
    if type(known) is bool or known != FORMAT:  # 3.0 is the same number
        raise CheckpointError(
            f"{what} of format {FORMAT}: its format is {short(known)}; import it with the version that exported it"
        )
    try:
        found: Document = msgspec.convert(_with_integers(document), Document)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{what}: {error}; export the run again") from error
    problem = _problem(found)
    if problem is not None:
        raise CheckpointError(f"{what}: {problem}; export the run again")
    return found


def _with_integers(document: Mapping[str, Any]) -> Json:
    """Return a document whose numbers that have to be integers are integers, if a tool has written them as floats."""

    def changed(part: Any, name: str) -> Any:
        number = part.get(name) if isinstance(part, Mapping) else None
        return {**part, name: int(number)} if type(number) is float and number.is_integer() else part

    run = changed(changed(document["clew"], "format"), "parent_step")
    entries = run.get("entries")
    if isinstance(entries, list):
        run = {**run, "entries": [changed(entry, "n") for entry in entries]}
    return {**document, "clew": run}


# -- contents ----------------------------------------------------------------------------------------------------


def entry_json(entry: LogEntry) -> Json:
    """Return a log entry as JSON, with the stored text of its body."""
    return {
        "kind": entry.kind,
        "path": entry.path,
        "n": entry.n,
        "body": bytes(entry.body).decode(),
        "digest": bytes(entry.digest).hex(),
    }


def entries_of(form: RunForm) -> list[LogEntry]:
    return [
        LogEntry(each.kind, each.path, each.n, each.body.encode(), bytes.fromhex(each.digest))
        for each in form.entries
    ]


def blobs_json(blobs: Mapping[str, bytes]) -> Json:
    """Return blobs by digest: as text, or in Base64 if they are not UTF-8."""
    found: Json = {"blobs": {}, "blobs64": {}}
    for digest in sorted(blobs):
        try:
            found["blobs"][digest] = bytes(blobs[digest]).decode()
        except UnicodeDecodeError:
            found["blobs64"][digest] = b64encode(blobs[digest]).decode()
    return found


def blobs_of_document(form: RunForm) -> dict[str, bytes]:
    """Return the blobs of a document. Raise CheckpointError if one does not match its digest."""
    found = {digest: text.encode() for digest, text in form.blobs.items()}
    found |= {digest: b64decode(text, validate=True) for digest, text in form.blobs64.items()}
    for digest, content in found.items():
        if sha256(content).hexdigest() != digest:
            raise CheckpointError(f"the content {digest[:12]}… was changed; export the run again")
    return found


# -- numbers -----------------------------------------------------------------------------------------------------


def portable(tree: Any) -> Any:
    """Return a JSON tree without integers that a reader may change."""
    if isinstance(tree, dict):
        return {name: portable(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [portable(value) for value in tree]
    if type(tree) is int and not -_LARGEST <= tree <= _LARGEST:
        return {"$int": hex(tree)}
    return tree


def normal(tree: Any) -> Any:
    """Return a JSON tree in which all numbers are floats, as in every JSON reader."""
    if isinstance(tree, Mapping):
        return {name: normal(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [normal(value) for value in tree]
    if type(tree) in (int, float):
        return float(tree) + 0.0  # JavaScript writes -0 as 0
    return tree


def with_ints(tree: Any) -> Any:
    """Return a tree from `normal` with whole numbers as people write them."""
    if isinstance(tree, dict):
        return {name: with_ints(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [with_ints(value) for value in tree]
    return int(tree) if type(tree) is float and tree.is_integer() else tree


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the digest of a document, without its field ``digest``."""
    run = {name: value for name, value in document["clew"].items() if name != "digest"}
    tree = normal({**document, "clew": run})
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def short(value: Any) -> str:
    """Return a value of a document, shortened for a message."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = a(type(value))
    return text if len(text) <= 80 else f"{text[:79]}…"
