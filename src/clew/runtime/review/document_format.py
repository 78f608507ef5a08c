"""The form of an exported document: its types, its digest, and numbers that survive any JSON tool.

``jq`` and JavaScript know one kind of number, a 64-bit float. A round trip through them writes 0.0 as 0, and changes
integers beyond 2^53. So:

- What an import takes over is text: each log entry in the exact bytes that a store has, the state that the run began
  with, the description of its graph, the seed, the failures.
- What people read beside it is derived from that. Integers beyond 2^53 in it are ``{"$int": "0x..."}``.
- The digest of a document, and the comparison of its readable part, take numbers as floats and ignore the order of
  keys: 1 and 1.0 are equal there, 1 and 2 are not. Values do not come from there.

A document comes from anywhere. `document_of` checks the type of everything that an import uses.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec

from clew.errors import CheckpointError
from clew.stores import LogEntry

FORMAT = 3

Json = dict[str, Any]

_LARGEST = 2**53 - 1  # the largest integer that all readers of JSON keep
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
    status: Literal["running", "waiting", "completed", "failed", "cancelled"]
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


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """An exported run."""

    run_id: Annotated[str, msgspec.Meta(min_length=1)]
    checkpoints: list[Json]
    clew: RunForm


def document_of(document: Any) -> Document:
    """A document with the types that it has to have. CheckpointError if it is none, or of another format."""
    what = "this is no export of a run"
    if not isinstance(document, Mapping) or not isinstance(document.get("clew"), Mapping):
        raise CheckpointError(f'{what}: it has no object "clew"; make one with engine.export_run(run_id)')
    known = document["clew"].get("format")
    if type(known) is not int or known != FORMAT:
        raise CheckpointError(
            f"{what} that this version reads: its format is {short(known)}, and {FORMAT} is known; import it with the "
            f"version that wrote it"
        )
    try:
        found: Document = msgspec.convert(document, Document)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{what}: {error}; export it again") from error
    beside = found.clew
    names = [(entry.kind, entry.path, entry.n) for entry in beside.entries]
    if len(set(names)) != len(names):
        raise CheckpointError(f"{what}: an entry of its log is there twice; export it again")
    texts = [found.run_id, beside.graph, beside.target, beside.parent or "", beside.structure]
    texts += [part for pair in beside.codes.items() for part in pair]
    texts += [part for name in names for part in name[:2]]
    for text in texts:
        if "\0" in text:  # half a surrogate pair is found with the digest, which has to be encoded
            raise CheckpointError(f"{what}: {short(text)} is no name; export it again")
    return found


# -- contents ----------------------------------------------------------------------------------------------------


def entry_json(entry: LogEntry) -> Json:
    """An entry of a log, its body as it is in a store."""
    return {
        "kind": entry.kind,
        "path": entry.path,
        "n": entry.n,
        "body": bytes(entry.body).decode(),
        "digest": bytes(entry.digest).hex(),
    }


def entries_of(form: RunForm) -> list[LogEntry]:
    """The entries of a document's log."""
    return [
        LogEntry(each.kind, each.path, each.n, each.body.encode(), bytes.fromhex(each.digest))
        for each in form.entries
    ]


def blobs_json(blobs: Mapping[str, bytes]) -> Json:
    """Large contents by digest: those that are text, and the others in Base64."""
    found: Json = {"blobs": {}, "blobs64": {}}
    for digest in sorted(blobs):
        try:
            found["blobs"][digest] = bytes(blobs[digest]).decode()
        except UnicodeDecodeError:
            found["blobs64"][digest] = b64encode(blobs[digest]).decode()
    return found


def blobs_of_document(form: RunForm) -> dict[str, bytes]:
    """The large contents of a document. CheckpointError if one is not what its digest says."""
    found = {digest: text.encode() for digest, text in form.blobs.items()}
    found |= {digest: b64decode(text, validate=True) for digest, text in form.blobs64.items()}
    for digest, content in found.items():
        if sha256(content).hexdigest() != digest:
            raise CheckpointError(f"the content {digest[:12]}… is another; export it again")
    return found


# -- numbers -----------------------------------------------------------------------------------------------------


def portable(tree: Any) -> Any:
    """A tree of JSON without integers that a reader may change."""
    if isinstance(tree, dict):
        return {name: portable(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [portable(value) for value in tree]
    if type(tree) is int and not -_LARGEST <= tree <= _LARGEST:
        return {"$int": hex(tree)}
    return tree


def normal(tree: Any) -> Any:
    """A tree of JSON in which all numbers are floats: what is left of them in every reader."""
    if isinstance(tree, Mapping):
        return {name: normal(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [normal(value) for value in tree]
    if type(tree) in (int, float):
        return float(tree) + 0.0  # JavaScript writes -0 as 0
    return tree


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a document, over all but itself."""
    beside = {name: value for name, value in document["clew"].items() if name != "digest"}
    tree = normal({**document, "clew": beside})
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def short(value: Any) -> str:
    """A value of a document for a message."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"
