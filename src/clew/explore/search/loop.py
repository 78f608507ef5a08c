"""The search: the loop that takes a world through all its states.

It works on numbers: states and actions are counted in order of discovery and of definition. A *node* is a state
together with what the path to it allows (`Progress`); where no action has `requires` or `max_calls`, nodes are states.

Rules:

- Each action is done once in each state. Another node of that state uses what is known.
- A node is new unless one of the same state allows all that it allows, now and later.
- After an action the world is taken back before the next one, always: that two sights are one state does not mean
  that nothing else differs (a sequence, a file that is not watched), and what comes after must not depend on it.
  Only a state that was just reached for the first time, or just restored, needs no going back.
- Preconditions are asked when a state is first seen, invariants after each action. Both only look.
- What a journal remembers is taken from it as if it had just happened. So after a crash the same decisions are made
  again without touching the world, up to where the journal ends.

What it does not do: shrink, report, or open the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from clew.errors import ClewError, DefinitionError, DivergedError, ExplorationAborted
from clew.explore.model.actions import Progress
from clew.explore.model.identity import WorldObservation
from clew.explore.model.invariants import Invariant, Severity, complaint, judge, told
from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import ID_LENGTH, State, Transition
from clew.explore.model.violations import ViolationKind, ViolationLog
from clew.explore.model.world import World
from clew.explore.search.action_table import ActionTable
from clew.explore.search.checkpoints import CheckpointCache
from clew.explore.search.journal import ActionOutcome, Journal, RecordedViolation
from clew.explore.search.strategies import Strategy

RAISED = -1  # instead of a state: the action raised
PAIR = 32  # bits for the number of the action, where a pair of state and action is one number
NOWHERE = -1  # the world is not exactly at a state

ACTION_SEVERITY = Severity.HIGH


class Search:
    """One exploration while it runs."""

    def __init__(
        self,
        world: World,
        repertoire: ActionTable,
        invariants: list[Invariant],
        strategy: Strategy,
        *,
        max_steps: int | None,
        memory: int | None,
        fail_fast: bool,
        journal: Journal | None,
        tick: Callable[[Search], int],
    ) -> None:
        self.world = world
        self.repertoire = repertoire
        self.fixed = repertoire.fixed
        self.actions = repertoire.actions
        self.rules = repertoire.rules
        self.invariants = invariants
        self.frontier = strategy.start(self.actions)
        self.max_steps = max_steps
        self.fail_fast = fail_fast
        self.journal = journal
        self.tick = tick
        self.graph = StateGraph(self.actions)
        self.findings = ViolationLog()
        self.keeper = CheckpointCache(world, memory, self.frontier.oldest_first)
        self.limited = memory is not None
        self.steps = 0
        self.truncated = False
        self.tried: Counter[int] = Counter()  # by the number of the action
        self.raised: Counter[int] = Counter()
        # states
        self.numbers: dict[bytes, int] = {}
        self.states: list[State] = []
        self.ids: list[str] = []
        self.enabled: list[tuple[int, ...]] = []
        self._alike: dict[
            tuple[int, ...], tuple[int, ...]
        ] = {}  # one tuple for all states that offer the same
        # pair of state and action: the state that it leads to, or RAISED. Where nodes are states, each pair comes once
        self.known: dict[int, int] = {}
        self.left: list[int] = []  # of each state: how many of its actions were not tried yet
        # nodes
        self.node_state: list[int] = []
        self.node_progress: list[Progress] = []
        self.node_parent: list[int] = []
        self.node_action: list[int] = []
        self.nodes_of: list[list[int]] = []
        self.here = NOWHERE
        self.open = 0  # pairs that were handed to the frontier and not back yet

    # -- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Explore until nothing is left, or a limit is reached."""
        self._begin()
        known, node_state, several = self.known, self.node_state, self.rules.matter
        limit = self.max_steps
        wait = self.tick(self)
        for node, action in self.frontier.pairs():
            state = node_state[node] if several else node
            target = known.get(state << PAIR | action) if several else None
            if target is None:
                if (limit is not None and self.steps >= limit) or (self.fail_fast and len(self.findings)):
                    self.truncated = True
                    break
                target = self._try(node, state, action)
                if several:
                    known[state << PAIR | action] = target
                wait -= 1
                if wait <= 0:
                    wait = self.tick(self)
            self.open -= 1
            if several and target >= 0:
                self._arrive(target, node, action)
        self.tick(self)

    def _begin(self) -> None:
        journal = self.journal
        if journal is not None:
            journal.open()
        sight = self._look("")
        if journal is not None:
            journal.sign()
            self._refuse_to_explore_the_store(sight)
        try:
            checkpoint = self.world.hold("initial", sight.digest)
        except ClewError as error:
            raise ExplorationAborted(f"the initial state cannot be kept: {error}") from error
        self.keeper.adopt(0, checkpoint)
        if journal is not None:
            journal.begin(sight.digest)
            journal.cast_anchor(checkpoint, sight)
        self.here = 0
        self._discover(sight, checkpoint.id)
        remembered = journal.initial if journal is not None else None
        if remembered is None:
            troubles = self._judged()
            if journal is not None:
                journal.add_initial(troubles)
        else:
            troubles = remembered
        for trouble in troubles:
            self._note(trouble, None, None)
        self._add_node(0, self.rules.start, -1, -1)

    def _refuse_to_explore_the_store(self, before: WorldObservation) -> None:
        """What is written there would be a change of the world, and be rolled back."""
        after = self._look("")
        if after.digest == before.digest:
            return
        seen = zip(sorted(self.world.systems), before.observations, after.observations)
        changed = [name for name, one, other in seen if (one.digest, one.data) != (other.digest, other.data)]
        what = f"system {changed[0]!r}" if changed else "the world"
        raise DefinitionError(
            f"{what} changed when the journal was written: the store must not lie in what is explored; give another "
            "one (and let nobody else write to what is explored)"
        )

    # -- one pair -------------------------------------------------------------------------------------------

    def _try(self, node: int, state: int, action: int) -> int:
        """Do an action in a state, or take from the journal what it did; the state that it led to."""
        journal = self.journal
        if journal is not None:
            remembered = journal.outcome(self.states[state].digest, self.actions[action].name)
            if remembered is not None:
                return self._recall(remembered, node, state, action)
        if self.here != state:
            self._reach(node, state)
        self.steps += 1
        self.tried[action] += 1
        self.here = NOWHERE
        doing = self.actions[action] if self.fixed else self.repertoire.bound(action, self.world)
        try:
            doing.run(self.world)
        except Exception as error:
            return self._action_raised(error, state, action)
        sight = self._look(doing.name)
        target = self.numbers.get(sight.digest)
        if target is None:
            target = self._find_new(sight, doing.name, node, action)
        self._connect(state, action, target)
        troubles = self._judged() if self.invariants else ()
        for trouble in troubles:
            self._note(trouble, state, action)
        if journal is not None:
            digest = self.states[target].digest
            journal.add(ActionOutcome(self.states[state].digest, doing.name, digest, tuple(troubles)))
        return target

    def _look(self, after: str) -> WorldObservation:
        try:
            return self.world.look()
        except Exception as error:
            when = f"after {after}" if after else "at the start"
            raise ExplorationAborted(f"the world cannot be observed {when}: {told(error)}") from error

    def _connect(self, state: int, action: int, target: int) -> None:
        self.graph.transitions.append(
            Transition(self.ids[state], self.actions[action].name, self.ids[target], self.steps)
        )
        if self.limited:
            self._make_room(state)

    def _make_room(self, state: int) -> None:
        """One action less is to be tried in a state."""
        self.left[state] -= 1
        if not self.left[state]:
            self.keeper.exhausted(state)
        self.keeper.make_room(self.states, state)

    def _action_raised(self, error: Exception, state: int, action: int) -> int:
        doing = self.actions[action]
        self.raised[action] += 1
        if self.limited:
            self._make_room(state)
        kind = ViolationKind("action", doing.name, type(error).__name__)
        trace = None if kind in self.findings.by_kind else _trace(error)
        trouble = RecordedViolation(kind, ACTION_SEVERITY.value, complaint(error), trace)
        self._note(trouble, state, action)
        if self.journal is not None:
            self.journal.add(ActionOutcome(self.states[state].digest, doing.name, None, (trouble,)))
        return RAISED

    def _recall(self, outcome: ActionOutcome, node: int, state: int, action: int) -> int:
        """What the journal says happened, as if it had just happened."""
        self.steps += 1
        self.tried[action] += 1
        for trouble in outcome.troubles:
            self._note(trouble, state, action)
        if outcome.target is None:
            self.raised[action] += 1
            if self.limited:
                self._make_room(state)
            return RAISED
        target = self.numbers.get(outcome.target)
        if target is None:
            assert self.journal is not None
            remembered, names, troubles = self.journal.state(outcome.target)
            target = self._register(remembered, tuple(self.repertoire.number(name) for name in names))
            for trouble in troubles:
                self._note(trouble, state, action)
            if not self.rules.matter:
                self._add_node(target, self.rules.start, node, action)
        self._connect(state, action, target)
        return target

    # -- new states -----------------------------------------------------------------------------------------

    def _find_new(self, sight: WorldObservation, name: str, node: int, action: int) -> int:
        number = len(self.states)
        checkpoint = self.keeper.hold(number, f"after_{name}_{self.steps}", sight.digest)
        self.here = number
        self._discover(sight, checkpoint, node, action)
        if not self.rules.matter:
            self._add_node(number, self.rules.start, node, action)
        return number

    def _discover(
        self, sight: WorldObservation, checkpoint: str | None, node: int = -1, action: int = -1
    ) -> None:
        """A state that was never seen before; the world is in it."""
        state = self.world.state_of(sight, checkpoint)
        enabled, troubles = self._enabled()
        came_from = (None, None) if node < 0 else (self.node_state[node], action)
        for trouble in troubles:
            self._note(trouble, *came_from)
        self._register(state, enabled)
        if self.journal is not None:
            self.journal.add_state(state, [self.actions[action].name for action in enabled], troubles)

    def _register(self, state: State, enabled: tuple[int, ...]) -> int:
        number = len(self.states)
        self.numbers[state.digest] = number
        self.states.append(state)
        self.ids.append(state.id)
        self.enabled.append(self._alike.setdefault(enabled, enabled))
        if self.rules.matter:
            self.nodes_of.append([])
        if self.limited:
            self.left.append(len(enabled))
            self.keeper.count_state(number, state)
        return number

    def _enabled(self) -> tuple[tuple[int, ...], list[RecordedViolation]]:
        """The actions that are possible where the world is."""
        enabled, refused = self.repertoire.offered(self.world)
        troubles = []
        for each in refused:
            kind = ViolationKind("precondition", each.action, type(each.error).__name__)
            troubles.append(
                RecordedViolation(kind, ACTION_SEVERITY.value, complaint(each.error), _trace(each.error))
            )
        return enabled, troubles

    def _judged(self) -> list[RecordedViolation]:
        world, troubles = self.world, []
        for invariant in self.invariants:
            message = judge(invariant, world)
            if message is not None:
                kind = ViolationKind("invariant", invariant.name)
                troubles.append(RecordedViolation(kind, invariant.severity.value, message))
        return troubles

    def _note(self, trouble: RecordedViolation, state: int | None, action: int | None) -> None:
        self.findings.add(
            trouble.kind,
            Severity(trouble.severity),
            trouble.message,
            None if state is None else self.ids[state],
            None if action is None else self.actions[action].name,
            trouble.error,
        )

    # -- nodes ----------------------------------------------------------------------------------------------

    def _arrive(self, state: int, parent: int, action: int) -> None:
        """A state was reached on some path; a new node unless another one allows all that this one does."""
        progress = self.rules.after(action, self.node_progress[parent])
        for other in self.nodes_of[state]:
            if self.rules.covers(self.node_progress[other], progress):
                return
        self._add_node(state, progress, parent, action)

    def _add_node(self, state: int, progress: Progress, parent: int, action: int) -> None:
        node = len(self.node_state)
        self.node_state.append(state)
        self.node_progress.append(progress)
        self.node_parent.append(parent)
        self.node_action.append(action)
        enabled = self.enabled[state]
        if self.rules.matter:
            self.nodes_of[state].append(node)
            enabled = tuple(self.rules.permitted(enabled, progress))
        if enabled:
            self.open += len(enabled)
            self.frontier.add(node, enabled)

    # -- reaching a state -----------------------------------------------------------------------------------

    def _reach(self, node: int, state: int) -> None:
        """Bring the world to a state: by its checkpoint, or by replay from the nearest one."""
        self.here = NOWHERE
        if self.keeper.back(state):
            self.here = state
            return
        trail: list[int] = []
        at = node
        while True:
            if self.node_parent[at] < 0:
                raise ExplorationAborted(
                    f"state {self.ids[state]} cannot be reached: not even the initial checkpoint is valid any more"
                )
            trail.append(at)
            at = self.node_parent[at]
            if self.keeper.back(self.node_state[at]):
                break
        self._replay(trail[::-1])
        self.here = state

    def _replay(self, trail: list[int]) -> None:
        """Do again what led from node to node, verify where it leads, and keep checkpoints on the way.

        Where memory is short only the end is kept. Otherwise all are: others will be reached through them.
        """
        world, end = self.world, trail[-1]
        for node in trail:
            action, state = self.node_action[node], self.node_state[node]
            doing = self.repertoire.bound(action, world)
            try:
                doing.run(world)
            except Exception as error:
                raise DivergedError(self._diverged(trail, node, f"raised {told(error)}")) from error
            if self.limited and node != end:
                continue
            reached = self._look(doing.name).digest
            if reached != self.states[state].digest:
                raise DivergedError(self._diverged(trail, node, f"led to {reached.hex()[:ID_LENGTH]}"))
            if not self.keeper.has(state):
                self.keeper.hold(state, f"again_{self.ids[state]}", reached)

    def _diverged(self, trail: list[int], node: int, what: str) -> str:
        names = ", ".join(
            self.actions[self.node_action[each]].name for each in trail[: trail.index(node) + 1]
        )
        return (
            f"state {self.ids[self.node_state[node]]} was to be reached again by {names}, which {what}; an action "
            "depends on more than the world shows (a clock, a random number, something that is not rolled back)"
        )

    @property
    def progress(self) -> dict[str, Any]:
        """Numbers for whoever watches."""
        return {
            "states": len(self.states),
            "steps": self.steps,
            "open": self.open,
            "violations": len(self.findings),
        }


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error, limit=-6)).rstrip()
