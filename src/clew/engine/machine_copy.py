"""Copies of a machine: two runs at the same position that continue independently.

An explorer keeps a copy to return to a run later.

Only the bookkeeping of the machine is copied. Programs, outcomes and values are immutable and shared. The outbox must
be empty, because its entries refer to items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from clew.engine.frame import Batch, Frame, Item, OpenStep
from clew.engine.frontier import Frontier
from clew.engine.machine import Machine
from clew.engine.options import Counters, PriorWork
from clew.engine.overlay import Overlay
from clew.engine.working_state import WorkingState


class CopyMemo:
    """The copies made so far, one per object, so that shared references stay shared."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._originals: list[Any] = []  # keeps ids unique while copying

    def of(self, thing: Any) -> Any:
        """Return the copy of an object, or the object itself if machines do not modify it."""
        copy = _COPIED.get(type(thing))
        if copy is None:
            return thing
        if id(thing) not in self._made:
            self._originals.append(thing)
            copy(self, thing)
        return self._made[id(thing)]

    def mapping(self, part: Any) -> Any:
        """Return a shallow copy of a mapping, list or set."""
        if id(part) not in self._made:
            self._originals.append(part)
            is_branch = type(part) is Overlay
            self.note(part, Overlay(self.mapping(part.origin), part) if is_branch else part.copy())
        return self._made[id(part)]

    def note(self, thing: Any, made: Any) -> Any:
        """Register `made` as the copy of `thing`, before its parts are copied: they may refer back to it."""
        self._made[id(thing)] = made
        return made


def copy_of(machine: Machine) -> tuple[Machine, Callable[[Item], Item]]:
    """Return a copy of a machine, and a function that maps its items to those of the copy."""
    if machine.outbox:
        raise ValueError("cannot copy a machine with a non-empty outbox; drain it first")
    copies = CopyMemo()
    return copies.of(machine), copies.of


_DEEP: Mapping[type, frozenset[str]] = {
    Machine: frozenset({"frontier", "root", "slot", "_prior_work", "counters", "askers"}),
    Frontier: frozenset({"_heap"}),
    Frame: frozenset({"open_steps", "open_lookahead", "owner", "working_state"}),
    OpenStep: frozenset({"frame", "batches", "working_state", "lookahead_state"}),
    Batch: frozenset({"open_step", "frames", "working_state"}),
    Item: frozenset({"batch"}),
    Counters: frozenset(),
}
"""The classes of a machine, and their attributes to copy deeply. Other containers are copied shallowly."""


_UNSET = object()


def _parts(copies: CopyMemo, thing: Any) -> None:
    made = copies.note(thing, object.__new__(type(thing)))
    deep = _DEEP[type(thing)]
    for name in type(thing).__slots__:
        part = getattr(thing, name, _UNSET)
        if part is not _UNSET:
            setattr(made, name, copies.of(part) if name in deep else _own(part))


def _own(part: Any) -> Any:
    return part.copy() if type(part) in (list, dict, set) else part


def _working_state(copies: CopyMemo, working: WorkingState) -> None:
    """Copy a working state; its overlays keep their (copied) origins."""
    made = copies.note(working, WorkingState())
    for name in WorkingState.__slots__:
        part = getattr(working, name)
        setattr(made, name, copies.mapping(part) if type(part) in (dict, list, set, Overlay) else part)


def _prior_work(copies: CopyMemo, prior_work: PriorWork) -> None:
    copies.note(prior_work, msgspec.structs.replace(prior_work, held=set(prior_work.held)))


_COPIED: Mapping[type, Callable[[CopyMemo, Any], None]] = {
    **dict.fromkeys(_DEEP, _parts),
    WorkingState: _working_state,
    PriorWork: _prior_work,
    list: lambda copies, each: copies.note(each, []).extend(map(copies.of, each)),
    dict: lambda copies, each: copies.note(each, {}).update((k, copies.of(v)) for k, v in each.items()),
    tuple: lambda copies, each: copies.note(each, tuple(map(copies.of, each))),
}
