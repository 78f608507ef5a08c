"""What a run remembers of the graph that it was made with, to tell later what has changed.

Beside the structure's hash a run keeps one digest for each part of its graph, by name:

=============  ==============================================================
``ask``        the code of a node; of one inside a subgraph ``sub/ask``
``ask:``       how a node fits into the graph: kind, parameters, outputs, targets; then, after a space, in words
``:edges``     a part of the structure that belongs to no node; likewise
``~messages``  the code of a reducer; of one inside a subgraph ``sub/~messages``
``=client``    a bound value: by its encoding or, where it has none, by its class
``:python``    not a digest: the version of Python, to which the digests of code belong
``:conflict``  not a digest: "last", where of two writers of one value the last one counts
=============  ==============================================================

Changes that somebody has accepted are kept in the run's log (`Accepted`), and count from then on.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from clew.errors import EncodeError, GraphWarning, StoreCorruptError
from clew.graph import Graph
from clew.graph.hashes import code_hash, structure
from clew.graph.skeleton import skeleton
from clew.state import digest, encode
from clew.stores import RunRow

_known: WeakKeyDictionary[Graph, dict[str, str]] = WeakKeyDictionary()


def description_of(graph: Graph) -> tuple[str, bytes]:
    """The description of a graph as a run keeps it: the digest, and the content."""
    found = _described.get(graph)
    if found is None:
        content = msgspec.json.encode(graph.describe(json=True))
        found = _described[graph] = (sha256(content).hexdigest(), content)
    return found


def described(content: bytes) -> Graph:
    """Make a graph without code of a description that a run keeps. StoreCorruptError if it is damaged."""
    try:
        graph = skeleton(msgspec.json.decode(content))
    except msgspec.MsgspecError as error:
        raise StoreCorruptError(f"the description of a graph is damaged: {error}") from error
    _described[graph] = (sha256(content).hexdigest(), content)
    return graph


_described: WeakKeyDictionary[Graph, tuple[str, bytes]] = WeakKeyDictionary()


class GraphFingerprint(Mapping[str, str]):
    """What a run keeps of a graph, made when somebody looks."""

    def __init__(self, graph: Graph, on_conflict: str) -> None:
        self.graph = graph
        self._on_conflict = on_conflict

    def __getitem__(self, name: str) -> str:
        return kept_codes(self.graph, self._on_conflict)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(kept_codes(self.graph, self._on_conflict))

    def __len__(self) -> int:
        return len(kept_codes(self.graph, self._on_conflict))


def structure_of(row: RunRow) -> str:
    """The structure hash of the graph that a run was made with; a run in memory keeps the graph itself."""
    return row.structure or (row.description.structure_hash if isinstance(row.description, Graph) else "")


def is_made_with(row: RunRow, graph: Graph) -> bool:
    """Whether a run was made with a graph of this structure."""
    return row.description is graph or structure_of(row) == graph.structure_hash


_CONFLICT = ":conflict"
_PYTHON = ":python"


def kept_codes(graph: Graph, on_conflict: str) -> dict[str, str]:
    """What a run keeps of its graph."""
    codes = codes_of(graph)
    return {**codes, _CONFLICT: on_conflict} if on_conflict != "error" else codes


def conflict_rule(codes: Mapping[str, str], otherwise: str) -> str:
    """What a run does about conflicts, as it was kept; a run that keeps nothing never had one."""
    return codes.get(_CONFLICT, otherwise)


def codes_of(graph: Graph) -> dict[str, str]:
    """The digests of a graph's parts."""
    found = _known.get(graph)
    if found is None:
        found = _known[graph] = dict(_code(graph, ""))
        parts = structure(graph)
        found.update((f"{node['name']}:", f"{_short(node)} {_told(node)}") for node in parts.pop("nodes"))
        found.update((f":{part}", f"{_short(value)} {_listed(value)}") for part, value in parts.items())
        found.update((f"={name}", _short(value)) for name, value in graph.bound.items())
        found[_PYTHON] = platform.python_version()
    return found


def _code(graph: Graph, prefix: str) -> Iterator[tuple[str, str]]:
    for field in () if graph.schema is None else graph.schema.fields.values():
        if field.reducer is not None:
            yield f"{prefix}~{field.name}", code_hash(field.reducer)[:16]
    for name, code in graph.node_hashes.items():
        yield prefix + name, code
        inside = graph.nodes[name].subgraph
        if inside is not None:
            yield from _code(inside.graph, f"{prefix}{name}/")


def _short(value: Any) -> str:
    try:
        content = encode(value)
    except EncodeError:
        content = f"{type(value).__module__}:{type(value).__qualname__}".encode()
    return digest(b"clew:part", content)[:16]


class FingerprintChanges(msgspec.Struct, frozen=True):
    """What is not what it was."""

    code: frozenset[str]  # nodes, also inside subgraphs
    wiring: frozenset[str]  # nodes whose inputs, outputs, targets or inside are others
    bound: frozenset[str]  # bound values, as far as can be told
    has_other_reducers: bool


