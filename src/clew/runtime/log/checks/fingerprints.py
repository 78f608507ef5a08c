"""Fingerprints of a graph, stored with a run to detect changes of structure and code.

In addition to the structure hash, a run stores one digest for each part of its graph:

=============  ==============================================================
``ask``        the code of a node; in a subgraph ``sub/ask``
``ask:``       the kind, parameters, outputs and targets of a node; after a space, a description
``:edges``     a part of the structure that belongs to no node; also with a description
``~messages``  the code of a reducer; in a subgraph ``sub/~messages``
``=client``    a bound value: the digest of its encoding or, if it has none, of its class; in a subgraph
               ``sub/=client``
``%price``     how a schema validates a field (``clew.graph.hashing.hashes``); in a subgraph ``sub/%price``
``:python``    not a digest: the Python version, on which the digests of code depend
``:conflict``  not a digest: "last" if the last of two writers of a value wins
=============  ==============================================================

Accepted changes are stored in the log of the run (`AcceptedChanges`) and replace these fingerprints.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from clew.errors import EncodeError, StoreCorruptError
from clew.graph import Graph
from clew.graph.description import describe
from clew.graph.hashing.hashes import GraphCode, field_hashes, graph_code, structure
from clew.graph.skeleton import skeleton
from clew.graph_warnings import warn
from clew.state import digest, fingerprint
from clew.stores import RunRow
from clew.stores.encoded_codes import EncodedCodes

_known: WeakKeyDictionary[GraphCode, EncodedCodes] = WeakKeyDictionary()


def description_of(graph: Graph) -> tuple[str, bytes]:
    """Return the description of a graph as stored with a run: its digest and its content."""
    found = _described.get(graph)
    if found is None:
        content = msgspec.json.encode(describe(graph))
        found = _described[graph] = (sha256(content).hexdigest(), content)
    return found


def described(content: bytes) -> Graph:
    """Build a graph without code from a stored description. Raise StoreCorruptError if it is damaged."""
    try:
        graph = skeleton(msgspec.json.decode(content))
    except msgspec.MsgspecError as error:
        raise StoreCorruptError(f"the description of a graph is damaged: {error}") from error
    _described[graph] = (sha256(content).hexdigest(), content)
    return graph


_described: WeakKeyDictionary[Graph, tuple[str, bytes]] = WeakKeyDictionary()


def structure_of(row: RunRow) -> str:
    """Return the structure hash of a run's graph. A run in memory holds the graph itself."""
    return row.structure or (row.description.structure_hash if isinstance(row.description, Graph) else "")


def is_made_with(row: RunRow, graph: Graph) -> bool:
    """Return whether a run's graph has the structure of this graph."""
    return row.description is graph or structure_of(row) == graph.structure_hash


_CONFLICT = ":conflict"
_PYTHON = ":python"


def kept_codes(graph: Graph, on_conflict: str) -> dict[str, str]:
    """Return the fingerprints that a run stores: those of the graph, and the conflict rule."""
    codes = codes_of(graph)
    return {**codes, _CONFLICT: on_conflict} if on_conflict != "error" else codes


def conflict_rule(codes: Mapping[str, str], otherwise: str) -> str:
    """Return the stored conflict rule of a run, or `otherwise` if none is stored."""
    return codes.get(_CONFLICT, otherwise)


def codes_of(graph: Graph) -> dict[str, str]:
    """Return the digests of a graph's parts."""
    code = graph_code(graph)
    found = _known.get(code)
    if found is None:
        found = EncodedCodes(_code(graph, ""))
        parts = structure(graph)
        found.update(
            (f"{node['name']}:", f"{_short(node)} {_describe_node(node)}") for node in parts.pop("nodes")
        )
        found.update(
            (f":{part}", f"{_short(value)} {_describe_part(value)}") for part, value in parts.items()
        )
        found.update(_values(graph, ""))
        found[_PYTHON] = platform.python_version()
        _known[code] = found  # complete: other threads read it, and an interrupt may come before
    return found


