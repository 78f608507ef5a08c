"""The action table: all known actions by number, and which of them are enabled in a state.

Actions are given as a list, or as a function of the world that returns the actions of its current state. The function
is for worlds whose actions are not known beforehand. A name stands for one action everywhere. `requires` and
`max_calls` need the complete list, so actions from a function cannot have them.

An exploration that is resumed knows the names in its journal before it knows the actions. Such a name is bound to its
action when the world offers it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from clew.error_text import line_of
from clew.errors import DefinitionError, ExplorationAborted
from clew.explore.model.actions import Action, PathRules

if TYPE_CHECKING:
    from clew.explore.model.world import World

Offer = Callable[["World"], Iterable[Action]]


class FailedPrecondition(msgspec.Struct, frozen=True):
    """A precondition that raised."""

    action: str
    error: Exception


class ActionTable:
    """All known actions, in the order in which they became known."""

    def __init__(self, actions: Iterable[Action] | Offer) -> None:
        self._offer: Offer | None = actions if callable(actions) else None
        if not callable(actions) and not isinstance(actions, Iterable):
            raise DefinitionError(
                f"actions must be a list of Action(name, run) or a function that takes the world, got {actions!r}"
            )
        self.actions: list[Action] = [] if callable(actions) else list(actions)
        for action in self.actions:
            _check(action)
        self.rules = PathRules(self.actions)
        self.numbers = {action.name: number for number, action in enumerate(self.actions)}
        self._guarded = [
            (number, action.precondition) for number, action in enumerate(self.actions) if action.precondition
        ]

    @property
    def fixed(self) -> bool:
        """Return whether all actions are known beforehand."""
        return self._offer is None

    def number(self, name: str) -> int:
        """Return the number of a name. An unknown name gets a number, and is bound to its action later."""
        known = self.numbers.get(name)
        return self._add(Action(name, _unbound)) if known is None else known

    def _add(self, action: Action) -> int:
        number = self.numbers[action.name] = len(self.actions)
        self.actions.append(action)
        return number

    def enabled(self, world: World) -> tuple[tuple[int, ...], list[FailedPrecondition]]:
        """Return the actions that are possible in the current state, and the preconditions that raised."""
        if self._offer is not None:
            return self._enabled_of(self._offer, world)
        failed: list[FailedPrecondition] = []
        disabled = set()
        for number, precondition in self._guarded:
            try:
                if not precondition(world):
                    disabled.add(number)
            except Exception as error:
                disabled.add(number)
                failed.append(FailedPrecondition(self.actions[number].name, error))
        return tuple(number for number in range(len(self.actions)) if number not in disabled), failed

    def _enabled_of(self, offer: Offer, world: World) -> tuple[tuple[int, ...], list[FailedPrecondition]]:
        enabled: dict[int, None] = {}
        failed: list[FailedPrecondition] = []
        for action in _listed(offer, world):
            _check(action)
            if action.requires or action.max_calls is not None:
                raise DefinitionError(
                    f"action {action.name!r} comes from a function, so it cannot have requires or max_calls; pass a "
                    "list of actions to use them"
                )
            number = self.number(action.name)
            if self.actions[number].run is _unbound:
                self.actions[number] = action
            try:
                if action.precondition is None or action.precondition(world):
                    enabled[number] = None
            except Exception as error:
                failed.append(FailedPrecondition(action.name, error))
        return tuple(enabled), failed

    def is_enabled(self, number: int, world: World) -> bool:
        """Return whether an action is possible in the current state."""
        if self._offer is not None:
            return number in self.enabled(world)[0]
        precondition = self.actions[number].precondition
        try:
            return precondition is None or bool(precondition(world))
        except Exception:
            return False

    def bound(self, number: int, world: World) -> Action:
        """Return an action that the current state offers, and bind it if only its name was known."""
        if self.actions[number].run is _unbound:
            self.enabled(world)
        return self.actions[number]


def _listed(offer: Offer, world: World) -> list[Action]:
    try:
        return list(offer(world))
    except Exception as error:
        raise ExplorationAborted(f"the function that returns the actions failed: {line_of(error)}") from error


def _check(action: Any) -> None:
    if not isinstance(action, Action):
        raise DefinitionError(f"expected an Action, got {action!r}; write Action(name, run)")


def _unbound(world: World) -> NoReturn:
    raise DefinitionError("the world no longer offers an action that its journal contains; use a new store")
