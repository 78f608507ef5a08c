"""Any state from any other: the tree of deltas, the database's place in it, and clones where the schema changed.

The states between two changes of the schema make one tree, an age. Within an age, going anywhere costs the rows
changed along the path. Between ages it costs a copy of the database: the clone of the age, then deltas from there.

- A clone is made at the first checkpoint of an age. Making and using one ends the application's connections; a
  warning says so. At the very first checkpoint nobody has asked for that, so with `clones="auto"` it is made only if
  nobody else is connected: an application that is already there keeps its connections, and what it then loses, if the
  schema changes, is the way back to before (`clones="always"` keeps it, `"never"` makes none at all).
- When the connection breaks, everything ends: nobody knows what the journal held.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import (
    CheckpointError,
    ClewError,
    ExplorationError,
    ExplorationWarning,
    RollbackError,
    SystemSetupError,
    UnknownCheckpointError,
)
from clew.explore.model.observation import Observation
from clew.explore.spill import SpillFile
from clew.explore.systems.delta_tree import DeltaNode, DeltaTree, add
from clew.explore.systems.postgres import recovery
from clew.explore.systems.postgres.catalog import WatchedObjects
from clew.explore.systems.postgres.change_capture import BlockedError, CapturedChanges
from clew.explore.systems.postgres.clones import open_session
from clew.explore.systems.postgres.connection import address, psycopg, said
from clew.explore.systems.postgres.diagnostics import Diagnostics
from clew.explore.systems.postgres.observation import ObservedTables, identity
from clew.explore.systems.postgres.restore import Delta, Sequences

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Cursor

_TRIES = 20
CloneChoice = Literal["auto", "always", "never"]


@dataclass(eq=False)
class PostgresEpoch:
    """The time between two changes of the schema: what was watched, and the clone that its first state is kept in."""

    watched: WatchedObjects
    fingerprint: tuple[Any, ...] | None
    clone: str | None
    tokens: int = 0
    first: State | None = None


@dataclass(frozen=True)
class PostgresStateInfo:
    """What a state is besides its rows."""

    age: PostgresEpoch | None  # None before the first checkpoint of an age
    sequences: Sequences


State = DeltaNode[tuple[int, str], PostgresStateInfo]


class Deltas:
    """Checkpoint and restore by row deltas."""

    ordering: Literal["any"] = "any"

    def __init__(
        self,
        dsn: str,
        *,
        tables: Sequence[str] | None,
        ignore: Mapping[str, Iterable[str]],
        schema: str,
        rows_shown: int,
        clones: CloneChoice,
        lock_timeout: float,
    ) -> None:
        self._tables, self._ignore = tables, ignore
        self._rows_shown = rows_shown
        self._clones_when = clones
        self._lock = threading.RLock()
        self._is_out = False
        self._install_id = token_hex(3)
        self._given = 0
        self._tokens: dict[str, int] = {}  # those given out, and the tree's own
        self._tree: DeltaTree[tuple[int, str], PostgresStateInfo] = DeltaTree(PostgresStateInfo(None, {}))
        self._pending: Delta = {}  # what happened since the tree's `here`
        self._age: PostgresEpoch | None = None  # None before its first checkpoint
        self._mirror: ObservedTables | None = None
        self._held: str | None = None  # a clone that outlives this process
        self._unwatched: Sequence[str] = ()  # changes of the schema after which there are no triggers yet
        parts = address(dsn)
        self._session, self._clones = open_session(parts, schema, lock_timeout)
        self._voice = Diagnostics(lambda: self._session.link.closed)
        try:
            with self._voice.speaking(SystemSetupError, "the journal could not be put in place"):
                self._session.install()
                # What is named may be gone where a killed exploration changed the schema: its clone brings it back.
                self._session.watch(tables, ignore, strict=not self._clones.left)
            self._check_sequence_caches()
            self._voice.warn()
        except BaseException:
            with suppress(psycopg.Error, ClewError, BlockedError):  # what is told is why it cannot be used
                self._session.remove()
            self._session.link.close()
            self._clones.close()
            raise

    # --- what the explorer calls

    def observe(self) -> Observation:
        """The watched tables; what changed since the last time is read, and no more."""
        with self._lock, self._voice.speaking(ExplorationError, "the database could not be observed"):
            look = self._look()
            if self._mirror is None or self._mirror.behind():
                look = self._read_tables()
            assert self._mirror is not None
            data, digests = self._mirror.data(), self._mirror.digests()
            names = self._session.watched.sequences
            at = {names[oid].label: list(value) for oid, value in look.sequences.items()}
            self._voice.warn()
            return Observation("postgres", data, {"sequences": at}, identity(digests))

    def checkpoint(self, name: str) -> str:
        """A token for the state that is there now; `name` is for people."""
        with self._lock, self._voice.speaking(CheckpointError, f"no checkpoint {name!r}"):
            if self._clones.left:
                self._drop_left()
            look = self._look()
            if self._age is None:
                self._begin_age(look)
            elif self._pending or look.sequences != self._tree.here.facts.sequences:
                self._tree.step(self._pending, PostgresStateInfo(self._age, look.sequences))
                self._pending = {}
            assert self._age is not None
            self._given += 1
            token = f"pg-{self._install_id}-{self._given}"
            self._tokens[token] = self._tree.mark()
            self._age.tokens += 1
            self._voice.warn()
            return token

    def rollback(self, token: Any) -> None:
        """Restore a state; the token stays valid."""
        with self._lock:
            state = self._state(token)
            with self._voice.speaking(RollbackError, f"not rolled back to {token}"):
                self._note_hazards(self._go(state))
            self._voice.warn()

    def is_valid(self, token: Any) -> bool:
        with self._lock:
            if token not in self._tokens or self._voice.ended is not None:
                return False
            age = self._state(token).facts.age
            return age is not None and (age is self._age or age.clone is not None)

    def release(self, token: Any) -> None:
        """Free what a token holds: its rows and, if it was the last one of its age, the age's clone."""
        with self._lock:
            if token not in self._tokens:
                return
            age = self._state(token).facts.age
            self._tree.release(self._tokens.pop(token))
            if age is not None:
                age.tokens -= 1
            if self._voice.ended is None:
                with self._voice.speaking(ExplorationError, "a clone could not be dropped"):
                    self._forget(age)

    def size(self, token: Any) -> int:
        """The bytes that a token holds in memory: the images of the rows that its state changed."""
        with self._lock:
            return _size(self._state(token))

    # --- for another process, if this one is killed

    def save_baseline(self, token: Any) -> Iterator[bytes]:
        """All that is watched, in pieces, as it was at the checkpoint made last."""
        attic, session = SpillFile(), self._session
        with self._lock, self._voice.speaking(CheckpointError, "the database could not be kept"):
            state = self._state(token)
            with session.moment() as (look, cursor):
                moved = look.changes or look.delta or self._pending or self._tree.here is not state
                if moved or look.sequences != state.facts.sequences:
                    raise CheckpointError("it was changed since the checkpoint that is to be kept")
                places = [attic.put(piece) for piece in recovery.rows(cursor, session.watched)]
            age = state.facts.age
            if age is not None and age.clone is not None:
                age.clone = self._held = self._clones.hold(age.clone)
            head = recovery.head_of(session, look.sequences, self._held)
        return chain([recovery.written(head)], map(attic.get, places))

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold what was kept: the rows if the schema is the same, and else the clone that was made then."""
        with self._lock, self._voice.speaking(RollbackError, "the database was not put back"):
            coming = iter(pieces)
            head = recovery.read_head(next(coming, b""))
            if head.place != recovery.place(self._session.link):
                return False
            self._look()
            if head.clone in self._clones.left:
                self._held = head.clone
                self._clones.left -= {head.clone}
            if recovery.shape(self._session.link, self._session.schema) != head.shape:
                self._put_held_back()
            self._take_in(CapturedChanges(delta=recovery.put_rows_back(self._session, head, coming)))
        self._voice.warn()
        return True

    def _put_held_back(self) -> None:
        if self._held is None:
            raise RollbackError(
                "the schema is another one than at the start, and there is no clone from then: others were connected "
                'at the first checkpoint, or clones="never"; bring the schema back by hand'
            )
        with self._alone("putting a clone in the database's place"):
            self._session.link.close()
            self._clones.put_back(self._held)
        self._session.install()
        self._leave_age(["the clone is in its place"])

    def _drop_left(self) -> None:
        """Somebody else's exploration begins here: a clone that a killed one held is of no use any more."""
        left, self._clones.left = self._clones.left, frozenset()
        for clone in left:
            self._clones.drop(clone)
        self._session.watch(self._tables, self._ignore)
        self._voice.note(
            "a killed exploration had left a clone of this database, to undo changes of the schema when it goes on; "
            "it was dropped"
        )

    def release_baseline(self) -> None:
        """Nobody has to come back after this process."""
        held, self._held = self._held, None
        if held is None:
            return
        with self._lock, self._voice.speaking(ExplorationError, "a clone could not be let go"):
            if self._age is not None and self._age.clone == held:
                self._age.clone = self._clones.let_go(held)
            else:
                self._clones.drop(held)

    def uninstall(self) -> None:
        """Take the triggers, the journal and the clones out of the server; the tables stay as they are."""
        with self._lock, self._voice.speaking(ExplorationError, "the journal is still there"):
            self._take_out()

    def _take_out(self) -> None:
        ages = {self._state(token).facts.age for token in self._tokens} | {self._age}
        self._session.remove()
        self._is_out = True
        self._voice.ended = self._voice.ended or "the journal was taken out"
        self._tokens, self._age = {}, None
        for age in ages:
            if age is not None and age.clone not in (None, self._held):
                self._clones.drop(age.clone)

    def close(self) -> None:
        """Uninstall, and end the connection. What cannot be taken out now is replaced by the next system here."""
        with self._lock:
            was_told, self._voice.ended = self._voice.ended, None
            try:
                self._take_out_somehow()
            except ExplorationError as error:
                if was_told is None:
                    warnings.warn(str(error), ExplorationWarning, stacklevel=3)
            finally:
                self._voice.ended, self._is_out = was_told or "the system is closed", True
                self._session.link.close()
                self._clones.close()

    def _take_out_somehow(self) -> None:
        """Over a new connection, if the one there is is lost."""
        if self._is_out:
            return
        if not self._session.link.closed:
            try:
                self.uninstall()
            except ExplorationError:
                if not self._session.link.closed:
                    raise
        if not self._is_out:
            self._voice.ended = None
            self._session.connect()
            self.uninstall()

    # --- looking

    def _look(self) -> CapturedChanges:
        """Take in what happened; after a change of the schema, start a new age."""
        for _ in range(_TRIES):
            look = self._session.look()
            changes = look.changes or self._unwatched
            if not changes:
                self._take_in(look)
                return look
            self._leave_age(changes)
        raise ExplorationError(f"the schema was changed {_TRIES} times while the journal was read")

    def _take_in(self, look: CapturedChanges) -> None:
        if self._age is not None:
            add(self._pending, look.delta)
        if self._mirror is not None:
            self._mirror.change(look.delta)

    def _read_tables(self) -> CapturedChanges:
        """Read all tables, or those of which more is to be shown than is known."""
        for _ in range(_TRIES):
            mirror, self._mirror = self._mirror, None  # if this fails there is none
            try:
                with self._session.moment() as (look, cursor):
                    if not look.changes:
                        mirror = self._read_by(cursor, mirror, look)
            except psycopg.ProgrammingError:  # what is watched may be gone
                look = CapturedChanges(changes=self._session.schema_changes())
                if not look.changes:
                    raise
            if not look.changes:
                self._take_in(look)
                self._mirror = mirror
                return look
            self._leave_age(look.changes)
        raise ExplorationError(f"the schema was changed {_TRIES} times while the tables were read")

    def _read_by(
        self, cursor: Cursor, mirror: ObservedTables | None, look: CapturedChanges
    ) -> ObservedTables:
        if mirror is None:
            mirror = ObservedTables(self._session.watched, self._rows_shown)
            mirror.load(cursor)
        else:
            mirror.change(look.delta)
            mirror.load_tables(cursor, mirror.behind())
        return mirror

    # --- going

    def _go(self, state: State) -> CapturedChanges:
        if self._age is not None and self._age is state.facts.age:
            look = self._move(state)
            if not look.changes:
                return look
        self._return_to_age_of(state)
        return self._move(state)

    def _move(self, state: State) -> CapturedChanges:
        """Within an age."""
        change: Delta = {}

        def plan(look: CapturedChanges) -> tuple[Delta, Sequences]:
            change.clear()  # it may be planned more than once, when locks are not to be had
            path = self._tree.between(self._tree.here, state)
            assert path is not None  # both are of one age
            for delta, sign in ((path, 1), (self._pending, -1), (look.delta, -1)):
                add(change, delta, sign)
            return change, state.facts.sequences

        look = self._session.restore(plan)
        if not look.changes:
            if self._mirror is not None:
                self._mirror.change(look.delta)
                self._mirror.change(change)
            self._pending = {}
            self._tree.move(state)
        return look

    # --- ages

    def _begin_age(self, look: CapturedChanges) -> None:
        session, clone = self._session, None
        if self._may_clone():
            try:
                clone, look = self._clone()
            except psycopg.Error as error:
                if self._clones_when == "always" or session.link.closed:
                    raise
                self._voice.note(f"the database was not cloned ({said(error)}): changes of its schema stay")
                look = self._look()
        self._age = PostgresEpoch(session.watched, session.fingerprint, clone)
        self._tree.begin_anew(PostgresStateInfo(self._age, look.sequences))
        self._age.first = self._tree.here
        self._pending = {}

    def _may_clone(self) -> bool:
        if self._clones_when == "never" or not self._clones.are_permitted():
            return False
        return (
            self._clones_when == "always" or self._given > 0 or not self._clones.others(self._session.process)
        )

    def _clone(self) -> tuple[str, CapturedChanges]:
        with self._alone("cloning the database"):
            look = self._session.look()
            if look.changes:
                raise CheckpointError("the schema is being changed while the database is cloned; try again")
            self._take_in(look)
            self._session.link.close()
            return self._clones.make(), look

    def _return_to_age_of(self, state: State) -> None:
        age = state.facts.age
        if age is None or age.clone is None or age.first is None:
            raise RollbackError(
                "the schema was changed since that checkpoint, and no clone was made before: others were connected at "
                "the first checkpoint, or this role may not create databases. Make the first checkpoint before the "
                'application connects, or use clones="always"'
            )
        with self._alone("putting a clone in the database's place"):
            self._session.link.close()
            self._clones.put_back(age.clone)
        self._session.watched, self._session.fingerprint = age.watched, age.fingerprint
        before, self._age = self._age, age
        self._pending, self._mirror, self._unwatched = {}, None, ()
        self._tree.move(age.first)
        self._forget(before)

    def _leave_age(self, changes: Sequence[str]) -> None:
        """The schema was changed: nothing that is known of the rows holds any more."""
        before, self._age = self._age, None
        self._pending, self._mirror = {}, None
        self._unwatched = changes
        self._session.watch(self._tables, self._ignore, strict=False)
        self._unwatched = ()
        self._check_sequence_caches()
        self._tree.begin_anew(PostgresStateInfo(None, {}))
        if before is not None:
            way = "a whole copy of the database" if before.clone else "nothing: no clone was made before it"
            self._voice.note(
                f"the schema was changed ({', '.join(sorted(set(changes)))}); what brings back an earlier "
                f"checkpoint is now {way}"
            )
            self._forget(before)

    def _forget(self, age: PostgresEpoch | None) -> None:
        """Drop the clone of an age that nobody can go back to."""
        if age is not None and age.clone is not None and not age.tokens and age is not self._age:
            if age.clone != self._held:
                self._clones.drop(age.clone)
            age.clone = None

    @contextmanager
    def _alone(self, doing: str) -> Iterator[None]:
        """Nobody else on the database; afterwards everybody may come back, and the session is a new one."""
        ended = self._clones.others(self._session.process)
        try:
            self._clones.fence(self._session.process)
            yield
        finally:
            self._clones.open()
            if self._session.link.closed:
                self._session.connect()
        if ended:
            self._voice.note(
                f"{doing} ended {ended} connection(s) of the application; it has to connect again"
            )

    # --- saying

    def _state(self, token: Any) -> State:
        if token not in self._tokens:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        return self._tree[self._tokens[token]]

    def _check_sequence_caches(self) -> None:
        cached = [each.label for each in self._session.watched.sequences.values() if each.cached]
        if cached:
            self._voice.note(
                f"the sequence(s) {', '.join(cached)} have a CACHE: each connection keeps numbers of its own, which "
                "no rollback takes back",
                once="cache",
            )

    def _note_hazards(self, look: CapturedChanges) -> None:
        if look.large_objects:
            self._voice.note(
                "the database holds large objects, which are not rolled back", once="large objects"
            )
        if look.advisory_locks:
            self._voice.note(
                "a session holds advisory locks, which are not rolled back", once="advisory locks"
            )


def _size(state: State) -> int:
    return sum(len(image) + 100 for _, image in state.delta)  # a str, its tuple, its place in a dict
