"""The search loop: take a world through all of its states.

States and actions are numbered in order of discovery and of definition. A *node* is a state together with what the path
to it allows (`Progress`). If no action has `requires` or `max_calls`, nodes and states are the same.

Rules:

- Each action runs once in each state. Another node of the same state uses the known result.
- A node is new unless an existing node of the same state allows everything that it allows.
- The world is always rolled back before the next action, even if the state did not change: parts that are not observed
  (a sequence, an unwatched file) may have changed, and must not influence the next action. Only a state that was just
  found or just restored needs no rollback.
- Preconditions are checked when a state is found, invariants after each action. Neither may change the world.
- A probe is judged and undone: its transition leads back to the state in which it ran.
- A result in the journal is used as if the action had just run. After a crash the search therefore makes the same
  decisions again, without touching the world, until the journal ends.

Shrinking, reports and opening the journal are done elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from clew.error_text import line_of
from clew.errors import ClewError, DefinitionError, DivergedError, ExplorationAborted
from clew.explore.model.actions import Progress
from clew.explore.model.identity import WorldObservation
from clew.explore.model.invariants import Invariant, Severity, error_message, failure_of
from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import ID_LENGTH, State, Transition
from clew.explore.model.violations import RecordedViolation, ViolationKind, ViolationLog, recorded_findings
from clew.explore.model.world import World
from clew.explore.search.action_table import ActionTable
from clew.explore.search.baseline import mark_midway, warn_of_midway
from clew.explore.search.checkpoints import CheckpointCache
from clew.explore.search.journal import ActionOutcome, Journal
from clew.explore.search.strategies import Strategy

RAISED = -1  # the result of an action that raised, instead of a state
PAIR = 32  # bits of the action number, in a pair of state and action that is stored as one int
UNKNOWN = -1  # the world may be in no known state

ACTION_SEVERITY = Severity.HIGH


class Search:
    """A running exploration."""

    def __init__(
        self,
        world: World,
        table: ActionTable,
        invariants: list[Invariant],
        strategy: Strategy,
        *,
        max_steps: int | None,
        memory_limit: int | None,
        fail_fast: bool,
        journal: Journal | None,
        tick: Callable[[Search], int],
        out_of_time: Callable[[], bool] | None = None,
    ) -> None:
        self.world = world
        self.table = table
        self.fixed = table.fixed
        self.actions = table.actions
        self.rules = table.rules
        self.invariants = invariants
        self.frontier = strategy.start(self.actions)
        self.max_steps = max_steps
        self.fail_fast = fail_fast
        self.out_of_time = out_of_time
        self.journal = journal
        self.tick = tick
        self.graph = StateGraph(self.actions)
        self.violations = ViolationLog()
        self.checkpoints = CheckpointCache(world, memory_limit, self.frontier.oldest_first)
        self.limited = memory_limit is not None
        self.steps = 0
        self.truncated = False
        self.tried: Counter[int] = Counter()  # by the number of the action
        self.raised: Counter[int] = Counter()
        # states
        self.numbers: dict[bytes, int] = {}
        self.states: list[State] = []
        self.ids: list[str] = []
        self.enabled: list[tuple[int, ...]] = []
        # equal values of `enabled` share one tuple
        self._interned: dict[tuple[int, ...], tuple[int, ...]] = {}
        # the result of each pair of state and action; not used if nodes are states, where each pair comes once
        self.known: dict[int, int] = {}
        self.left: list[int] = []  # number of untried actions of each state
        # nodes
        self.node_state: list[int] = []
        self.node_progress: list[Progress] = []
        self.node_parent: list[int] = []
        self.node_action: list[int] = []
        self.nodes_of: list[list[int]] = []
        self.here = UNKNOWN
        self.open = 0  # pairs in the frontier

    # -- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Explore until nothing is left to try, or a limit is reached."""
        self._begin()
        known, node_state, several = self.known, self.node_state, self.rules.matter
        limit, late = self.max_steps, self.out_of_time
        wait = self.tick(self)
        for node, action in self.frontier.pairs():
            state = node_state[node] if several else node
            target = known.get(state << PAIR | action) if several else None
            if target is None:
                if (
                    (limit is not None and self.steps >= limit)
                    or (self.fail_fast and len(self.violations))
                    or (late is not None and late())
                ):
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
        observed = self._observe("")
        if journal is not None:
            journal.sign()
            self._check_store_is_outside(observed)
        try:
            checkpoint = self.world._create_checkpoint("initial", observed.digest)
        except ClewError as error:
            raise ExplorationAborted(f"cannot create a checkpoint of the initial state: {error}") from error
        self.checkpoints.add(0, checkpoint)
        if journal is not None:
            journal.begin(observed.digest)
            journal.save_baseline(checkpoint, observed)
        if journal is None or not journal.was_restored:
            warn_of_midway(self.world)
        mark_midway(self.world, True)
        self.here = 0
        self._discover(observed, checkpoint.id)
        recorded = journal.initial if journal is not None else None
        if recorded is None:
            violations = self._broken_invariants()
            if journal is not None:
                journal.add_initial(violations)
        else:
            violations = recorded
        for violation in violations:
            self._record(violation, None, None)
        self._add_node(0, self.rules.start, -1, -1)

    def _check_store_is_outside(self, before: WorldObservation) -> None:
        """Reject a store inside the explored systems: rollbacks would undo what is written to it."""
        after = self._observe("")
        if after.digest == before.digest:
            return
        pairs = zip(sorted(self.world.systems), before.observations, after.observations)
        changed = [name for name, one, other in pairs if (one.digest, one.data) != (other.digest, other.data)]
        what = f"system {changed[0]!r}" if changed else "the world"
        raise DefinitionError(
            f"{what} changed when the journal was written; use a store outside of the explored systems, and let no "
            "other process write to them"
        )

    # -- one pair -------------------------------------------------------------------------------------------

    def _try(self, node: int, state: int, action: int) -> int:
        """Run an action in a state, or take its result from the journal. Return the next state, or RAISED."""
        journal = self.journal
        if journal is not None:
            recorded = journal.outcome(self.states[state].digest, self.actions[action].name)
            if recorded is not None:
                return self._use_recorded(recorded, node, state, action)
        if self.here != state:
            self._reach(node, state)
        self.steps += 1
        self.tried[action] += 1
        self.here = UNKNOWN
        chosen = self.actions[action] if self.fixed else self.table.bound(action, self.world)
        try:
            returned = chosen.run(self.world)
        except Exception as error:
            return self._action_raised(error, state, action)
        if chosen.probe:
            target = state
        else:
            observed = self._observe(chosen.name)
            known = self.numbers.get(observed.digest)
            target = self._find_new(observed, chosen.name, node, action) if known is None else known
        self._connect(state, action, target)
        violations = self._broken_invariants() if self.invariants else []
        if returned is not None:
            violations += recorded_findings(returned)
        for violation in violations:
            self._record(violation, state, action)
        if journal is not None:
            digest = self.states[target].digest
            journal.add(ActionOutcome(self.states[state].digest, chosen.name, digest, tuple(violations)))
        return target

    def _observe(self, after: str) -> WorldObservation:
        try:
            return self.world._observe()
        except Exception as error:
            when = f"after action {after!r}" if after else "at the start"
            raise ExplorationAborted(f"observing the world failed {when}: {line_of(error)}") from error

    def _connect(self, state: int, action: int, target: int) -> None:
        self.graph.transitions.append(
            Transition(self.ids[state], self.actions[action].name, self.ids[target], self.steps)
        )
        if self.limited:
            self._make_room(state)

    def _make_room(self, state: int) -> None:
        """Count down the untried actions of a state, and free memory."""
        self.left[state] -= 1
        if not self.left[state]:
            self.checkpoints.mark_exhausted(state)
        self.checkpoints.make_room(self.states, state)

    def _action_raised(self, error: Exception, state: int, action: int) -> int:
        chosen = self.actions[action]
        self.raised[action] += 1
        if self.limited:
            self._make_room(state)
        kind = ViolationKind("action", chosen.name, type(error).__name__)
        trace = None if kind in self.violations.by_kind else _trace(error)
        violation = RecordedViolation(kind, ACTION_SEVERITY, error_message(error), trace)
        self._record(violation, state, action)
        if self.journal is not None:
            self.journal.add(ActionOutcome(self.states[state].digest, chosen.name, None, (violation,)))
        return RAISED

    def _use_recorded(self, outcome: ActionOutcome, node: int, state: int, action: int) -> int:
        """Use the result of an action from the journal."""
        self.steps += 1
        self.tried[action] += 1
        for violation in outcome.violations:
            self._record(violation, state, action)
        if outcome.target is None:
            self.raised[action] += 1
            if self.limited:
                self._make_room(state)
            return RAISED
        target = self.numbers.get(outcome.target)
        if target is None:
            assert self.journal is not None
            recorded, names, violations = self.journal.state(outcome.target)
            target = self._register(recorded, tuple(self.table.number(name) for name in names))
            for violation in violations:
                self._record(violation, state, action)
            if not self.rules.matter:
                self._add_node(target, self.rules.start, node, action)
        self._connect(state, action, target)
        return target

    # -- new states -----------------------------------------------------------------------------------------

    def _find_new(self, observed: WorldObservation, name: str, node: int, action: int) -> int:
        number = len(self.states)
        checkpoint = self.checkpoints.create(number, f"after_{name}_{self.steps}", observed.digest)
        self.here = number
        self._discover(observed, checkpoint, node, action)
        if not self.rules.matter:
            self._add_node(number, self.rules.start, node, action)
        return number

    def _discover(
        self, observed: WorldObservation, checkpoint: str | None, node: int = -1, action: int = -1
    ) -> None:
        """Add the current state, which is new."""
        state = self.world._build_state(observed, checkpoint)
        enabled, violations = self._enabled()
        came_from = (None, None) if node < 0 else (self.node_state[node], action)
        for violation in violations:
            self._record(violation, *came_from)
        self._register(state, enabled)
        if self.journal is not None:
            self.journal.add_state(state, [self.actions[action].name for action in enabled], violations)

    def _register(self, state: State, enabled: tuple[int, ...]) -> int:
        number = len(self.states)
        self.numbers[state.digest] = number
        self.states.append(state)
        self.ids.append(state.id)
        self.enabled.append(self._interned.setdefault(enabled, enabled))
        if self.rules.matter:
            self.nodes_of.append([])
        if self.limited:
            self.left.append(len(enabled))
            self.checkpoints.count_state(number, state)
        return number

    def _enabled(self) -> tuple[tuple[int, ...], list[RecordedViolation]]:
        """Return the enabled actions of the current state, and violations for preconditions that raised."""
        enabled, failed = self.table.enabled(self.world)
        violations = []
        for each in failed:
            kind = ViolationKind("precondition", each.action, type(each.error).__name__)
            violations.append(
                RecordedViolation(kind, ACTION_SEVERITY, error_message(each.error), _trace(each.error))
            )
        return enabled, violations

    def _broken_invariants(self) -> list[RecordedViolation]:
        world, violations = self.world, []
        for invariant in self.invariants:
            message = failure_of(invariant, world)
            if message is not None:
                kind = ViolationKind("invariant", invariant.name)
                violations.append(RecordedViolation(kind, invariant.severity, message))
        return violations

    def _record(self, violation: RecordedViolation, state: int | None, action: int | None) -> None:
        self.violations.add(
            violation,
            None if state is None else self.ids[state],
            None if action is None else self.actions[action].name,
        )

    # -- nodes ----------------------------------------------------------------------------------------------

    def _arrive(self, state: int, parent: int, action: int) -> None:
        """Add a node for a state reached on a path, unless an existing node allows everything that it would."""
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

    # -- reach a state --------------------------------------------------------------------------------------

    def _reach(self, node: int, state: int) -> None:
        """Bring the world to a state, by its checkpoint or by replay from the nearest one."""
        self.here = UNKNOWN
        if self.checkpoints.restore(state):
            self.here = state
            return
        trail: list[int] = []
        at = node
        while True:
            if self.node_parent[at] < 0:
                raise ExplorationAborted(
                    f"state {self.ids[state]} cannot be reached; the initial checkpoint is no longer valid"
                )
            trail.append(at)
            at = self.node_parent[at]
            if self.checkpoints.restore(self.node_state[at]):
                break
        self._replay(trail[::-1])
        self.here = state

    def _replay(self, trail: list[int]) -> None:
        """Repeat the actions that lead from node to node, verify the states, and create missing checkpoints.

        With a memory limit only the last state gets a checkpoint. Otherwise all do, because other states are reached
        through them.
        """
        world, end = self.world, trail[-1]
        for node in trail:
            action, state = self.node_action[node], self.node_state[node]
            chosen = self.table.bound(action, world)
            try:
                chosen.run(world)
            except Exception as error:
                raise DivergedError(self._divergence(trail, node, f"it raised {line_of(error)}")) from error
            if self.limited and node != end:
                continue
            reached = self._observe(chosen.name).digest
            if reached != self.states[state].digest:
                raise DivergedError(self._divergence(trail, node, f"it led to {reached.hex()[:ID_LENGTH]}"))
            if not self.checkpoints.has(state):
                self.checkpoints.create(state, f"again_{self.ids[state]}", reached)

    def _divergence(self, trail: list[int], node: int, what: str) -> str:
        names = ", ".join(
            self.actions[self.node_action[each]].name for each in trail[: trail.index(node) + 1]
        )
        return (
            f"replaying {names} should lead to state {self.ids[self.node_state[node]]}, but {what}; make sure that the "
            "actions depend only on what the world rolls back, not on a clock, random numbers or an outside service"
        )

    @property
    def progress(self) -> dict[str, Any]:
        """Return the current counts."""
        return {
            "states": len(self.states),
            "steps": self.steps,
            "open": self.open,
            "violations": len(self.violations),
        }


def _trace(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(error, limit=-6)).rstrip()
