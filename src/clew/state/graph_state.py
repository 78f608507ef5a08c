"""GraphState: all values of a run at one point, with their versions and what has happened so far. It never
changes.

Rules:

- Every operation returns another state, which shares all that did not change. A write to a state of a
  thousand values costs what a write to a state of ten costs.
- A version counts writes: 0 for a value given at the start, one more for every write, an equal value
  included; the first write of a new name makes version 1.
- ``values`` and ``versions`` are in the order in which the names first appeared, whatever the hash seed.
- The values themselves are the user's: they are not copied, and a list in a state can still be changed by
  whoever holds it.
- Two states are equal if all that a checkpoint keeps of them is equal: values, versions, decisions,
  ``terminated``, history and position. States are not hashable, as their values need not be.

Values live in one of two shapes, made from each other when needed: two plain dicts, as an engine hands them
over, and a persistent map from name to cell, for writing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from reprlib import Repr
from types import MappingProxyType
from typing import Any

import msgspec
from immutables import Map

from clew.errors import StateError, UnknownValueError
from clew.state.column_view import ColumnView
from clew.state.position import NodeExecution, Position, VersionMap, digest_of

Decision = str | tuple[str, ...]
Cell = tuple[int, Any, int]  # where it stands in the order of names, value, version
History = Mapping[str, NodeExecution]


class GraphState:
    """All values, their versions and the execution history of a graph run; immutable.

    Args:
        initial_values: Starting values (they get version 0).

    Example::

        state = GraphState({"query": "hello", "messages": []})
        state = state.set("messages", ["hi"])
    """

    __slots__ = (
        "_cells",
        "_chain_digest",
        "_columns",
        "_decisions",
        "_history",
        "_own_digest",
        "_position",
        "_terminated",
        "_touched",
    )

    _columns: tuple[Mapping[str, Any], Mapping[str, int]] | None
    _cells: Map[str, Cell] | None
    _decisions: Mapping[str, Decision]
    _terminated: bool
    _history: History | Callable[[], History]
    _position: Position
    # The names touched, as far as they are ahead of the position: joining a set to another costs its whole
    # length.
    _touched: Map[str, None] | None
    # Makes the digest in the position; gone once it is there.
    _chain_digest: Callable[[], str] | None
    _own_digest: str | None  # what a store says that the digest of this very state is

    def __init__(self, initial_values: Mapping[str, Any] | None = None) -> None:
        if initial_values is not None and not isinstance(initial_values, Mapping):
            raise StateError(
                f"a GraphState is made of a mapping of names to values, not of a {type(initial_values).__name__}"
            )
        values = {_name(name): value for name, value in (initial_values or {}).items()}
        self._columns = values, dict.fromkeys(values, 0)
        self._cells = None
        self._decisions = {}
        self._terminated = False
        self._history = {}
        self._position = Position(given=frozenset(values))
        self._touched = None
        self._chain_digest = None
        self._own_digest = None

    @classmethod
    def assemble(
        cls,
        *,
        values: Mapping[str, Any],
        versions: Mapping[str, int],
        decisions: Mapping[str, Decision],
        terminated: bool,
        position: Position,
        history: History | Callable[[], History],
        digest: Callable[[], str] | None = None,
    ) -> GraphState:
        """A state from its parts: how an engine makes one. The parts are handed over, and never changed
        afterwards.

        Args:
            history: The latest execution of each node, or a function that returns it when somebody looks.
            digest: A function that returns the digest of the chain up to here when somebody looks.
        """
        state = cls.__new__(cls)
        state._columns = values, versions
        state._cells = None
        state._decisions = decisions
        state._terminated = terminated
        state._history = history
        state._position = position
        state._touched = None
        state._chain_digest = digest
        state._own_digest = None
        return state

    def with_digest(self, digest: str) -> GraphState:
        """Return the same state with the digest that a store keeps of it; a change makes a digest of its own again."""
        new = self._copy()
        new._own_digest = digest
        return new

    def rooted(self) -> GraphState:
        """Return the same state as one that something new begins with: digests of later changes build on its own."""
        new = self._copy()
        new._chain_digest = lambda: self.digest
        return new

    # Values

    @property
    def values(self) -> Mapping[str, Any]:
        """Read-only view of the current values."""
        return ColumnView(self.has, self.get, self._ordered_values)

    @property
    def versions(self) -> Mapping[str, int]:
        """Read-only view of the version numbers."""
        return ColumnView(self.has, self.get_version, self._ordered_versions)

    def get(self, name: str) -> Any:
        """The value of that name.

        Raises:
            KeyError: If there is none; the message names the nearest.
        """
        try:
            return self._columns[0][name] if self._columns is not None else self._map()[name][1]
        except KeyError:
            raise self._unknown(name) from None

    def get_version(self, name: str) -> int:
        """The version of a value: 0 for a value given at the start, one more for each write.

        Raises:
            KeyError: If there is none; the message names the nearest.
        """
        try:
            return self._columns[1][name] if self._columns is not None else self._map()[name][2]
        except KeyError:
            raise self._unknown(name) from None

    def has(self, name: str) -> bool:
        """Whether there is a value of that name."""
        return name in (self._columns[0] if self._columns is not None else self._map())

    def set(self, name: str, value: Any) -> GraphState:
        """The state with one value written, and its version counted up."""
        cells, name = self._map(), _name(name)
        cell = cells.get(name)
        new = self._copy()
        new._columns = None
        new._cells = cells.set(
            name, (len(cells), value, 1) if cell is None else (cell[0], value, cell[2] + 1)
        )
        new._touched = self._touched_map().set(name, None)
        return new

    def set_multiple(self, values: Mapping[str, Any]) -> GraphState:
        """The state with several values written, and the version of each counted up."""
        _mapping(values, "values")
        with self._map().mutate() as cells, self._touched_map().mutate() as touched:
            for name, value in values.items():
                name = _name(name)
                cell = cells.get(name)
                cells[name] = (len(cells), value, 1) if cell is None else (cell[0], value, cell[2] + 1)
                touched[name] = None
            new = self._copy()
            new._columns = None
            new._cells = cells.finish()
            new._touched = touched.finish()
        return new

    # What has happened

    @property
    def executed_nodes(self) -> frozenset[str]:
        """Names of the nodes that have executed."""
        return frozenset(self.node_history)

    @property
    def node_history(self) -> Mapping[str, NodeExecution]:
        """The latest execution of each node."""
        if callable(self._history):
            self._history = self._history()
        return MappingProxyType(self._history)

    @property
    def gate_decisions(self) -> Mapping[str, Decision]:
        """What each gate chose last: the name of a target, ``"END"``, or a tuple where it may choose
        several."""
        return MappingProxyType(self._decisions)

    @property
    def terminated(self) -> bool:
        """True once a gate has chosen END, or `mark_terminated` was called."""
        return self._terminated or self._position.stopped

    @property
    def has_chosen_end(self) -> bool:
        """True once a gate has chosen END, which stops nothing but its own path."""
        return self._terminated

    @property
    def position(self) -> Position:
        """Where in a run this state stands."""
        if self._touched is not None and len(self._touched) != len(self._position.touched):
            self._position = msgspec.structs.replace(self._position, touched=frozenset(self._touched))
        return self._position

    def located(self) -> Position:
        """The position with its digest, which is made when first asked for."""
        if self._chain_digest is not None:
            self._position = msgspec.structs.replace(self.position, digest=self._chain_digest())
            self._chain_digest = None
        return self.position

    @property
    def step(self) -> int:
        """The number of steps that led here."""
        return self._position.step

    @property
    def seed(self) -> int | None:
        """The seed of the run, if there is one."""
        return self._position.seed

    @property
    def visits(self) -> Mapping[str, int]:
        """How often each node has run."""
        return MappingProxyType(self._position.visits)

    @property
    def digest(self) -> str:
        """What identifies this state: the run's digest, joined with what was written and decided by hand since."""
        if self._own_digest is not None:
            return self._own_digest
        return digest_of(self.located(), self._ordered_values(), self._ordered_versions(), self._decisions)

    # Staleness

    def is_stale(self, node_name: str, input_names: Iterable[str], own_outputs: Collection[str] = ()) -> bool:
        """Whether a node needs to run: it never has, or an input's version is not the one that it saw.

        A node's own outputs do not count (the sole-producer rule). They are those of its record, and
        ``own_outputs``.
        """
        last = self.node_history.get(node_name)
        if last is None:
            return True
        return any(
            self._version_or(name, -1) != last.input_versions.get(name, -1)
            for name in input_names
            if name not in last.output_versions and name not in own_outputs
        )

    def get_input_versions(self, input_names: Iterable[str]) -> dict[str, int]:
        """The current versions of those inputs that exist."""
        return {name: self.get_version(name) for name in input_names if self.has(name)}

    # Recording

    def record_execution(
        self,
        node_name: str,
        input_versions: Mapping[str, int],
        output_version: int,
        duration_ms: float,
        cached: bool = False,
        *,
        output_versions: Mapping[str, int] | None = None,
        timestamp: float | None = None,
    ) -> GraphState:
        """The state with an execution recorded, and one more visit of that node.

        Args:
            node_name: Name of the executed node.
            input_versions: Versions of its inputs when it ran.
            output_version: Version of the output produced.
            duration_ms: How long it took.
            cached: Whether the result came from a cache.
            output_versions: Versions of all outputs by name; ``is_stale`` learns from it what the node
                writes.
            timestamp: When it ran, in seconds since the epoch; now, if not given.
        """
        node_name = _name(node_name)
        _mapping(input_versions, "input_versions")
        _mapping(output_versions, "output_versions")
        record = NodeExecution(
            node_name=node_name,
            input_versions=VersionMap(input_versions),
            output_version=output_version,
            timestamp=time.time() if timestamp is None else float(timestamp),
            duration_ms=float(duration_ms),
            cached=bool(cached),
            output_versions=VersionMap(output_versions or {}),
            step=self.step,
        )
        visits = {**self.visits, node_name: self.visits.get(node_name, 0) + 1}
        new = self._copy()
        new._history = {**self.node_history, node_name: record}
        new._position = msgspec.structs.replace(self._position, visits=visits)
        return new

    def record_gate_decision(self, gate_name: str, decision: Any) -> GraphState:
        """Return the state with a gate's decision recorded; a decision for END makes it ``terminated``.

        It replaces what the gate had decided before and no node has consumed. ``decision`` is a target (a node's name,
        ``"END"``, or END itself), a tuple or list of targets, or None, which selects nothing.
        """
        gate = _name(gate_name)
        several = isinstance(decision, (tuple, list))
        chosen = () if decision is None else decision if several else (decision,)
        targets = tuple(_target(target) for target in chosen)
        new = self._copy()
        new._decisions = {name: made for name, made in self._decisions.items() if name != gate}
        if targets:
            new._decisions[gate] = targets if several else targets[0]
        new._terminated = self._terminated or "END" in targets
        decided = self._position.decided | {gate}
        new._position = msgspec.structs.replace(self._position, decided=decided)
        return new

    def mark_terminated(self) -> GraphState:
        """Return the state from which nothing runs; checkpoints and writes by hand keep that."""
        new = self._copy()
        new._position = msgspec.structs.replace(self._position, stopped=True)
        return new

    # Checkpoints

    def to_checkpoint(self) -> bytes:
        """All of this state as bytes, for ``from_checkpoint``.

        Raises:
            EncodeError: If a value cannot be stored; the message has its path.
        """
        from clew.state import checkpoint

        return checkpoint.save(self)

    @classmethod
    def from_checkpoint(cls, data: bytes) -> GraphState:
        """The state that ``to_checkpoint`` wrote.

        Raises:
            CheckpointError: If the data are damaged, of another format, or need a class that is not
                registered.
        """
        from clew.state import checkpoint

        return cls.assemble(**checkpoint.load(data))

    # Python's own protocols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphState):
            return NotImplemented
        return self is other or all(
            mine == theirs for mine, theirs in zip(self._parts(), other._parts(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        brief = Repr()
        brief.maxother = brief.maxstring = 60  # characters
        versions = self._ordered_versions()
        shown = [
            f"{name}={brief.repr(value)} v{versions[name]}" for name, value in self._ordered_values().items()
        ]
        if len(shown) > _SHOWN:
            shown[_SHOWN:] = [f"and {len(shown) - _SHOWN} more"]
        end = ", terminated" if self.terminated else ""
        return f"<GraphState step {self.step}{end}: {', '.join(shown) or 'no values'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), *self._parts())

    # Inside

    def _parts(self) -> tuple[Any, ...]:
        # the digest is made when somebody looks, and follows from the rest
        position = msgspec.structs.replace(self.position, digest="")
        values, versions = dict(self._ordered_values()), dict(self._ordered_versions())
        return values, versions, dict(self._decisions), self._terminated, position, dict(self.node_history)

    def _copy(self) -> GraphState:
        new = self.__class__.__new__(self.__class__)
        new._columns = self._columns
        new._cells = self._cells
        new._decisions = self._decisions
        new._terminated = self._terminated
        new._history = self._history
        new._position = self._position
        new._touched = self._touched
        new._chain_digest = self._chain_digest
        new._own_digest = None
        return new

    def _touched_map(self) -> Map[str, None]:
        return Map(dict.fromkeys(self._position.touched)) if self._touched is None else self._touched

    def _map(self) -> Map[str, Cell]:
        if self._cells is None:
            assert self._columns is not None  # one of the two shapes is always there
            values, versions = self._columns
            self._cells = Map(
                {name: (i, value, versions[name]) for i, (name, value) in enumerate(values.items())}
            )
        return self._cells

    def _ordered(self) -> tuple[Mapping[str, Any], Mapping[str, int]]:
        if self._columns is None:
            cells = self._map()
            names = sorted(cells, key=lambda name: cells[name][0])
            self._columns = {n: cells[n][1] for n in names}, {n: cells[n][2] for n in names}
        return self._columns

    def _ordered_values(self) -> Mapping[str, Any]:
        return self._ordered()[0]

    def _ordered_versions(self) -> Mapping[str, int]:
        return self._ordered()[1]

    def _version_or(self, name: str, default: int) -> int:
        return self.get_version(name) if self.has(name) else default

    def _unknown(self, name: str) -> UnknownValueError:
        from difflib import get_close_matches

        near = get_close_matches(str(name), list(self._ordered_values()), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return UnknownValueError(f"the state has no value {name!r}{hint}")


_SHOWN = 12  # values in a repr


def _restore(cls: type[GraphState], *parts: Any) -> GraphState:
    values, versions, decisions, terminated, position, history = parts
    return cls.assemble(
        values=values,
        versions=versions,
        decisions=decisions,
        terminated=terminated,
        position=position,
        history=history,
    )


def _mapping(value: Any, what: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise StateError(f"{what} is a mapping by name, not {value!r}")


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise StateError(f"the name of a value, node or gate is text, not {name!r}")
    return str.__str__(
        name
    )  # a subclass, such as a member of a StrEnum, would not come back from a checkpoint


def _target(target: Any) -> str:
    # END is a definition, which this layer does not know; it says its name.
    return "END" if str(target) == "END" else _name(target)
