"""The world: the systems and the context that actions change, checkpointed and rolled back together.

Rules:

- A checkpoint covers all systems and the context, or does not exist. If one system fails, the tokens of the others are
  released and `CheckpointError` is raised.
- Checkpoint ids are unique and never reused. The first checkpoint of a name has that name as its id.
- A rollback first asks every system whether its token is valid, then restores. With an unknown or invalid checkpoint
  nothing changes. If a system fails partway, the world is poisoned: it rejects actions, observations and checkpoints
  until a rollback succeeds and, if the state at that checkpoint was observed, shows that state again.
- `replay_to` reaches an observed state that has no checkpoint: it rolls back to the nearest checkpoint on the path to
  the state, repeats the actions, and verifies the state.

The world does not choose actions; the agent does. Methods with an underscore that have a docstring are for the search.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from clew.error_text import line_of
from clew.errors import (
    CheckpointError,
    DefinitionError,
    DivergedError,
    PoisonedWorldError,
    RollbackError,
    UnknownCheckpointError,
)
from clew.explore.model.actions import Action
from clew.explore.model.context import Snapshot, WorldContext
from clew.explore.model.identity import StateIdentity, WorldObservation
from clew.explore.model.states import ID_LENGTH, Checkpoint, State
from clew.explore.model.system import System
from clew.state.type_names import a

Position = bytes | str  # the digest of an observed state, or the id of a checkpoint


class StoredCheckpoint(msgspec.Struct, gc=False):
    """A checkpoint with the tokens of all systems, in the order of names."""

    id: str
    name: str
    tokens: tuple[Any, ...]
    context: Snapshot
    seconds: float
    digest: bytes | None = None


class ReplayPath(msgspec.Struct, frozen=True):
    """How the world reached a position: from another one, by these actions. None is where the world was created."""

    origin: Position | None
    actions: tuple[Action, ...]


PathLookup = Callable[[bytes], "ReplayPath | None"]


class World:
    """Systems, a context, and an api for actions to use.

    Args:
        api: What actions call: a client, a service, any object. The explorer does not use it.
        systems: Systems by name; they are observed and rolled back.
        context: Values that actions pass to each other; they are part of the state.
        exclude_from_identity: Names of context values or systems that do not distinguish states; `"context"` excludes
            the whole context. They are rolled back all the same.
        canonicalize: Takes a `State` and returns its representative: a `State`, or a value that can be encoded. States
            with equal representatives are one state.
    """

    def __init__(
        self,
        api: Any = None,
        systems: Mapping[str, System] | None = None,
        context: Mapping[str, Any] | WorldContext | None = None,
        *,
        exclude_from_identity: Iterable[str] = (),
        canonicalize: Callable[[State], Any] | None = None,
    ) -> None:
        _check_options(systems, context, exclude_from_identity, canonicalize)
        self.api = api
        self.systems: dict[str, Any] = dict(systems or {})
        for name, system in self.systems.items():
            _check_system(name, system)
        self.context = context if isinstance(context, WorldContext) else WorldContext(context)
        self._identity = StateIdentity(
            self.systems, self.context, frozenset(exclude_from_identity), canonicalize
        )
        self._ordered = [(name, self.systems[name]) for name in sorted(self.systems)]
        self._checkpoints: dict[str, StoredCheckpoint] = {}
        self._uses: dict[str, int] = {}  # of each checkpoint name
        self._poison: str | None = None
        self._position: Position | None = None
        self._actions_since: list[Action] = []
        self._paths: dict[Position, ReplayPath] = {}
        self._path_lookup: PathLookup | None = None
        self._records_paths = True

    # -- observe and act ------------------------------------------------------------------------------------

    @property
    def poisoned(self) -> bool:
        """Return whether a rollback failed partway and no later one succeeded."""
        return self._poison is not None

    def observe(self) -> State:
        """Return the current state of the systems and the context."""
        state = self._build_state(self._observe())
        self._arrive(state.digest)
        return state

    def act(self, action: Action) -> Any:
        """Run an action. Return what it returned; its exceptions propagate."""
        if not isinstance(action, Action):
            raise DefinitionError(f"act expects an Action, got {action!r}; write Action(name, run)")
        self._check_not_poisoned()
        try:
            returned = action.run(self)
        except BaseException:
            # the action may have run in part, so the path to the current state is unknown
            self._position, self._actions_since = None, []
            raise
        self._actions_since.append(action)
        return returned

    def _observe(self) -> WorldObservation:
        """Observe all systems and the context without building a state."""
        if self._poison is not None:
            self._check_not_poisoned()
        return self._identity.observe()

    def _build_state(self, observed: WorldObservation, checkpoint_id: str | None = None) -> State:
        """Build a state from an observation."""
        return self._identity.state(observed, checkpoint_id, time.time())

    # -- checkpoints ----------------------------------------------------------------------------------------

    def checkpoint(self, name: str) -> str:
        """Create a checkpoint of all systems and the context. Return its id."""
        _check_name(name)
        made = self._create_checkpoint(name, None)
        self._arrive(made.id)
        return made.id

    def observe_and_checkpoint(self, name: str) -> State:
        """Observe and create a checkpoint of that state. Its id is `checkpoint_id` of the returned state."""
        _check_name(name)
        observed = self._observe()
        self._arrive(observed.digest)
        return self._build_state(observed, self._create_checkpoint(name, observed.digest).id)

    def _create_checkpoint(self, name: str, digest: bytes | None) -> StoredCheckpoint:
        """Create a checkpoint, with the digest of the current state if it was observed."""
        if self._poison is not None:
            self._check_not_poisoned()
        tokens: list[Any] = []
        for system_name, system in self._ordered:
            try:
                tokens.append(system.checkpoint(name))
            except BaseException as error:
                self._release(tokens)
                if not isinstance(error, Exception):  # an interrupt propagates, and leaves no tokens behind
                    raise
                raise CheckpointError(
                    f"checkpoint {name!r} was not created: system {system_name!r} failed: {line_of(error)}"
                ) from error
        try:
            snapshot = self.context.snapshot()
        except Exception as error:
            self._release(tokens)
            raise CheckpointError(
                f"checkpoint {name!r} was not created: the context cannot be copied: {line_of(error)}"
            ) from error
        made = StoredCheckpoint(self._new_id(name), name, tuple(tokens), snapshot, time.time(), digest)
        self._checkpoints[made.id] = made
        return made

    def _new_id(self, name: str) -> str:
        while True:
            uses = self._uses.get(name, 0) + 1
            self._uses[name] = uses
            if uses == 1:
                return name
            numbered = f"{name}~{uses}"
            if numbered not in self._uses:
                self._uses[numbered] = 1
                return numbered

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return a checkpoint. Raise UnknownCheckpointError if it does not exist."""
        found = self._find(checkpoint_id)
        tokens = {name: token for (name, _), token in zip(self._ordered, found.tokens)}
        when = datetime.fromtimestamp(found.seconds, UTC)
        return Checkpoint(found.id, found.name, tokens, found.context.values(), when)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """Return the ids of all checkpoints, oldest first."""
        return tuple(self._checkpoints)

    def is_valid(self, checkpoint_id: str) -> bool:
        """Return whether a checkpoint exists and every system can restore it."""
        found = self._checkpoints.get(checkpoint_id)
        return found is not None and self._invalid_system(found) is None

    def release(self, checkpoint_id: str) -> None:
        """Release a checkpoint, if it exists."""
        found = self._checkpoints.pop(checkpoint_id, None)
        if found is not None:
            self._release(found.tokens)

    def _release(self, tokens: Iterable[Any]) -> None:
        for (_, system), token in zip(self._ordered, tokens):
            try:
                system.release(token)
            except Exception:  # a leaked token must not prevent the release of the others
                continue

    def _find(self, checkpoint_id: str) -> StoredCheckpoint:
        found = self._checkpoints.get(checkpoint_id)
        if found is None:
            raise UnknownCheckpointError(f"Checkpoint not found: {checkpoint_id}")
        return found

    # -- rollback -------------------------------------------------------------------------------------------

    def rollback(self, checkpoint_id: str) -> None:
        """Restore a checkpoint. It stays valid and can be restored again."""
        checkpoint = self._find(checkpoint_id)
        invalid = self._restore(checkpoint)
        if invalid is not None:
            raise RollbackError(
                f"checkpoint {checkpoint.id!r} is no longer valid in system {invalid!r}, and nothing was changed; "
                "roll back to an earlier checkpoint, or use replay_to"
            )
        self._position, self._actions_since = checkpoint.digest or checkpoint.id, []

    def _restore(self, checkpoint: StoredCheckpoint) -> str | None:
        """Restore a checkpoint. If a system cannot, change nothing and return the name of that system."""
        invalid = self._invalid_system(checkpoint)
        if invalid is not None:
            return invalid
        for (name, system), token in zip(self._ordered, checkpoint.tokens):
            try:
                system.rollback(token)
            except BaseException as error:
                self._poison = (
                    f"system {name!r} failed to restore checkpoint {checkpoint.id!r}: {line_of(error)}"
                )
                if not isinstance(error, Exception):  # an interrupt, too, leaves the rollback incomplete
                    raise
                raise RollbackError(
                    f"{self._poison}; the world is poisoned until you roll back to a valid checkpoint"
                ) from error
        self.context.restore(checkpoint.context)
        if self._poison is not None:
            self._verify_recovery(checkpoint)
        return None

    def _invalid_system(self, checkpoint: StoredCheckpoint) -> str | None:
        for (name, system), token in zip(self._ordered, checkpoint.tokens):
            try:
                if system.is_valid(token):
                    continue
            except Exception:  # a system that cannot answer cannot restore either
                pass
            return name
        return None

    def _verify_recovery(self, checkpoint: StoredCheckpoint) -> None:
        if checkpoint.digest is not None:
            try:
                digest = self._identity.observe().digest
            except Exception as error:
                raise RollbackError(
                    f"checkpoint {checkpoint.id!r} was restored, but observing the world failed: {line_of(error)}; "
                    "the world stays poisoned"
                ) from error
            if digest != checkpoint.digest:
                raise RollbackError(
                    f"checkpoint {checkpoint.id!r} was restored, but the world is in state "
                    f"{digest.hex()[:ID_LENGTH]} instead of {checkpoint.digest.hex()[:ID_LENGTH]}; "
                    "the world stays poisoned"
                )
        self._poison = None

    def _check_not_poisoned(self) -> None:
        if self._poison is not None:
            raise PoisonedWorldError(
                f"the world is poisoned: {self._poison}; roll back to a valid checkpoint first"
            )

    # -- recovery after the process of an exploration was killed (`clew.explore.search.baseline`) --------------

    def _restore_context(self, values: Mapping[str, Any]) -> None:
        """Set the values of the context that are part of the identity, and delete all others of that kind."""
        counts = self._identity.counts_in_context
        for key in [key for key in self.context if counts(key) and key not in values]:
            self.context.delete(key)
        for key, value in values.items():
            if counts(key):
                self.context.set(key, value)

    def _observe_restored(self) -> WorldObservation:
        """Observe after the baseline was restored, even if the world is poisoned."""
        return self._identity.observe()

    def _clear_poison(self) -> None:
        """Mark the world as valid after the baseline was restored and verified."""
        self._poison, self._position, self._actions_since = None, None, []

    # -- replay ---------------------------------------------------------------------------------------------

    def _arrive(self, position: Position) -> None:
        if not self._records_paths:
            return
        if position != self._position and position not in self._paths:
            self._paths[position] = ReplayPath(self._position, tuple(self._actions_since))
        self._position, self._actions_since = position, []

    def _use_paths(self, lookup: PathLookup | None) -> None:
        """Ask `lookup` for paths to states that the world itself has no path to."""
        self._path_lookup = lookup

    def _stop_recording_paths(self) -> None:
        """Record no paths while an agent explores, because the agent rolls back between actions."""
        self._records_paths = False

    def _start_recording_paths(self, digest: bytes | None) -> None:
        """Record paths again, starting in a state, or None if the current state is unknown."""
        self._records_paths = True
        self._position, self._actions_since = digest, []

    def replay_to(self, state: State) -> None:
        """Bring the world to a state that was observed before, by repeating the actions that led to it.

        Raise DivergedError if they lead to another state, UnknownCheckpointError if no checkpoint is on the path.
        """
        if not isinstance(state, State):
            raise DefinitionError(f"replay_to expects a State, got {state!r}; pass what observe() returned")
        actions = self._return_before(state.digest)
        if actions is None:
            raise UnknownCheckpointError(
                f"Checkpoint not found: no checkpoint is on the path to state {state.id}; "
                "create one with observe_and_checkpoint before acting"
            )
        for action in actions:
            self.act(action)
        reached = self.observe()
        if reached.digest != state.digest:
            raise DivergedError(
                f"the actions that led to state {state.id} now lead to {reached.id}: "
                f"{', '.join(action.name for action in actions) or 'none'}; make sure that they depend only on what "
                "the world rolls back, not on a clock, random numbers or an outside service"
            )

    def _return_before(self, digest: bytes) -> list[Action] | None:
        """Roll back to the last checkpoint on the path to a state, unless the world is on it already. Return the rest
        of the path, or None without a checkpoint."""
        by_digest = {each.digest: each for each in self._checkpoints.values() if each.digest is not None}
        actions: list[Action] = []
        position: Position = digest
        seen: set[Position] = set()
        while position not in seen:
            seen.add(position)
            checkpoint = (
                self._checkpoints.get(position) if isinstance(position, str) else by_digest.get(position)
            )
            if checkpoint is not None and self._invalid_system(checkpoint) is None:
                self.rollback(checkpoint.id)
                return actions
            if position == self._position and not self._actions_since and not self.poisoned:
                return actions
            path = self._paths.get(position)
            if path is None and self._path_lookup is not None and isinstance(position, bytes):
                path = self._path_lookup(position)
            if path is None or path.origin is None:
                return None
            actions[:0] = path.actions
            position = path.origin
        return None


