"""The world: what actions act on, and what is taken back to a checkpoint as one thing.

Rules:

- A checkpoint holds all systems and the context, or does not exist: if one system fails, those made before it are
  released and `CheckpointError` is raised.
- Ids of checkpoints are unique and never given twice. The first of a name has that name for its id.
- A rollback asks every system whether it can, then does it. Unknown or invalid: nothing was changed. If a system
  fails in the middle, the world is poisoned: it refuses to act, to observe and to checkpoint until a rollback succeeds
  and, where the state at that checkpoint was observed, shows that state again.
- `replay_to` reaches a state that was observed before without a checkpoint of its own: from the nearest checkpoint on
  the way that led there, by doing the same actions again, and looking whether it is that state.

What it does not do: decide what comes next. That is the agent's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

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
from clew.explore.model.invariants import told
from clew.explore.model.states import Checkpoint, State
from clew.explore.model.system import System

Place = bytes | str  # where a world was: the digest of an observed state, or the id of a checkpoint


class StoredCheckpoint(msgspec.Struct, gc=False):
    """A checkpoint as the world keeps it."""

    id: str
    name: str
    tokens: tuple[Any, ...]
    context: Snapshot
    seconds: float
    digest: bytes | None = None


class ReplayPath(msgspec.Struct, frozen=True):
    """How the world came to a place: from another one, by these actions. From None: from where it was made."""

    origin: Place | None
    actions: tuple[Action, ...]


Guide = Callable[[bytes], "ReplayPath | None"]


class World:
    """The systems, the context and whatever else actions work with.

    Args:
        api: What the actions talk to: a client, a service, anything. The explorer does not look at it.
        systems: By name, what is observed and rolled back.
        context: Values that actions hand to each other; they are part of the state.
        identity_ignores: Names of values in the context, or of systems, that do not tell states apart; `"context"`
            means all of the context. They are rolled back all the same.
        canonical: Takes a `State` and returns what stands for it: another `State`, or any value that can be encoded.
            States with equal representatives are one state.
    """

    def __init__(
        self,
        api: Any = None,
        systems: Mapping[str, System] | None = None,
        context: Mapping[str, Any] | WorldContext | None = None,
        *,
        identity_ignores: Iterable[str] = (),
        canonical: Callable[[State], Any] | None = None,
    ) -> None:
        _check_options(systems, context, identity_ignores, canonical)
        self.api = api
        self.systems: dict[str, Any] = dict(systems or {})
        for name, system in self.systems.items():
            _check_system(name, system)
        self.context = context if isinstance(context, WorldContext) else WorldContext(context)
        self._identity = StateIdentity(self.systems, self.context, frozenset(identity_ignores), canonical)
        self._ordered = [(name, self.systems[name]) for name in sorted(self.systems)]
        self._kept: dict[str, StoredCheckpoint] = {}
        self._used: dict[str, int] = {}  # how often a name was asked for
        self._poison: str | None = None
        self._place: Place | None = None
        self._since: list[Action] = []
        self._ways: dict[Place, ReplayPath] = {}
        self._guide: Guide | None = None
        self._led = False

    # -- looking and acting ---------------------------------------------------------------------------------

    @property
    def poisoned(self) -> bool:
        """Whether a rollback failed half way and none has succeeded since."""
        return self._poison is not None

    def observe(self) -> State:
        """What the systems and the context show now."""
        state = self.state_of(self.look())
        self._arrive(state.digest)
        return state

    def act(self, action: Action) -> Any:
        """Do an action; what it returned. What it raises comes out."""
        if not isinstance(action, Action):
            raise DefinitionError(f"an action is Action(name, run), not {action!r}")
        self._refuse_if_poisoned()
        try:
            returned = action.run(self)
        except BaseException:
            self._place, self._since = None, []  # it may have done a part: nobody knows the way here
            raise
        self._since.append(action)
        return returned

    def look(self) -> WorldObservation:
        """The identity of the state that the world is in, and what it was made from."""
        if self._poison is not None:
            self._refuse_if_poisoned()
        return self._identity.look()

    def state_of(self, sight: WorldObservation, checkpoint_id: str | None = None) -> State:
        """A sight as a state that can be kept."""
        return self._identity.state(sight, checkpoint_id, time.time())

    # -- checkpoints ----------------------------------------------------------------------------------------

    def checkpoint(self, name: str) -> str:
        """Make a checkpoint of all systems and the context; its id."""
        _check_name(name)
        return self._checkpoint(name, None)

    def observe_and_checkpoint(self, name: str) -> State:
        """Observe, and make a checkpoint that belongs to the state; `checkpoint_id` says which."""
        _check_name(name)
        sight = self.look()
        self._arrive(sight.digest)
        return self.state_of(sight, self._checkpoint(name, sight.digest))

    def _checkpoint(self, name: str, digest: bytes | None) -> str:
        kept = self.hold(name, digest)
        if digest is None:
            self._arrive(kept.id)
        return kept.id

    def hold(self, name: str, digest: bytes | None) -> StoredCheckpoint:
        """Make a checkpoint, of a state if its digest is given."""
        if self._poison is not None:
            self._refuse_if_poisoned()
        tokens: list[Any] = []
        for system_name, system in self._ordered:
            try:
                tokens.append(system.checkpoint(name))
            except BaseException as error:
                self._release(tokens)
                if not isinstance(error, Exception):  # an interrupt: it goes on, and no tokens stay behind
                    raise
                raise CheckpointError(
                    f"checkpoint {name!r}: system {system_name!r} failed, so there is none: {told(error)}"
                ) from error
        try:
            snapshot = self.context.snapshot()
        except Exception as error:
            self._release(tokens)
            raise CheckpointError(
                f"checkpoint {name!r}: the context cannot be kept: {told(error)}"
            ) from error
        kept = StoredCheckpoint(self._new_id(name), name, tuple(tokens), snapshot, time.time(), digest)
        self._kept[kept.id] = kept
        return kept

    def adopt(self, kept: StoredCheckpoint) -> None:
        """Know a checkpoint again whose tokens were written down and read back."""
        self._kept[kept.id] = kept

    # -- after another process died (see `anchor`) ----------------------------------------------------------

    def recover_context(self, values: Mapping[str, Any]) -> None:
        """Give the context the values that it had, as far as they tell states apart."""
        counts = self._identity.counts_in_context
        for key in [key for key in self.context if counts(key) and key not in values]:
            self.context.delete(key)
        for key, value in values.items():
            if counts(key):
                self.context.set(key, value)

    def look_again(self) -> WorldObservation:
        """What the world shows after its systems were put back, also if it was poisoned."""
        return self._identity.look()

    def sound_again(self) -> None:
        """The systems were put back, and show what they should."""
        self._poison, self._place, self._since = None, None, []

    def _new_id(self, name: str) -> str:
        while True:
            times = self._used.get(name, 0) + 1
            self._used[name] = times
            if times == 1:
                return name
            numbered = f"{name}~{times}"
            if numbered not in self._used:
                self._used[numbered] = 1
                return numbered

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """A checkpoint that exists."""
        kept = self._find(checkpoint_id)
        tokens = {name: token for (name, _), token in zip(self._ordered, kept.tokens)}
        when = datetime.fromtimestamp(kept.seconds, UTC)
        return Checkpoint(kept.id, kept.name, tokens, kept.context.values(), when)

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The ids of all checkpoints, oldest first."""
        return tuple(self._kept)

    def is_valid(self, checkpoint_id: str) -> bool:
        """Whether there is such a checkpoint, and every system can still be taken back to it."""
        kept = self._kept.get(checkpoint_id)
        return kept is not None and self._invalid(kept) is None

    def release(self, checkpoint_id: str) -> None:
        """Give up a checkpoint; no error if there is none."""
        kept = self._kept.pop(checkpoint_id, None)
        if kept is not None:
            self._release(kept.tokens)

    def _release(self, tokens: Iterable[Any]) -> None:
        for (_, system), token in zip(self._ordered, tokens):
            try:
                system.release(token)
            except Exception:  # whatever it still holds, nobody will ask for it again
                continue

    def _find(self, checkpoint_id: str) -> StoredCheckpoint:
        kept = self._kept.get(checkpoint_id)
        if kept is None:
            raise UnknownCheckpointError(f"Checkpoint not found: {checkpoint_id}")
        return kept

    # -- rollback -------------------------------------------------------------------------------------------

    def rollback(self, checkpoint_id: str) -> None:
        """Be as at that checkpoint. It stays, and may be asked for again."""
        kept = self._find(checkpoint_id)
        at_fault = self.return_to(kept)
        if at_fault is not None:
            raise RollbackError(
                f"checkpoint {kept.id!r} is no longer valid in system {at_fault!r}; nothing was changed; "
                "roll back to an earlier one, or use replay_to"
            )
        self._place, self._since = kept.digest or kept.id, []

    def return_to(self, kept: StoredCheckpoint) -> str | None:
        """Be as at a checkpoint; or, nothing changed, the name of the system in which it is no longer valid."""
        at_fault = self._invalid(kept)
        if at_fault is not None:
            return at_fault
        for (name, system), token in zip(self._ordered, kept.tokens):
            try:
                system.rollback(token)
            except BaseException as error:
                self._poison = f"system {name!r} failed to go back to checkpoint {kept.id!r}: {told(error)}"
                if not isinstance(error, Exception):  # an interrupt leaves it half done just so
                    raise
                raise RollbackError(
                    f"{self._poison}; the world is poisoned: roll back to a checkpoint that can be restored"
                ) from error
        self.context.restore(kept.context)
        if self._poison is not None:
            self._recover(kept)
        return None

    def _invalid(self, kept: StoredCheckpoint) -> str | None:
        """The name of a system that cannot be taken back to it."""
        for (name, system), token in zip(self._ordered, kept.tokens):
            try:
                if system.is_valid(token):
                    continue
            except Exception:  # a system that cannot even say so
                pass
            return name
        return None

    def _recover(self, kept: StoredCheckpoint) -> None:
        """Whether the world is sound again: it shows what was seen at the checkpoint, if something was."""
        if kept.digest is not None:
            try:
                digest = self._identity.look().digest
            except Exception as error:
                raise RollbackError(
                    f"checkpoint {kept.id!r} was restored, and cannot be observed: {told(error)}; "
                    "the world stays poisoned"
                ) from error
            if digest != kept.digest:
                raise RollbackError(
                    f"checkpoint {kept.id!r} was restored, and the world shows state {digest.hex()[:16]} instead of "
                    f"{kept.digest.hex()[:16]}; the world stays poisoned"
                )
        self._poison = None

    def _refuse_if_poisoned(self) -> None:
        if self._poison is not None:
            raise PoisonedWorldError(
                f"the world is poisoned: {self._poison}; roll back to a valid checkpoint first"
            )

    # -- replay ---------------------------------------------------------------------------------------------

    def _arrive(self, place: Place) -> None:
        if self._led:
            return
        if place != self._place and place not in self._ways:
            self._ways[place] = ReplayPath(self._place, tuple(self._since))
        self._place, self._since = place, []

    def consult(self, guide: Guide | None) -> None:
        """Ask somebody else, too, how a state is reached."""
        self._guide = guide

    def be_led(self) -> None:
        """An agent acts from now on, and knows the ways: what is observed meanwhile says nothing about them."""
        self._led = True

    def stand_at(self, digest: bytes | None) -> None:
        """Nobody leads any more, and the world is in that state (None: nobody knows where it is)."""
        self._led = False
        self._place, self._since = digest, []

    def replay_to(self, state: State) -> None:
        """Be in a state that was observed before, by the actions that led there.

        `DivergedError` if they lead elsewhere; `UnknownCheckpointError` if there is nothing to start from.
        """
        if not isinstance(state, State):
            raise DefinitionError(f"replay_to takes a State, not {state!r}")
        actions: list[Action] = []
        place: Place | None = state.digest
        checkpoints = {kept.digest: kept for kept in self._kept.values() if kept.digest is not None}
        seen = set()
        while place is not None and place not in seen:
            seen.add(place)
            kept = self._kept.get(place) if isinstance(place, str) else checkpoints.get(place)
            if kept is not None and self._invalid(kept) is None:
                self.rollback(kept.id)
                break
            if place == self._place and not self._since and not self.poisoned:
                break
            way = self._ways.get(place)
            if way is None and self._guide is not None and isinstance(place, bytes):
                way = self._guide(place)
            if way is None:
                place = None
                break
            actions[:0] = way.actions
            place = way.origin
        else:
            place = None
        if place is None:
            raise UnknownCheckpointError(
                f"Checkpoint not found: there is none on the way to state {state.id}; "
                "make one with observe_and_checkpoint before acting"
            )
        for action in actions:
            self.act(action)
        reached = self.observe()
        if reached.digest != state.digest:
            raise DivergedError(
                f"the actions that led to state {state.id} now lead to {reached.id}: "
                f"{', '.join(action.name for action in actions) or 'none'}; one of them depends on more than "
                "the world shows (a clock, a random number, something that is not rolled back)"
            )


