"""Actions: operations on a world, and the rules for when they may run.

Rules:

- `run(world)` and `precondition(world)` take the world. A precondition must not change anything; it is called once in
  each state.
- `requires` and `max_calls` refer to the path from the initial state to the current one. An action that requires
  `login` may run only if `login` is on that path.
- Two paths to one state may therefore allow different actions. The `Progress` of a path holds what matters for that:
  which required actions it contains, and how often it contains actions with `max_calls`. The explorer searches pairs of
  state and progress, so it misses no state. It runs each action only once in each state, because the effect of an
  action depends on the state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import iscoroutinefunction, isgeneratorfunction
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import DefinitionError

if TYPE_CHECKING:
    from clew.explore.model.world import World

# for each action that other rules depend on: how often it ran, up to the largest count that makes a difference
Progress = tuple[int, ...]


class Action(msgspec.Struct, frozen=True, eq=False):
    """An operation on a world.

    Args:
        name: Name in paths and reports; unique in an exploration.
        run: Performs the action. An exception is a violation, and so is each `Finding` that it returns, alone or in a
            list. Other return values are ignored.
        precondition: Returns whether the action is possible in the current state.
        requires: Names of actions that must come before this one on the path.
        max_calls: Maximum number of occurrences on one path.
        weight: Relative probability that `Weighted` picks this action.
        probe: The action is judged and undone: it leads to no state.
    """

    name: str
    run: Callable[[World], Any]
    precondition: Callable[[World], Any] | None = None
    requires: Sequence[str] = ()
    max_calls: int | None = None
    weight: float = 1.0
    probe: bool = False

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise DefinitionError(f"the name of an action must be a non-empty string, got {self.name!r}")
        check_function(self.run, f"action {self.name!r}: run")
        if self.precondition is not None:
            check_function(self.precondition, f"action {self.name!r}: precondition")
        requires: Any = self.requires
        if isinstance(requires, str):
            raise DefinitionError(
                f"action {self.name!r}: requires must be a list of names, got a string; write [{requires!r}]"
            )
        if not isinstance(requires, Iterable) or any(type(each) is not str for each in requires):
            raise DefinitionError(
                f"action {self.name!r}: requires must be a list of names, got {self.requires!r}"
            )
        if self.max_calls is not None and (type(self.max_calls) is not int or self.max_calls < 1):
            raise DefinitionError(
                f"action {self.name!r}: max_calls must be an int >= 1 or None, got {self.max_calls!r}"
            )
        if type(self.weight) not in (int, float) or not 0 < self.weight < inf:
            raise DefinitionError(
                f"action {self.name!r}: weight must be a finite number > 0, got {self.weight!r}"
            )


def check_function(function: Any, what: str) -> None:
    """Raise DefinitionError unless `function` is callable and runs to completion when it is called."""
    if not callable(function):
        raise DefinitionError(f"{what} must be a function that takes the world, got {function!r}")
    for kind, is_kind, advice in _DEFERRED:
        if is_kind(function) or is_kind(type(function).__call__):
            raise DefinitionError(
                f"{what} is a {kind} function, and calling it runs none of its code; {advice}"
            )


_DEFERRED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("coroutine", iscoroutinefunction, "run it inside a plain function, for example with asyncio.run"),
    ("generator", isgeneratorfunction, "do the work in a plain function without yield"),
)


def _index_of(actions: Sequence[Action]) -> dict[str, int]:
    """Return the number of each action by its name."""
    index = {action.name: number for number, action in enumerate(actions)}
    for number, action in enumerate(actions):
        if index[action.name] != number:
            raise DefinitionError(f"two actions are called {action.name!r}; give each a unique name")
        for name in action.requires:
            if name not in index:
                raise DefinitionError(
                    f"action {action.name!r} requires {name!r}, which is not one of the actions"
                )
    return index


class PathRules:
    """The rules of `requires` and `max_calls`: which actions a path allows, and the progress to record for that."""

    def __init__(self, actions: Sequence[Action]) -> None:
        index = _index_of(actions)
        required = {index[name] for action in actions for name in action.requires}
        limited = {number for number, action in enumerate(actions) if action.max_calls is not None}
        counted = sorted(required | limited)
        self.slot = {number: slot for slot, number in enumerate(counted)}
        self.start: Progress = (0,) * len(counted)
        # higher counts make no difference: one call is enough for `requires`
        self._caps = [actions[number].max_calls or 1 for number in counted]
        self._required = [number in required for number in counted]
        self._limited = [number in limited for number in counted]
        self._needs = [tuple(self.slot[index[name]] for name in dict.fromkeys(a.requires)) for a in actions]
        self._limits = [
            (self.slot[number], action.max_calls) if action.max_calls is not None else None
            for number, action in enumerate(actions)
        ]

    @property
    def matter(self) -> bool:
        """Return whether any action depends on the path."""
        return bool(self.start)

    def allows(self, action: int, progress: Progress) -> bool:
        """Return whether a path permits an action."""
        if action >= len(self._needs):  # offered by a function, so it does not depend on the path
            return True
        limit = self._limits[action]
        if limit is not None and progress[limit[0]] >= limit[1]:
            return False
        return all(progress[slot] for slot in self._needs[action])

    def after(self, action: int, progress: Progress) -> Progress:
        """Return the progress of a path that is extended by an action."""
        slot = self.slot.get(action)
        if slot is None or progress[slot] >= self._caps[slot]:
            return progress
        return progress[:slot] + (progress[slot] + 1,) + progress[slot + 1 :]

    def covers(self, one: Progress, other: Progress) -> bool:
        """Return whether `one` allows every continuation that `other` allows."""
        for slot, (a, b) in enumerate(zip(one, other)):
            if self._limited[slot] and a > b:
                return False
            if self._required[slot] and b and not a:
                return False
        return True

    def permitted(self, actions: Iterable[int], progress: Progress) -> list[int]:
        """Return those actions that a path permits."""
        return [action for action in actions if self.allows(action, progress)]
