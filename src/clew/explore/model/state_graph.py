"""The state graph: all states and transitions that were found, and shortest paths through them.

Rules:

- The graph holds each state once. `add_state` returns the existing object if the state is known.
- A path is a list of transitions from the initial state. It is a shortest path among all known transitions that
  respects `requires` and `max_calls`.

Paths are computed on request; adding a state or a transition is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clew.explore.model.actions import Action, PathRules, Progress
from clew.explore.model.states import ID_LENGTH, State, Transition


class PathStep(msgspec.Struct, frozen=True, gc=False):
    """A position on a shortest path: the state, the progress of the path, and the step and transition before it."""

    state_id: str
    progress: Progress
    before: PathStep | None = None
    transition: Transition | None = None

    def path(self) -> list[Transition]:
        """Return the transitions from the initial state to this step."""
        path: list[Transition] = []
        step: PathStep | None = self
        while step is not None and step.transition is not None:
            path.append(step.transition)
            step = step.before
        return path[::-1]


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
        self._indexed = 0  # number of transitions in _leaving
        self._nearest_steps: dict[str, PathStep] = {}
        self._nearest_count = -1  # number of transitions that _nearest_steps was computed from

    def add_state(self, state: State) -> State:
        """Add a state and return it, or the equal one that the graph already holds. The first is the initial state."""
        known = self.states.setdefault(state.id, state)
        if known.digest != state.digest:  # two digests share their first 16 digits
            known = self.states.setdefault(state.digest.hex(), state)
        if self.initial_id is None:
            self.initial_id = state.id
        return known

    def add_action(self, action: Action) -> None:
        """Add an action that was not known when the graph was created, or replace it."""
        if action.name not in self._numbers:
            self._numbers[action.name] = len(self._numbers)
        self.actions[action.name] = action

    def get_state(self, state_id: str) -> State | None:
        """Return the state with an id of 16 or of all 64 digits, or None."""
        found = self.states.get(state_id)
        if found is None and len(state_id) > ID_LENGTH:
            found = self.states.get(state_id[:ID_LENGTH])
            if found is not None and found.digest.hex() != state_id:
                return None
        return found

    def get_action(self, name: str) -> Action | None:
        """Return the action of a name, or None."""
        return self.actions.get(name)

    def get_path_to(self, state_id: str) -> list[Transition]:
        """Return a shortest path from the initial state. Raise KeyError if the state is unknown or not reachable."""
        if self.get_state(state_id) is None:
            raise KeyError(f"unknown state {state_id}")
        step = self._nearest().get(state_id if state_id in self.states else state_id[:ID_LENGTH])
        if step is None:
            raise KeyError(f"no path to state {state_id} is known")
        return step.path()

    def _nearest(self) -> dict[str, PathStep]:
        """Return the last step of a shortest path to each state."""
        if self._nearest_count != len(self.transitions):
            self._nearest_steps = {}
            for step in self.walk():
                self._nearest_steps.setdefault(step.state_id, step)
            self._nearest_count = len(self.transitions)
        return self._nearest_steps

    def leaving(self, state_id: str) -> list[Transition]:
        """Return the transitions that start in a state, without actions that raised."""
        leaving, transitions = self._leaving, self.transitions
        for position in range(self._indexed, len(transitions)):
            transition = transitions[position]
            if transition.to_state_id is not None:
                leaving.setdefault(transition.from_state_id, []).append(transition)
        self._indexed = len(transitions)
        return leaving.get(state_id, [])

    def walk(self) -> Iterator[PathStep]:
        """Yield states with the progress of their paths, breadth first.

        A path is skipped if a path to the same state that is not longer allows everything that it allows.
        """
        if self.initial_id is None:
            return
        rules, numbers = self._rules, self._numbers
        layer = [PathStep(self.initial_id, rules.start)]
        seen: dict[str, list[Progress]] = {self.initial_id: [rules.start]}
        while layer:
            next_layer: list[PathStep] = []
            for step in layer:
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
                        next_layer.append(PathStep(transition.to_state_id, progress, step, transition))
            layer = next_layer

    def allows(self, action_name: str, progress: Progress) -> bool:
        """Return whether a path with this progress permits an action."""
        return self._rules.allows(self._numbers[action_name], progress)

    def __repr__(self) -> str:
        return f"StateGraph({len(self.states)} states, {len(self.transitions)} transitions)"