def _check_options(systems: Any, context: Any, identity_ignores: Any, canonical: Any) -> None:
    if systems is not None and not isinstance(systems, Mapping):
        raise DefinitionError(
            f'systems are given by name, as {{"db": PostgresSystem(dsn)}}, not a {type(systems).__name__}'
        )
    if context is not None and not isinstance(context, Mapping | WorldContext):
        raise DefinitionError(f"context is a dict of values by name, not a {type(context).__name__}")
    if isinstance(identity_ignores, str):
        raise DefinitionError("identity_ignores is a list of names, not one text")
    if not isinstance(identity_ignores, Iterable):
        raise DefinitionError(f"identity_ignores is a list of names, not {identity_ignores!r}")
    if canonical is not None and not callable(canonical):
        raise DefinitionError(f"canonical is a function of a State, not {canonical!r}")


def _check_name(name: Any) -> None:
    if type(name) is not str:
        raise DefinitionError(f"the name of a checkpoint is a text, not {name!r}")


def _check_system(name: str, system: Any) -> None:
    if type(name) is not str or not name:
        raise DefinitionError(f"the name of a system is a text, not {name!r}")
    lacking = [
        method
        for method in ("observe", "checkpoint", "rollback", "is_valid", "release")
        if not callable(getattr(system, method, None))
    ]
    if lacking:
        raise DefinitionError(f"system {name!r} has no {', '.join(lacking)}; see clew.explore.System")
    ordering = getattr(system, "ordering", "any")
    if ordering not in ("any", "lifo"):
        raise DefinitionError(f'system {name!r}: ordering is "any" or "lifo", not {ordering!r}')
