"""The graph of states: what was found, and the shortest way to it.

Rules:

- A state is there once, however often it was reached: `add_state` returns the one that was there before.
- A path is a list of transitions from the initial state. It is a shortest one among all transitions known, and keeps
  to `requires` and `max_calls`.

Paths are looked for when somebody asks; adding only adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.explore.model.actions import Action, PathRules, Progress
from clew.explore.model.states import ID_LENGTH, State, Transition


class PathStep(msgspec.Struct, frozen=True, gc=False):
    """Where a shortest path stands: the state, what the path allows, and the step and transition before."""

    state_id: str
    progress: Progress
    before: PathStep | None = None
    transition: Transition | None = None

    def path(self) -> list[Transition]:
        """The transitions that lead here."""
        found: list[Transition] = []
        step: PathStep | None = self
        while step is not None and step.transition is not None:
            found.append(step.transition)
            step = step.before
        return found[::-1]


class StateGraph:
    """States and the transitions between them."""

    def __init__(self, actions: Iterable[Action] = ()) -> None:
        self.actions: dict[str, Action] = {action.name: action for action in actions}
        self.states: dict[str, State] = {}
        self.transitions: list[Transition] = []
        self.initial_id: str | None = None
        self._rules = PathRules(list(self.actions.values()))
        self._numbers = {name: number for number, name in enumerate(self.actions)}
        self._leaving: dict[str, list[Transition]] = {}
        self._sorted = 0  # so many transitions are in _leaving
        self._found: dict[str, PathStep] = {}
        self._found_in = -1  # among so many transitions

    def add_state(self, state: State) -> State:
        """Add a state; the one that was there if it is known. The first is the initial one."""
        known = self.states.setdefault(state.id, state)
        if known.digest != state.digest:  # the printed id is too short for once
            known = self.states.setdefault(state.digest.hex(), state)
        if self.initial_id is None:
            self.initial_id = state.id
        return known

    def add_action(self, action: Action) -> None:
        """Add an action that became known later."""
        if action.name not in self._numbers:
            self._numbers[action.name] = len(self._numbers)
        self.actions[action.name] = action

    def add_transition(self, transition: Transition) -> None:
        """Add a transition between states that are there."""
        self.transitions.append(transition)

    def get_state(self, state_id: str) -> State | None:
        """The state of that id (16 digits, or all of them), or None."""
        found = self.states.get(state_id)
        if found is None and len(state_id) > ID_LENGTH:
            found = self.states.get(state_id[:ID_LENGTH])
            if found is not None and found.digest.hex() != state_id:
                return None
        return found

    def get_action(self, name: str) -> Action | None:
        """The action of that name, or None."""
        return self.actions.get(name)

    def get_path_to(self, state_id: str) -> list[Transition]:
        """A shortest path from the initial state; KeyError if the state is not there, or not reached."""
        if self.get_state(state_id) is None:
            raise KeyError(f"there is no state {state_id}")
        step = self._nearest().get(state_id if state_id in self.states else state_id[:ID_LENGTH])
        if step is None:
            raise KeyError(f"no path to state {state_id} is known")
        return step.path()

    def _nearest(self) -> dict[str, PathStep]:
        """The end of a shortest path to each state, looked for again when transitions were added."""
        if self._found_in != len(self.transitions):
            self._found = {}
            for step in self.walk():
                self._found.setdefault(step.state_id, step)
            self._found_in = len(self.transitions)
        return self._found

    def leaving(self, state_id: str) -> list[Transition]:
        """The transitions that leave a state and lead to one."""
        leaving, transitions = self._leaving, self.transitions
        for position in range(self._sorted, len(transitions)):
            transition = transitions[position]
            if transition.to_state_id is not None:
                leaving.setdefault(transition.from_state_id, []).append(transition)
        self._sorted = len(transitions)
        return leaving.get(state_id, [])

    def walk(self) -> Iterator[PathStep]:
        """Breadth first through what is known: states with what their paths allow, the nearest first.

        A path is left out where one to the same state that is not longer allows all that it allows.
        """
        if self.initial_id is None:
            return
        rules, numbers = self._rules, self._numbers
        level = [PathStep(self.initial_id, rules.start)]
        seen: dict[str, list[Progress]] = {self.initial_id: [rules.start]}
        while level:
            below: list[PathStep] = []
            for step in level:
                yield step
                for transition in self.leaving(step.state_id):
                    progress = step.progress
                    if rules.matter:
                        action = numbers[transition.action_name]
                        if not rules.allows(action, progress):
                            continue
                        progress = rules.after(action, progress)
                    assert transition.to_state_id is not None
                    others = seen.setdefault(transition.to_state_id, [])
                    if not any(rules.covers(other, progress) for other in others):
                        others.append(progress)
                        below.append(PathStep(transition.to_state_id, progress, step, transition))
            level = below

    def allows(self, action_name: str, progress: Progress) -> bool:
        """Whether a path with that progress permits an action."""
        return self._rules.allows(self._numbers[action_name], progress)

    def __repr__(self) -> str:
        return f"StateGraph({len(self.states)} states, {len(self.transitions)} transitions)"