def _check_options(systems: Any, context: Any, exclude_from_identity: Any, canonicalize: Any) -> None:
    if systems is not None and not isinstance(systems, Mapping):
        raise DefinitionError(
            f'systems must be a dict by name, as {{"db": PostgresSystem(dsn)}}, got {a(type(systems))}'
        )
    if context is not None and not isinstance(context, Mapping | WorldContext):
        raise DefinitionError(f"context must be a dict of values by name, got {a(type(context))}")
    if isinstance(exclude_from_identity, str) or not isinstance(exclude_from_identity, Iterable):
        raise DefinitionError(f"exclude_from_identity must be a list of names, got {exclude_from_identity!r}")
    if canonicalize is not None and not callable(canonicalize):
        raise DefinitionError(f"canonicalize must be a function that takes a State, got {canonicalize!r}")


def _check_name(name: Any) -> None:
    if type(name) is not str:
        raise DefinitionError(f"the name of a checkpoint must be a string, got {name!r}")


def _check_system(name: str, system: Any) -> None:
    if type(name) is not str or not name:
        raise DefinitionError(f"the name of a system must be a non-empty string, got {name!r}")
    missing = [
        method
        for method in ("observe", "checkpoint", "rollback", "is_valid", "release")
        if not callable(getattr(system, method, None))
    ]
    if missing:
        raise DefinitionError(f"system {name!r} has no {', '.join(missing)}; see clew.explore.System")
    ordering = getattr(system, "ordering", "any")
    if ordering not in ("any", "lifo"):
        raise DefinitionError(f'system {name!r}: ordering must be "any" or "lifo", got {ordering!r}')