def node_codes(graph: Graph) -> dict[str, str]:
    """Return the digests of the code of a graph: of its nodes and reducers, also in subgraphs."""
    return dict(_code(graph, ""))


def _code(graph: Graph, prefix: str) -> Iterator[tuple[str, str]]:
    for name, code in graph_code(graph).reducers.items():
        yield f"{prefix}~{name}", code[:16]
    for name, code in graph.node_hashes.items():
        yield prefix + name, code
        inside = graph.nodes[name].subgraph
        if inside is not None:
            yield from _code(inside.graph, f"{prefix}{name}/")


def _values(graph: Graph, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in graph.bound.items():
        yield f"{prefix}={name}", _short(value)
    for name, code in field_hashes(graph.schema).items():
        yield f"{prefix}%{name}", code
    for name, node in graph.nodes.items():
        if node.subgraph is not None:
            yield from _values(node.subgraph.graph, f"{prefix}{name}/")


def _short(value: Any) -> str:
    kind = type(value)
    return bound_digest(value) or _digest(f"{kind.__module__}:{kind.__qualname__}".encode())


def bound_digest(value: Any) -> str | None:
    """Return the digest of a bound value, as a run stores it; None if the value has no encoding."""
    try:
        return _digest(fingerprint(value))
    except EncodeError:
        return None


def _digest(content: bytes) -> str:
    return digest(b"clew:part", content)[:16]


class FingerprintChanges(msgspec.Struct, frozen=True):
    """The parts of a graph that have changed."""

    code: frozenset[str]  # nodes, also inside subgraphs
    wiring: frozenset[str]  # nodes whose inputs, outputs, targets or subgraph changed
    has_other_reducers: bool


def changed_parts(row: RunRow, graph: Graph) -> FingerprintChanges:
    """Compare a graph with the stored fingerprints of a run."""
    then, now = row.codes, codes_of(graph)
    changed = {name for name in {*then, *now} if _differ(then.get(name), now.get(name))} if then else set()
    return FingerprintChanges(
        code=frozenset(name for name in changed if _is_node(name)),
        wiring=frozenset(name[:-1] for name in changed if name.endswith(":")),
        has_other_reducers=any("~" in name for name in changed),
    )


def unchanged_fields(row: RunRow, graph: Graph) -> set[str]:
    """Return the fields that the schema of the graph validates as that of the run did."""
    return {name for name, code in field_hashes(graph.schema).items() if row.codes.get(f"%{name}") == code}


def changed_reducers(row: RunRow, graph: Graph) -> list[str]:
    """Return the values, also of subgraphs (``sub/messages``), whose reducers have changed.

    Return nothing if the Python version differs, because the same code has different digests there.
    """
    then, now = row.codes, codes_of(graph)
    if then.get(_PYTHON, now[_PYTHON]) != now[_PYTHON]:
        return []
    names = {name for name in {*then, *now} if "~" in name}
    return sorted(name.replace("~", "") for name in names if then.get(name) != now.get(name)) if then else []


def warn_of_reducers(row: RunRow, graph: Graph) -> None:
    """Issue a GraphWarning if the reducers of a run have changed."""
    changed = changed_reducers(row, graph)
    if changed:
        names = ", ".join(map(repr, changed))
        warn(
            f"run {row.run_id!r}: the reducer of {names} has changed; existing states stay the same, and new updates "
            f"use the current reducer"
        )


def changed_code(row: RunRow, graph: Graph) -> list[str]:
    """Return the nodes, also of subgraphs, whose code has changed, without new and removed nodes."""
    changed = changed_parts(row, graph).code & row.codes.keys() & codes_of(graph).keys()
    return sorted(name for name in changed if not any(other.startswith(f"{name}/") for other in changed))


def _differ(then: str | None, now: str | None) -> bool:
    """Return whether a part has changed. Only the digests are compared, not the descriptions after them."""
    if then is None or now is None:
        return then is not now
    return then.partition(" ")[0] != now.partition(" ")[0]


def _describe_node(node: Mapping[str, Any]) -> str:
    """Describe the inputs, outputs and links of a node."""
    takes = [
        source if name == source else f"{source} as {name}"
        for name, source, kind, *_ in node["params"]
        if kind == "value"
    ]
    parts = [f"takes {', '.join(takes) or 'nothing'}"]
    writes = [value for _, value in node["writes"]]
    parts += [f"writes {', '.join(writes)}"] if writes else []
    parts += [f"goes to {' or '.join(node['targets'])}"] if node["targets"] else []
    parts += [f"comes after {', '.join(node['after'])}"] if node["after"] else []
    return _cut(", ".join(parts))


def _describe_part(part: Any) -> str:
    """Describe a part of the structure that belongs to no node."""
    if isinstance(part, Mapping):
        fields = (
            f"{name}: {kind}" + (f" by {reducer.rpartition(':')[2]}" if reducer else "")
            for name, (kind, reducer, _) in part.items()
        )
        return _cut(", ".join(fields))
    pairs = (" to ".join(each) if isinstance(each, list) else str(each) for each in part or ())
    return _cut(", ".join(pairs) or "none")


def _cut(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


_WIDE = 160


def _only_in(codes: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Return the nodes that only the first graph has, without those inside them."""
    return [name for name in codes if _is_node(name) and name not in others and _has_outer(name, others)]


def structure_changes(row: RunRow, graph: Graph) -> list[str]:
    """Return a phrase for each difference between the structure of a graph and that of a run's graph."""
    then, now = row.codes, codes_of(graph)
    if not then:
        return []
    phrases = [f"{name!r} is new" for name in _only_in(now, then)]
    phrases += [f"{name!r} was removed" for name in _only_in(then, now)]
    for name, code in now.items():
        if not (name.endswith(":") or name in _PARTS) or not _differ(then.get(name, code), code):
            continue
        if name in _PARTS:
            what = f"the {_PARTS[name]} {'have' if name == ':edges' else 'has'} changed"
        else:
            what = f"{name[:-1]!r} has different inputs, outputs, targets or a different subgraph"
        was, is_now = then[name].partition(" ")[2], code.partition(" ")[2]
        phrases.append(f"{what} (now: {is_now}; before: {was})" if was and was != is_now else what)
    return phrases


def _has_outer(name: str, codes: Mapping[str, str]) -> bool:
    """Return whether the enclosing subgraph exists on both sides, so that only this node is new or removed."""
    return "/" not in name or name.rpartition("/")[0] in codes


def changed_structure(row: RunRow, graph: Graph, root: str = "") -> str:
    """Return the message of GraphChangedError: what has changed, and what to do. `root` is the run around a child."""
    how = "; ".join(structure_changes(row, graph)) or "links, schema or signatures differ"
    now = codes_of(graph)
    if root and row.child_of is not None:
        return (
            f"child {row.run_id!r} of run {row.child_of!r}, started at {row.place}, was made with a different graph "
            f"({how}); use that graph again, or accept the new one with engine.resume({root!r}, accept_changes=True)"
        )
    gone = ", ".join(repr(name) for name in row.codes if _is_top(name) and name not in now)
    if gone:  # the steps of a removed node cannot be continued
        return (
            f"run {row.run_id!r} was made with a different graph ({how}); add {gone} again, start "
            f"a new run, or fork from a step before the node ran with engine.fork({row.run_id!r}, step=...)"
        )
    return (
        f"run {row.run_id!r} was made with a different graph ({how}); fork from one of its steps with "
        f"engine.fork({row.run_id!r}, step=...), or accept the new graph with engine.resume({row.run_id!r}, "
        f"accept_changes=True)"
    )


_PARTS = {
    ":edges": "declared edges",
    ":entry": "entry",
    ":selected": "selection of outputs",
    ":state": "state schema",
}


def _is_node(name: str) -> bool:
    own = name.rpartition("/")[2]  # of a subgraph
    return not own.startswith((":", "=", "~", "%")) and not own.endswith(":")


def _is_top(name: str) -> bool:
    return _is_node(name) and "/" not in name
