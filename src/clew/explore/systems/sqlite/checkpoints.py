"""The checkpoints of one SQLite database: a tree of row deltas, and the changes since its current node.

Deltas do not describe DDL. A schema change starts a new *schema epoch*: a copy of the whole database is made, and the
states of the epoch are that copy plus deltas. Each epoch is a separate root of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from clew.errors import CheckpointError, UnknownCheckpointError
from clew.explore.model.observation import Observation
from clew.explore.systems.delta_tree import DeltaNode, DeltaTree, add
from clew.explore.systems.sqlite import row_images as images
from clew.explore.systems.sqlite.schema import SQLiteTable, WatchedSchema

Item = tuple[int, bytes]  # table number, image
Delta = dict[Item, int]

Numbers = tuple[tuple[str, int], ...]  # that are restored, and are not part of the state


class SchemaEpoch(msgspec.Struct, eq=False):
    """The time between two schema changes."""

    schema: WatchedSchema
    version: int  # PRAGMA schema_version
    copy: Path  # of the database when the epoch started
    seq: int = 0  # the last journal entry in the copy
    shadows: Delta = {}  # the rows of all shadow tables in the copy
    root: StateNode | None = None  # the state of the copy


class SQLiteStateInfo(msgspec.Struct, eq=False):
    """Information about a state in addition to its delta."""

    epoch: SchemaEpoch
    sums: tuple[images.Sum, ...]
    numbers: Numbers
    observation: Observation | None = None


StateNode = DeltaNode[Item, SQLiteStateInfo]


class SQLiteCheckpoints:
    """The tokens, the states that they stand for, and the current state (`now`, None before the first epoch)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._tree: DeltaTree[Item, SQLiteStateInfo] | None = None
        self._delta: Delta = {}  # the changes since the tree's current node
        self.now: SQLiteStateInfo | None = None

    @property
    def current(self) -> SQLiteStateInfo:
        """Return the information about the current state."""
        assert self.now is not None  # the system reads the database first
        return self.now

    def begin_epoch(self, info: SQLiteStateInfo) -> None:
        """Make a state the root of a new epoch, and the current state."""
        if self._tree is None:
            self._tree = DeltaTree(info)
        else:
            self._tree.new_root(info)
        info.epoch.root = self._tree.here
        self._delta, self.now = {}, info

    def record(
        self,
        changes: Iterable[tuple[SQLiteTable, int, images.Row]],
        numbers: Numbers,
        shadows: Delta,
    ) -> None:
        """Add changed rows, each with +1 if it was inserted and -1 if it was removed, to the current state.

        `shadows` are changes of shadow tables that have no row triggers.
        """
        info, sums = self.current, None
        for table, sign, row in changes:
            image = images.encode(row)
            add(self._delta, {(table.number, image): sign})
            sums = list(info.sums) if sums is None else sums
            if not table.shadow:
                seen = images.observed(table, row, image)
                sums[table.number] = images.plus(sums[table.number], seen, sign)
        if shadows:
            add(self._delta, shadows)
        if sums is None and not shadows and numbers == info.numbers:
            return
        # A number is not part of the identity, so the observation stays valid if nothing else changed.
        observation = None if sums is not None or shadows else info.observation
        self.now = SQLiteStateInfo(info.epoch, tuple(sums or info.sums), numbers, observation)

    def checkpoint(self) -> int:
        """Return a token for the current state."""
        assert self._tree is not None
        if self._has_changed(self._tree.here):
            self._tree.step(self._delta, self.current)
            self._delta = {}
        return self._tree.mark()

    def check_current(self, token: int) -> None:
        """Raise a CheckpointError if the database has changed since a checkpoint."""
        node = self[token]
        assert self._tree is not None
        if self._tree.here is not node or self._has_changed(node):
            raise CheckpointError(
                f"{self._path}: the database has changed since the checkpoint; make a new checkpoint"
            )

    def _has_changed(self, node: StateNode) -> bool:
        return bool(self._delta) or self.current.numbers != node.info.numbers

    def path_to(self, node: StateNode) -> Delta:
        """Return the delta from the current state to a state of the same epoch."""
        assert self._tree is not None
        path = self._tree.between(self._tree.here, node)
        assert path is not None  # an epoch has one root
        add(path, self._delta, -1)
        return path

    def move(self, node: StateNode) -> None:
        """Make a state the current one; the caller has restored its rows."""
        assert self._tree is not None
        self._tree.move(node)
        self._delta, self.now = {}, node.info

    def __getitem__(self, token: int) -> StateNode:
        if self._tree is None:
            raise UnknownCheckpointError(f"Checkpoint not found: {token}")
        return self._tree[token]

    def __contains__(self, token: object) -> bool:
        return self._tree is not None and token in self._tree

    def release(self, token: int) -> None:
        """Discard a token."""
        if self._tree is not None:
            self._tree.release(token)

    def size(self, token: int) -> int:
        """Return the number of bytes that a token holds in memory."""
        return images.size(self[token].delta)

    def clear(self) -> None:
        """Discard all tokens and states."""
        self._tree = self.now = None
        self._delta = {}
