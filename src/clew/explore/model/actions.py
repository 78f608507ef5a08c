"""Actions: what may be done to a world, and when.

Rules:

- `run(world)` and `precondition(world)` take the world. A precondition only looks: it is asked once for each state.
- `requires` and `max_calls` speak of the path that led here, not of the exploration as a whole: an action that
  requires `login` may run only where `login` is on the way from the initial state.
- Two paths to one state may therefore allow different actions there. What of the past still matters is the
  `Progress` of a path: which required actions it has, and how often those with `max_calls` ran. The explorer
  searches pairs of state and progress, so no state is missed; it runs each action only once in each state, since
  what an action does depends on the state alone.

`reads` and `writes` say what an action touches. They are kept for reduction of equal orders, and not used yet.
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

Progress = tuple[
    int, ...
]  # for each action that matters: how often it ran, counted no further than it matters


class Action(msgspec.Struct, frozen=True, eq=False):
    """Something that can be done to a world.

    Args:
        name: What it is called in paths and reports; unique in an exploration.
        run: Does it. What it returns is ignored; an exception is a violation.
        precondition: Whether it can be done in the state that the world is in.
        requires: Names of actions that must be on the path before it.
        reads: What it looks at (not used yet).
        writes: What it changes (not used yet).
        max_calls: How often it may be on one path.
        weight: How likely `Weighted` picks it, compared to others.
    """

    name: str
    run: Callable[[World], Any]
    precondition: Callable[[World], Any] | None = None
    requires: Sequence[str] = ()
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    max_calls: int | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name:
            raise DefinitionError(f"the name of an action is a text, not {self.name!r}")
        check_function(self.run, f"action {self.name!r}: run")
        if self.precondition is not None:
            check_function(self.precondition, f"action {self.name!r}: precondition")
        requires: Any = self.requires
        if isinstance(requires, str):
            raise DefinitionError(f"action {self.name!r}: requires is a list of names, not one text")
        if not isinstance(requires, Iterable) or any(type(each) is not str for each in requires):
            raise DefinitionError(f"action {self.name!r}: requires is a list of names, not {self.requires!r}")
        if self.max_calls is not None and (type(self.max_calls) is not int or self.max_calls < 1):
            raise DefinitionError(
                f"action {self.name!r}: max_calls is a number from 1, not {self.max_calls!r}"
            )
        if type(self.weight) not in (int, float) or not 0 < self.weight < inf:
            raise DefinitionError(f"action {self.name!r}: weight is a number above 0, not {self.weight!r}")


def check_function(function: Any, what: str) -> None:
    """DefinitionError unless it can be called with the world, and does its work when it is."""
    if not callable(function):
        raise DefinitionError(f"{what} is a function of the world, not {function!r}")
    for kind, is_one, way in _LATER:
        if is_one(function) or is_one(type(function).__call__):
            raise DefinitionError(
                f"{what} is a {kind} function, which would do nothing when it is called; {way}"
            )


_LATER: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (
        "coroutine",
        iscoroutinefunction,
        "run it to its end inside a plain function (asyncio.run, or a loop of your own)",
    ),
    ("generator", isgeneratorfunction, "let it do its work and return"),
)


class PathRules:
    """What `requires` and `max_calls` allow after a path, and what of a path has to be remembered for that."""

    def __init__(self, actions: Sequence[Action]) -> None:
        index = {action.name: number for number, action in enumerate(actions)}
        if len(index) < len(actions):
            twice = next(a.name for n, a in enumerate(actions) if index[a.name] != n)
            raise DefinitionError(f"two actions are called {twice!r}; give each a name of its own")
        unknown = [(a.name, name) for a in actions for name in a.requires if name not in index]
        if unknown:
            raise DefinitionError(
                f"action {unknown[0][0]!r} requires {unknown[0][1]!r}, and there is no such action"
            )
        required = {index[name] for action in actions for name in action.requires}
        limited = {number for number, action in enumerate(actions) if action.max_calls is not None}
        remembered = sorted(required | limited)
        self.slot = {number: slot for slot, number in enumerate(remembered)}
        self.start: Progress = (0,) * len(remembered)
        # counting beyond these changes nothing: one call fulfils `requires`
        self._caps = [actions[number].max_calls or 1 for number in remembered]
        self._required = [number in required for number in remembered]
        self._limited = [number in limited for number in remembered]
        self._needs = [tuple(self.slot[index[name]] for name in dict.fromkeys(a.requires)) for a in actions]
        self._limits = [
            (self.slot[number], action.max_calls) if action.max_calls is not None else None
            for number, action in enumerate(actions)
        ]

    @property
    def matter(self) -> bool:
        """Whether any action depends on the path."""
        return bool(self.start)

    def allows(self, action: int, progress: Progress) -> bool:
        """Whether the path permits an action."""
        if action >= len(self._needs):  # became known later, and depends on no path
            return True
        limit = self._limits[action]
        if limit is not None and progress[limit[0]] >= limit[1]:
            return False
        return all(progress[slot] for slot in self._needs[action])

    def after(self, action: int, progress: Progress) -> Progress:
        """The progress of the path with that action at its end."""
        slot = self.slot.get(action)
        if slot is None or progress[slot] >= self._caps[slot]:
            return progress
        return progress[:slot] + (progress[slot] + 1,) + progress[slot + 1 :]

    def covers(self, one: Progress, other: Progress) -> bool:
        """Whether whatever is allowed after `other`, now or later, is also allowed after `one`."""
        for slot, (a, b) in enumerate(zip(one, other)):
            if self._limited[slot] and a > b:
                return False
            if self._required[slot] and b and not a:
                return False
        return True

    def permitted(self, actions: Iterable[int], progress: Progress) -> list[int]:
        """Those of the actions that the path permits."""
        return [action for action in actions if self.allows(action, progress)]
