"""A copy of a machine: two runs that stand at the same place and go their own ways from there.

This is how the machine is a value for whoever needs one: `step` copies, tells the copy what happened, and hands back
what it said, so a run that somebody holds never changes. An explorer goes back to a run by keeping it.

What is copied is the machine's own bookkeeping. Programs, outcomes and the values that nodes returned are shared: they
do not change. The outbox has to be empty, since what is in it speaks of items.
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
    """The copies made so far, each thing once: two that were one and the same stay so."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._originals: list[Any] = []  # so that no id is given twice

    def of(self, thing: Any) -> Any:
        """The copy of something; itself, if it is nothing that a machine changes."""
        copy = _COPIED.get(type(thing))
        if copy is None:
            return thing
        if id(thing) not in self._made:
            self._originals.append(thing)
            copy(self, thing)
        return self._made[id(thing)]

    def mapping(self, part: Any) -> Any:
        """The copy of a mapping, list or set of values, which are not copied."""
        if id(part) not in self._made:
            self._originals.append(part)
            is_branch = type(part) is Overlay
            self.note(part, Overlay(self.mapping(part.origin), part) if is_branch else part.copy())
        return self._made[id(part)]

    def note(self, thing: Any, made: Any) -> Any:
        """This is the copy of that, also for what is inside it and points back."""
        self._made[id(thing)] = made
        return made


def copy_of(machine: Machine) -> tuple[Machine, Callable[[Item], Item]]:
    """A machine that stands where this one does, and which item of it stands for an item of this one."""
    if machine.outbox:
        raise ValueError("a machine is copied when it has nothing left to say")
    copies = CopyMemo()
    return copies.of(machine), copies.of


_DEEP: Mapping[type, frozenset[str]] = {
    Machine: frozenset({"frontier", "root", "slot", "_prior_work", "counters"}),
    Frontier: frozenset({"_heap"}),
    Frame: frozenset({"open_steps", "open_lookahead", "owner", "working_state"}),
    OpenStep: frozenset({"frame", "batches", "working_state", "lookahead_state"}),
    Batch: frozenset({"open_step", "frames", "working_state"}),
    Item: frozenset({"batch"}),
    Counters: frozenset(),
}
"""What the machine is made of, and which parts hold more of it. Other containers are copied, all else is shared."""


def _parts(copies: CopyMemo, thing: Any) -> None:
    made = copies.note(thing, object.__new__(type(thing)))
    deep = _DEEP[type(thing)]
    for name in type(thing).__slots__:
        part = getattr(thing, name)
        setattr(made, name, copies.of(part) if name in deep else _own(part))


def _own(part: Any) -> Any:
    return part.copy() if type(part) in (list, dict, set) else part


def _working_state(copies: CopyMemo, working: WorkingState) -> None:
    """A view shares what it was branched from, so its mappings keep their origins."""
    made = copies.note(working, WorkingState())
    for name in WorkingState.__slots__:
        part = getattr(working, name)
        setattr(made, name, copies.mapping(part) if type(part) in (dict, list, set, Overlay) else part)


def _list(copies: CopyMemo, things: list[Any]) -> None:
    copies.note(things, []).extend(map(copies.of, things))


def _dict(copies: CopyMemo, things: dict[Any, Any]) -> None:
    copies.note(things, {}).update((key, copies.of(thing)) for key, thing in things.items())


def _tuple(copies: CopyMemo, things: tuple[Any, ...]) -> None:
    copies.note(things, tuple(map(copies.of, things)))


def _prior_work(copies: CopyMemo, prior_work: PriorWork) -> None:
    copies.note(prior_work, msgspec.structs.replace(prior_work, held=set(prior_work.held)))


_COPIED: Mapping[type, Callable[[CopyMemo, Any], None]] = {
    **dict.fromkeys(_DEEP, _parts),
    WorkingState: _working_state,
    PriorWork: _prior_work,
    list: _list,
    dict: _dict,
    tuple: _tuple,
}
