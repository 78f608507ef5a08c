"""Clew's engine and drivers as a system of the explorer: which event a driver meets next is the explorer's choice.

A driver's stack cannot be copied, so a state is reached by executing its path from the beginning (`path`), and a
checkpoint is the path.

Two paths lead to the same state only if they meet where no process lives, or its engine is between two runs and
nothing of the last one goes on: then all that is left of the past is on the disk, outside, and in what the engine
remembers, and all of it is part of the state. In between, a state is its path since then. So nothing is merged that
could differ.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.explore import Action, Agent, Invariant, World
from clew.explore.model.system import Observation
from clew.state import encode
from tests.explore.checking.driving.case import Case
from tests.explore.checking.driving.path import Path
from tests.explore.checking.driving.removing import Removal


class Seen(msgspec.Struct, frozen=True):
    """Where a path has led."""

    choices: tuple[str, ...]
    options: tuple[str, ...]  # how it may go on
    sight: bytes  # what tells this state from others
    violation: str
    end: str  # the digest of the chain, if the run has completed


class DriverSystem:
    """A case as a system: its state is the path that led to it."""

    ordering: Literal["any"] = "any"

    def __init__(self, case: Case) -> None:
        self._case = case
        self._kind = Removal if case.begins[0] in ("delete", "prune") else Path
        self._expected = self._kind(case, (), is_quiet=True).execute().digest
        self.ends: set[str] = set()
        self.now = self._seen(())

    def _seen(self, choices: tuple[str, ...]) -> Seen:
        path = self._kind(self._case, choices, self._expected).execute()
        if path.digest:
            self.ends.add(path.digest)
        return Seen(choices, tuple(path.options), encode(path.sight), path.witness.violation, path.digest)

    def choose(self, choice: str) -> None:
        self.now = self._seen((*self.now.choices, choice))

    def observe(self) -> Observation:
        return Observation("run", self.now.sight)

    def checkpoint(self, name: str) -> Seen:
        return self.now

    def rollback(self, token: Seen) -> None:
        self.now = token

    def is_valid(self, token: Seen) -> bool:
        return True

    def release(self, token: Seen) -> None:
        pass


class Explored(msgspec.Struct, frozen=True):
    """All paths of a case."""

    states: int
    transitions: int
    ends: frozenset[str]  # the digests of the chains that they end with
    choices: frozenset[str]  # all that were made
    violation: str  # the first violation, and the path to it


def explore(case: Case, *, fail_fast: bool = False) -> Explored:
    """Go all paths of a case; or as far as the first violation."""
    system = DriverSystem(case)
    world = World(systems={"run": system})

    def offer(world: World) -> list[Action]:
        return [_action(choice) for choice in system.now.options]

    right = Invariant("right", lambda world: not system.now.violation or system.now.violation)
    found = Agent(world, offer, [right], progress=False, fail_fast=fail_fast).explore()
    assert found.ok or found.violations
    told = [f"{each.message}\n  {'; '.join(each.actions)}" for each in found.violations]
    made = frozenset(transition.action_name for transition in found.transitions)
    ends = frozenset(system.ends)
    return Explored(len(found.graph.states), len(found.transitions), ends, made, "\n".join(told))


def _action(choice: str) -> Action:
    return Action(choice, lambda world: world.systems["run"].choose(choice))
