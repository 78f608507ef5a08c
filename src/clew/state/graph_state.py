"""The class `GraphState`: all values of a run at one point, with versions and history. Immutable.

Rules:

- Every operation returns a new state that shares all unchanged parts. The cost of a write does not depend on the number
  of values.
- A version counts writes: 0 for an initial value, plus one for every write, even of an equal value. The first write of
  a new name makes version 1.
- ``values`` and ``versions`` are in the order in which the names first appeared.
- Values are not copied: code that holds a reference to a list in a state can still change it.
- Two states are equal if everything in their checkpoints is equal: values, versions, decisions, ``terminated``,
  history and position. States are not hashable, because their values need not be.

Values have one of two representations, converted on demand: two plain dicts, as an engine creates them, and a
persistent map from name to cell, for writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from immutables import Map

from clew.errors import StateError, UnknownValueError
from clew.state.column_view import ColumnView
from clew.state.position import NodeExecution, Position, VersionMap, digest_of
from clew.state.values.equality import equal

Decision = str | tuple[str, ...]
Cell = tuple[int, Any, int]  # index in the order of names, value, version
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
    # The changed names, if they are newer than the position: a union of sets costs their whole length.
    _touched: Map[str, None] | None
    # Computes the digest in the position; None once it is computed.
    _chain_digest: Callable[[], str] | None
    _own_digest: str | None  # the digest of this state according to a store

    def __init__(self, initial_values: Mapping[str, Any] | None = None) -> None:
        if initial_values is not None and not isinstance(initial_values, Mapping):
            raise StateError(
                f"GraphState: expected a mapping of names to values, got type {type(initial_values).__name__}"
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

    def with_digest(self, digest: str) -> GraphState:
        """Return the same state with the digest from a store. A changed state computes its own digest again."""
        new = self._copy()
        new._own_digest = digest
        return new

    def rooted(self) -> GraphState:
        """Return the same state as the root of a new chain: digests of later changes build on its digest."""
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
        """Return the value of that name.

        Raises:
            UnknownValueError: It does not exist; the message suggests a similar name.
        """
        try:
            return self._columns[0][name] if self._columns is not None else self._map()[name][1]
        except KeyError:
            raise self._unknown(name) from None

    def get_version(self, name: str) -> int:
        """Return the version of a value: 0 for an initial value, plus one for each write.

        Raises:
            UnknownValueError: It does not exist; the message suggests a similar name.
        """
        try:
            return self._columns[1][name] if self._columns is not None else self._map()[name][2]
        except KeyError:
            raise self._unknown(name) from None

    def has(self, name: str) -> bool:
        """Return whether a value of that name exists."""
        return name in (self._columns[0] if self._columns is not None else self._map())

    def set(self, name: str, value: Any) -> GraphState:
        """Return a state with one value written and its version incremented."""
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
        """Return a state with several values written and their versions incremented."""
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

    # History

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
        """The last decision of each gate: the name of a target, ``"END"``, or a tuple if it may choose several."""
        return MappingProxyType(self._decisions)

    @property
    def terminated(self) -> bool:
        """True once a gate has chosen END, or `mark_terminated` was called."""
        return self._terminated or self._position.stopped

    @property
    def has_chosen_end(self) -> bool:
        """True once a gate has chosen END, which only ends its own path."""
        return self._terminated

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
        """The number of batches of each node that have run."""
        return MappingProxyType(self._position.visits)

    @property
    def digest(self) -> str:
        """The identity of this state: the run's digest, combined with manual changes since then."""
        if self._own_digest is not None:
            return self._own_digest
        return digest_of(located(self), self._ordered_values(), self._ordered_versions(), self._decisions)

    # Staleness

    def is_stale(self, node_name: str, input_names: Iterable[str], own_outputs: Collection[str] = ()) -> bool:
        """Return whether a node needs to run: it never ran, or the version of an input has changed since.

        The node's own outputs do not count (the sole-producer rule): those in its record, and ``own_outputs``.
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
        """Return the current versions of those inputs that exist."""
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
        """Return a state with an execution recorded and one more visit of that node.

        Args:
            node_name: Name of the executed node.
            input_versions: Versions of its inputs when it ran.
            output_version: Version of the output.
            duration_ms: The duration.
            cached: Whether the result came from a cache.
            output_versions: Versions of all outputs by name. ``is_stale`` treats these names as the node's outputs.
            timestamp: When it ran, in seconds since the epoch. Default: now.
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
        """Return a state with a gate's decision recorded; a decision for END makes it ``terminated``.

        It replaces an earlier decision of the gate that no node has consumed. ``decision`` is a target (a node's name,
        ``"END"`` or END itself), a tuple or list of targets, or None, which selects nothing.
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
        """Return a state from which nothing runs. Checkpoints and manual changes keep that."""
        new = self._copy()
        new._position = msgspec.structs.replace(self._position, stopped=True)
        return new

    # Checkpoints

    def to_checkpoint(self) -> bytes:
        """Return this state as bytes, for ``from_checkpoint``.

        Raises:
            EncodeError: A value cannot be stored; the message has its path.
        """
        from clew.state import checkpoint

        return checkpoint.save(self)

    @classmethod
    def from_checkpoint(cls, data: bytes) -> GraphState:
        """Return the state that ``to_checkpoint`` wrote.

        Raises:
            CheckpointError: The data is damaged, has another format, or needs a class that is not registered.
        """
        from clew.state import checkpoint

        return assemble(cls, **checkpoint.load(data))

    # Python protocols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphState):
            return NotImplemented
        return self is other or all(
            equal(mine, theirs) for mine, theirs in zip(self._parts(), other._parts(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        from clew.display import brief

        versions = self._ordered_versions()
        values = self._ordered_values().items()
        shown = [f"{name}={brief(value, 60)} v{versions[name]}" for name, value in values]
        if len(shown) > _SHOWN:
            shown[_SHOWN:] = [f"and {len(shown) - _SHOWN} more"]
        end = ", terminated" if self.terminated else ""
        return f"<GraphState step {self.step}{end}: {', '.join(shown) or 'no values'}>"

    def _repr_html_(self) -> str:
        from clew import display

        versions, values = self._ordered_versions(), self._ordered_values()
        rows = [(display.cell(n), display.cell(versions[n]), display.value_cell(values[n])) for n in values]
        end = ", terminated" if self.terminated else ""
        heading = display.line(f"State after step {self.step}{end}")
        return display.page(heading, display.table(("value", "version", ""), rows))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), *self._parts())

    # Internals

    def _parts(self) -> tuple[Any, ...]:
        # without the digest, which follows from the rest
        position = msgspec.structs.replace(position_of(self), digest="")
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
            assert self._columns is not None  # one of the two representations always exists
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


# For engines


def assemble(
    cls: type[GraphState] = GraphState,
    *,
    values: Mapping[str, Any],
    versions: Mapping[str, int],
    decisions: Mapping[str, Decision],
    terminated: bool,
    position: Position,
    history: History | Callable[[], History],
    digest: Callable[[], str] | None = None,
) -> GraphState:
    """Make a state from its parts. The caller must not change the parts afterwards.

    Args:
        history: The latest execution of each node, or a function that returns it on first use.
        digest: A function that returns the digest of the chain up to here on first use.
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


