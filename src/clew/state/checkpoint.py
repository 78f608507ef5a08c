"""The format of checkpoints: a header, and a state as plain data in a restricted pickle.

::

    magic (8 bytes) | format (2) | SHA-256 of the payload (32) | length of the payload (8) | payload

The payload is a pickle of dicts, lists, text, numbers, booleans and None, written without memo. A digest detects
damage but not an attack, so `load` trusts nothing:

- It checks every opcode before unpickling. Only those that plain data needs are accepted: none that finds, calls or
  fills a class, none that uses the memo, none that allocates memory for data that does not exist.
- The unpickler rejects every class, in case an opcode was missed.
- The codec and its registry decode the tree, and its parts must have exactly the shapes below.

So every problem raises ``CheckpointError``, no code of the payload runs, and memory use is proportional to the size of
the data.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from clew.errors import CheckpointError, DecodeError, EncodeError
from clew.state import located
from clew.state.position import Count, Position, plain_history, plain_position, read_history
from clew.state.values.codec import from_tree, to_tree
from clew.state.values.encoding import NO_ROOM

if TYPE_CHECKING:
    from clew.state.graph_state import GraphState

# As in PNG: a first byte that is not text, then line ends that a text-mode transfer would change.
MAGIC = b"\x89CLEW\r\n\n"
FORMAT = 3
_HEADER = struct.Struct(">8sH32sQ")

# The oldest protocol with opcodes for booleans and short integers. It has no frames and no opcodes for sets or
# bytearrays, so fewer opcodes have to be accepted.
_PROTOCOL = 3

_ACCEPTED = frozenset(
    ("PROTO", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
    + ("BINUNICODE", "MARK", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS")
)

_Run = tuple[str, dict[str, int], int, float, float, bool, dict[str, int], Count]  # fields of a NodeExecution


class _Tree(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of the payload. ``Any`` is a tree of the codec."""

    values: list[tuple[str, Any, Count]]
    rest: Any


class _OtherParts(msgspec.Struct, forbid_unknown_fields=True):
    """The parts of a state other than its values, once the codec has decoded them."""

    decisions: dict[str, str | tuple[str, ...]]
    terminated: bool
    history: list[_Run]
    position: Position


def save(state: GraphState) -> bytes:
    """Return a state as the bytes of a checkpoint."""
    out = BytesIO()
    pickler = pickle.Pickler(out, protocol=_PROTOCOL)
    pickler.fast = True  # no memo: the bytes do not depend on which parts are the same object
    try:
        pickler.dump(_tree(state))
    except RecursionError:  # the caller has used up the stack
        raise EncodeError(f"state: {NO_ROOM}") from None
    payload = out.getvalue()
    return _HEADER.pack(MAGIC, FORMAT, sha256(payload).digest(), len(payload)) + payload


def load(data: bytes) -> dict[str, Any]:
    """Return the parts of the state that ``save`` wrote, as arguments of ``GraphState.assemble``."""
    tree = _unpickle(_open(data))
    try:
        return _parts(msgspec.convert(tree, _Tree))
    except (msgspec.ValidationError, DecodeError, UnicodeError) as error:
        raise CheckpointError(f"the checkpoint cannot be restored: {error!r}") from error


def _open(data: bytes) -> memoryview:
    """Check the header and return the payload."""
    try:
        view = memoryview(data).cast("B")
    except TypeError as error:
        raise CheckpointError(f"checkpoint: expected bytes, got {type(data).__name__}") from error
    head = bytes(view[: len(MAGIC)])
    if not head or not MAGIC.startswith(head):
        raise CheckpointError("this is not a checkpoint: its first bytes differ")
    if len(view) < _HEADER.size:
        raise CheckpointError(f"the checkpoint is cut off: {len(view)} bytes are less than its header")
    _, version, checksum, length = _HEADER.unpack_from(view)
    if version != FORMAT:
        raise CheckpointError(
            f"the checkpoint has format {version}, and this version of clew reads format {FORMAT}; "
            + ("upgrade clew to read it" if version > FORMAT else "create it again with this version")
        )
    payload = view[_HEADER.size :]
    if len(payload) < length:
        raise CheckpointError(f"the checkpoint is cut off: it has {len(payload)} of {length} bytes")
    if len(payload) > length:
        raise CheckpointError(f"the checkpoint is corrupted: {len(payload) - length} bytes follow its end")
    if sha256(payload).digest() != checksum:
        raise CheckpointError("the checkpoint is corrupted: digest mismatch")
    return payload


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise CheckpointError(
            f"the checkpoint refers to {module_name}.{global_name}; checkpoints must not refer to code"
        )


def _unpickle(payload: memoryview) -> Any:
    try:
        end: int | None = None
        for opcode, _, at in pickletools.genops(BytesIO(payload)):
            if opcode.name not in _ACCEPTED:
                raise CheckpointError(
                    f"the checkpoint was not written by clew: {opcode.name} at byte {at} is not plain data"
                )
            end = at
        if end != len(payload) - 1:
            raise CheckpointError(f"the checkpoint was not written by clew: bytes follow its end at {end}")
        return _Unpickler(BytesIO(payload)).load()
    except CheckpointError:
        raise
    except Exception as error:  # the many ways in which a pickle can be malformed
        raise CheckpointError(f"the checkpoint was not written by clew: {error}") from error


def _tree(state: GraphState) -> dict[str, Any]:
    rest = {
        "decisions": dict(state.gate_decisions),
        "terminated": state.has_chosen_end,
        "history": plain_history(state.node_history),
        "position": plain_position(located(state)),
    }
    return {
        "values": [
            [name, to_tree(value, at=f"state.{name}"), state.get_version(name)]
            for name, value in state.values.items()
        ],
        "rest": to_tree(rest, at="state"),
    }


def _parts(tree: _Tree) -> dict[str, Any]:
    values = {name: from_tree(value) for name, value, _ in tree.values}
    if len(values) != len(tree.values):
        raise CheckpointError("the checkpoint cannot be restored: a value occurs twice")
    rest = msgspec.convert(from_tree(tree.rest), _OtherParts)
    unknown = rest.position.touched - values.keys()
    if unknown:
        raise CheckpointError(f"the checkpoint cannot be restored: it has no value {min(unknown)!r}")
    return {
        "values": values,
        "versions": {name: version for name, _, version in tree.values},
        "decisions": rest.decisions,
        "terminated": rest.terminated,
        "position": rest.position,
        "history": read_history(rest.history),
    }
