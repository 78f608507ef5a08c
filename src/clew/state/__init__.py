"""Immutable versioned state, reducers, state schemas, the canonical codec and digests.

This is the lowest layer: it does not depend on graphs, runs or stores.
"""

from __future__ import annotations

from clew.state.graph_state import GraphState, assemble, columns_of, located, position_of
from clew.state.position import NodeExecution, Position, changed_digest, first_digest
from clew.state.reducers import Overwrite, append, merge
from clew.state.registry import register_type
from clew.state.schema import Field, StateSchema, read_schema
from clew.state.stored_object import StoredObject
from clew.state.values.codec import decode, digest, encode, from_tree, to_tree
from clew.state.values.encoding import LARGE
from clew.state.values.equality import equal, fingerprint, same
from clew.state.values.stored import (
    bytes_header,
    canonical,
    canonical_part,
    packed,
    packed_parts,
    stored_part,
    stored_value,
    stored_values,
    unpacked,
)

__all__ = [
    "Field",
    "GraphState",
    "LARGE",
    "NodeExecution",
    "Overwrite",
    "Position",
    "StateSchema",
    "StoredObject",
    "append",
    "assemble",
    "bytes_header",
    "canonical",
    "canonical_part",
    "changed_digest",
    "columns_of",
    "decode",
    "digest",
    "encode",
    "equal",
    "fingerprint",
    "first_digest",
    "from_tree",
    "located",
    "merge",
    "packed",
    "packed_parts",
    "position_of",
    "read_schema",
    "register_type",
    "same",
    "stored_part",
    "stored_value",
    "stored_values",
    "to_tree",
    "unpacked",
]
