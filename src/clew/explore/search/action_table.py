"""The repertoire: which actions there are, by number, and which of them a state offers.

Actions are given as a list; or as a function of the world that returns those that its present state offers, for worlds
whose choices are not known beforehand. One name is one action: what it does depends on the world alone, wherever it
was offered. `requires` and `max_calls` need the whole list, so actions of a function cannot have them.

After a restart the names that a journal remembers are known before the actions are: such a name is bound to its
action when the world offers it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from clew.errors import DefinitionError, ExplorationAborted
from clew.explore.model.actions import Action, PathRules
from clew.explore.model.invariants import told

if TYPE_CHECKING:
    from clew.explore.model.world import World

Offer = Callable[["World"], Iterable[Action]]


class FailedPrecondition(msgspec.Struct, frozen=True):
    """A precondition that raised."""

    action: str
    error: Exception


class ActionTable:
    """All actions that are known, in the order in which they became known."""

    def __init__(self, actions: Iterable[Action] | Offer) -> None:
        self._offer: Offer | None = actions if callable(actions) else None
        if not callable(actions) and not isinstance(actions, Iterable):
            raise DefinitionError(
                f"actions are a list of Action(name, run), or a function of the world, not {actions!r}"
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
        """Whether all actions are known beforehand."""
        return self._offer is None

    def number(self, name: str) -> int:
        """The number of a name; a name that was never seen is bound to its action later."""
        known = self.numbers.get(name)
        return self._add(Action(name, _unbound)) if known is None else known

    def _add(self, action: Action) -> int:
        number = self.numbers[action.name] = len(self.actions)
        self.actions.append(action)
        return number

    def offered(self, world: World) -> tuple[tuple[int, ...], list[FailedPrecondition]]:
        """The actions that are possible in the state that the world is in, and preconditions that raised."""
        if self._offer is not None:
            return self._of_world(world, self._offer)
        refused: list[FailedPrecondition] = []
        closed = set()
        for number, precondition in self._guarded:
            try:
                if not precondition(world):
                    closed.add(number)
            except Exception as error:
                closed.add(number)
                refused.append(FailedPrecondition(self.actions[number].name, error))
        return tuple(number for number in range(len(self.actions)) if number not in closed), refused

    def _of_world(self, world: World, offer: Offer) -> tuple[tuple[int, ...], list[FailedPrecondition]]:
        found: dict[int, None] = {}
        refused: list[FailedPrecondition] = []
        for action in _listed(offer, world):
            _check(action)
            if action.requires or action.max_calls is not None:
                raise DefinitionError(
                    f"action {action.name!r} is offered by a function, so it cannot have requires or max_calls"
                )
            number = self.number(action.name)
            if self.actions[number].run is _unbound:
                self.actions[number] = action
            try:
                if action.precondition is None or action.precondition(world):
                    found[number] = None
            except Exception as error:
                refused.append(FailedPrecondition(action.name, error))
        return tuple(found), refused

    def possible(self, number: int, world: World) -> bool:
        """Whether an action is possible where the world is."""
        if self._offer is not None:
            return number in self.offered(world)[0]
        precondition = self.actions[number].precondition
        try:
            return precondition is None or bool(precondition(world))
        except Exception:
            return False

    def bound(self, number: int, world: World) -> Action:
        """An action that the state offers which the world is in, and whose name may be all that is known of it."""
        if self.actions[number].run is _unbound:
            self.offered(world)
        return self.actions[number]


def _listed(offer: Offer, world: World) -> list[Action]:
    try:
        return list(offer(world))
    except Exception as error:
        raise ExplorationAborted(f"the function that offers actions failed: {told(error)}") from error


def _check(action: Any) -> None:
    if not isinstance(action, Action):
        raise DefinitionError(f"actions are Action(name, run), not {action!r}")


def _unbound(world: World) -> NoReturn:
    raise DefinitionError("an action that a journal remembers is not offered by the world any more")