def changed_parts(row: RunRow, graph: Graph) -> FingerprintChanges:
    """What has changed in a graph since a run was made with it."""
    then, now = row.codes, codes_of(graph)
    changed = {name for name in {*then, *now} if _differ(then.get(name), now.get(name))} if then else set()
    return FingerprintChanges(
        code=frozenset(name for name in changed if _is_node(name)),
        wiring=frozenset(name[:-1] for name in changed if name.endswith(":")),
        bound=frozenset(name[1:] for name in changed if name.startswith("=")),
        has_other_reducers=any("~" in name for name in changed),
    )


def changed_reducers(row: RunRow, graph: Graph) -> list[str]:
    """The values, of subgraphs too (``sub/messages``), whose reducers are not what they were.

    Digests of another version of Python tell nothing: the same code has others there.
    """
    then, now = row.codes, codes_of(graph)
    if then.get(_PYTHON, now[_PYTHON]) != now[_PYTHON]:
        return []
    names = {name for name in {*then, *now} if "~" in name}
    return sorted(name.replace("~", "") for name in names if then.get(name) != now.get(name)) if then else []


def warn_of_reducers(row: RunRow, graph: Graph) -> None:
    """Warn whoever continues a run with other reducers."""
    changed = changed_reducers(row, graph)
    if changed:
        told = ", ".join(map(repr, changed))
        warnings.warn(
            f"run {row.run_id!r} was made with another reducer of {told}; its states stay as they are, and what comes "
            f"next is merged by today's",
            GraphWarning,
            stacklevel=4,
        )


def changed_code(row: RunRow, graph: Graph) -> list[str]:
    """The nodes, of subgraphs too, whose code is not what it was; only those that are and were there."""
    changed = changed_parts(row, graph).code & row.codes.keys() & codes_of(graph).keys()
    return sorted(name for name in changed if not any(other.startswith(f"{name}/") for other in changed))


def _differ(then: str | None, now: str | None) -> bool:
    """Whether a part is another one: what stands after its digest is for people only, and older runs lack it."""
    if then is None or now is None:
        return then is not now
    return then.partition(" ")[0] != now.partition(" ")[0]


def _told(node: Mapping[str, Any]) -> str:
    """How a node fits into its graph, in words."""
    takes = [
        source if name == source else f"{source} as {name}"
        for name, source, kind, *_ in node["params"]
        if kind == "value"
    ]
    told = [f"takes {', '.join(takes) or 'nothing'}"]
    writes = [value for _, value in node["writes"]]
    told += [f"writes {', '.join(writes)}"] if writes else []
    told += [f"goes to {' or '.join(node['targets'])}"] if node["targets"] else []
    told += [f"comes after {', '.join(node['after'])}"] if node["after"] else []
    return _cut(", ".join(told))


def _listed(part: Any) -> str:
    """A part of a structure that belongs to no node, in words."""
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


def structure_changes(row: RunRow, graph: Graph) -> list[str]:
    """A phrase for each thing in which the structure of a graph is not that of the graph that a run was made with."""
    then, now = row.codes, codes_of(graph)
    if not then:
        return []
    told = [
        f"{name!r} is new" for name in now if _is_node(name) and name not in then and _has_outer(name, then)
    ]
    told += [
        f"{name!r} is gone" for name in then if _is_node(name) and name not in now and _has_outer(name, now)
    ]
    for name, code in now.items():
        if not (name.endswith(":") or name in _PARTS) or not _differ(then.get(name, code), code):
            continue
        was, is_now = then[name].partition(" ")[2], code.partition(" ")[2]
        if name in _PARTS:
            verb = "are" if name == ":edges" else "is"
            what = f"the {_PARTS[name]} {verb} another"
        else:
            what = f"{name[:-1]!r} has other inputs, outputs, targets or another graph inside"
        told.append(f"{what} (now: {is_now}; it was: {was})" if was and was != is_now else what)
    return told


def _has_outer(name: str, codes: Mapping[str, str]) -> bool:
    """Whether the subgraph that a node is in is there, so that only this node of it is new or gone."""
    return "/" not in name or name.rpartition("/")[0] in codes


def changed_structure(row: RunRow, graph: Graph) -> str:
    """What GraphChangedError says: what is another, and the ways on."""
    how = "; ".join(structure_changes(row, graph)) or "its links, schema or signatures differ"
    now = codes_of(graph)
    gone = ", ".join(repr(name) for name in row.codes if _is_top(name) and name not in now)
    if gone:  # what it did cannot be read without it
        return (
            f"run {row.run_id!r} was made with another graph ({how}); give {gone} back, its code may be another, or "
            f"run the new graph from the start; engine.fork({row.run_id!r}, step=...) goes on from a step before it ran"
        )
    return (
        f"run {row.run_id!r} was made with another graph ({how}); go on from a step of it with "
        f"engine.fork({row.run_id!r}, step=...), or take the new graph with engine.resume({row.run_id!r}, "
        f"accept_changes=True)"
    )


_PARTS = {
    ":edges": "declared edges",
    ":entry": "entry",
    ":selected": "selection of outputs",
    ":state": "state schema",
}


def _is_node(name: str) -> bool:
    return not name.startswith((":", "=")) and not name.endswith(":") and "~" not in name


def _is_top(name: str) -> bool:
    return _is_node(name) and "/" not in name
