"""Values: immutable versioned state, reducers, state schemas, the canonical codec and digests (layer 0).

Nothing here knows of graphs, runs or stores.
"""

from __future__ import annotations

from clew.state.codec import decode, digest, encode, encode_both, from_tree, to_tree
from clew.state.graph_state import GraphState
from clew.state.position import NodeExecution, Position
from clew.state.reducers import Overwrite, append, merge
from clew.state.registry import register_type
from clew.state.schema import Field, Schema, read_schema

__all__ = [
    "Field",
    "GraphState",
    "NodeExecution",
    "Overwrite",
    "Position",
    "Schema",
    "append",
    "decode",
    "digest",
    "encode",
    "encode_both",
    "from_tree",
    "merge",
    "read_schema",
    "register_type",
    "to_tree",
]