def position_of(state: GraphState) -> Position:
    """Return the position of a state in its run."""
    touched, position = state._touched, state._position
    if touched is not None and len(touched) != len(position.touched):
        state._position = position = msgspec.structs.replace(position, touched=frozenset(touched))
    return position


def columns_of(state: GraphState) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    """Return the values and the versions of a state, for reading: faster than the views that users get."""
    return state._ordered()


def located(state: GraphState) -> Position:
    """Return the position of a state with its digest, which is computed on first use."""
    if state._chain_digest is not None:
        state._position = msgspec.structs.replace(position_of(state), digest=state._chain_digest())
        state._chain_digest = None
    return position_of(state)


def _restore(cls: type[GraphState], *parts: Any) -> GraphState:
    names = ("values", "versions", "decisions", "terminated", "position", "history")
    return assemble(cls, **dict(zip(names, parts, strict=True)))


def _mapping(value: Any, what: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise StateError(f"{what}: expected a mapping by name, got {value!r}")


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise StateError(f"name of a value, node or gate: expected a string, got {name!r}")
    return str.__str__(name)  # a subclass, such as a StrEnum, would not come back from a checkpoint


def _target(target: Any) -> str:
    # END is defined in clew.graph, which this layer does not import; compare its name.
    return "END" if str(target) == "END" else _name(target)
