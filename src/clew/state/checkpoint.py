"""The format of checkpoints: a header, and a state as plain data in a restricted pickle.

::

    magic (8 bytes) | format (2) | SHA-256 of the payload (32) | length of the payload (8) | payload

The payload is a pickle of dicts, lists, text, numbers, booleans and None, written without memo. A digest detects
damage but not an attack, so `load` trusts nothing:

- It checks every opcode before unpickling. Only those that plain data needs are accepted: none that finds, calls or
  fills a class, none that uses the memo, none that allocates memory for data that does not exist.
- The unpickler rejects every class, in case an opcode was missed.
- The tree must have exactly the shape below, and the codec and its registry decode the values.

So every problem raises ``CheckpointError``, no code of the payload runs, and memory use is proportional to the size of
the data.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec

from clew.errors import CheckpointError, DecodeError, EncodeError
from clew.state import located
from clew.state.codec import from_tree, to_tree
from clew.state.encoding import NO_ROOM
from clew.state.position import NodeExecution, Position

if TYPE_CHECKING:
    from clew.state.graph_state import GraphState

# As in PNG: a first byte that is not text, then line ends that a text-mode transfer would change.
MAGIC = b"\x89CLEW\r\n\n"
FORMAT = 2
_HEADER = struct.Struct(">8sH32sQ")

# The oldest protocol with opcodes for booleans and short integers. It has no frames and no opcodes for sets or
# bytearrays, so fewer opcodes have to be accepted.
_PROTOCOL = 3

_ACCEPTED = frozenset(
    ("PROTO", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT")
    + ("BINUNICODE", "MARK", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS")
)

Count = Annotated[int, msgspec.Meta(ge=0)]


class _Execution(msgspec.Struct, forbid_unknown_fields=True):
    node_name: str
    input_versions: dict[str, int]
    output_version: int
    timestamp: float
    duration_ms: float
    cached: bool
    output_versions: dict[str, int]
    step: Count


class _PositionTree(msgspec.Struct, forbid_unknown_fields=True):
    step: Count
    seed: Any  # a tree of the codec, because a seed may exceed 64 bits
    given: list[str]
    digest: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]
    visits: dict[str, Count]
    wakes: dict[str, int]
    selections: dict[str, list[tuple[str, bool]]]
    sends: dict[str, list[tuple[str, dict[str, Any], bool]]]
    failed: list[str]
    touched: list[str]
    decided: list[str]
    filled: list[str] = []
    stopped: bool = False
    arrived: dict[str, list[str]] = {}
    began: Count = 0


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True):
    """The shape of the tree. ``Any`` is a tree of the codec."""

    values: list[tuple[str, Any, Count]]
    decisions: dict[str, str | list[str]]
    terminated: bool
    history: list[_Execution]
    position: _PositionTree


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
        return _parts(msgspec.convert(tree, _Snapshot))
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
    position = located(state)
    return {
        "values": [
            [name, to_tree(value, at=f"state.{name}"), state.get_version(name)]
            for name, value in state.values.items()
        ],
        "decisions": {
            gate: chosen if isinstance(chosen, str) else list(chosen)
            for gate, chosen in state.gate_decisions.items()
        },
        "terminated": state.has_chosen_end,
        "history": [
            {
                "node_name": run.node_name,
                "input_versions": dict(run.input_versions),
                "output_version": run.output_version,
                "timestamp": run.timestamp,
                "duration_ms": run.duration_ms,
                "cached": run.cached,
                "output_versions": dict(run.output_versions),
                "step": run.step,
            }
            for run in state.node_history.values()
        ],
        "position": {
            "step": position.step,
            "seed": to_tree(position.seed),
            "given": sorted(position.given),
            "digest": position.digest,
            "visits": dict(position.visits),
            "wakes": dict(position.wakes),
            "selections": {
                node: [list(pair) for pair in gates] for node, gates in position.selections.items()
            },
            "sends": {node: _sent(node, items) for node, items in position.sends.items()},
            "failed": sorted(position.failed),
            "touched": sorted(position.touched),
            "decided": sorted(position.decided),
            **({"filled": sorted(position.filled)} if position.filled else {}),
            **({"stopped": True} if position.stopped else {}),
            **({"began": position.began} if position.began else {}),
            **(
                {"arrived": {node: list(names) for node, names in position.arrived.items()}}
                if position.arrived
                else {}
            ),
        },
    }


def _sent(node: str, items: Any) -> list[Any]:
    return [
        [
            gate,
            {name: to_tree(value, at=f"Send to {node}: {name}") for name, value in payload.items()},
            is_final,
        ]
        for gate, payload, is_final in items
    ]


def _parts(snapshot: _Snapshot) -> dict[str, Any]:
    values = {name: from_tree(tree) for name, tree, _ in snapshot.values}
    if len(values) != len(snapshot.values):
        raise CheckpointError("the checkpoint cannot be restored: a value occurs twice")
    place = snapshot.position
    seed = from_tree(place.seed)
    if type(seed) is not int and seed is not None:
        raise CheckpointError(f"the checkpoint cannot be restored: its seed is a {type(seed).__name__}")
    unknown = set(place.touched) - values.keys()
    if unknown:
        raise CheckpointError(f"the checkpoint cannot be restored: it has no value {min(unknown)!r}")
    position = Position(
        step=place.step,
        seed=seed,
        given=frozenset(place.given),
        digest=place.digest,
        visits=place.visits,
        wakes=place.wakes,
        selections={node: tuple(gates) for node, gates in place.selections.items()},
        sends={
            node: tuple(
                (gate, {name: from_tree(tree) for name, tree in sent.items()}, is_final)
                for gate, sent, is_final in items
            )
            for node, items in place.sends.items()
        },
        failed=frozenset(place.failed),
        touched=frozenset(place.touched),
        decided=frozenset(place.decided),
        filled=frozenset(place.filled),
        stopped=place.stopped,
        began=place.began,
        arrived={node: tuple(names) for node, names in place.arrived.items()},
    )
    return {
        "values": values,
        "versions": {name: version for name, _, version in snapshot.values},
        "decisions": {gate: d if isinstance(d, str) else tuple(d) for gate, d in snapshot.decisions.items()},
        "terminated": snapshot.terminated,
        "position": position,
        "history": {run.node_name: NodeExecution(**msgspec.structs.asdict(run)) for run in snapshot.history},
    }
