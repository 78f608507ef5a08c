"""A PostgreSQL database as a system: checkpoint and restore in any order, while the application uses its own
connections and really commits.

The parts, each in a module of its own: what is watched (`postgres_catalog`), the journal that triggers write
(`postgres_journal`, `postgres_session` on the connection of `postgres_link`), moving rows (`postgres_restore`), what is
observed (`postgres_mirror`, `postgres_rows`), copies of the database for changes of its schema (`postgres_clones`),
what another process can go back to (`postgres_kept`), what goes wrong (`postgres_voice`), all joined in
`postgres_deltas`; and savepoints (`postgres_savepoints`).

What is not rolled back: large objects, advisory locks, numbers that a connection has cached of a sequence (all are
warned about), roles, other databases, and tables that are not watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import SystemSetupError
from clew.explore.model.observation import Observation
from clew.explore.systems.postgres.deltas import CloneChoice, Deltas
from clew.explore.systems.postgres.savepoints import Savepoints

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

_LONGEST_SCHEMA = 48  # bytes: names of triggers are made of it


class PostgresSystem:
    """The rows of a PostgreSQL database.

    An observation's `data` holds each watched table by its name (`orders`, or `shop.orders` outside of the schema
    `public`): a list of rows, each a dict, in the order of the key; or, for a table of more than `rows_shown` rows,
    `{"rows": count, "digest": text}`. `digest` stands for all rows of all tables, whatever is shown. Sequences are
    rolled back, and are no part of what identifies a state.

    Args:
        dsn: The database; in savepoint mode a connection can be given instead.
        tables: The tables to watch, all by default. A partitioned table means all of its partitions.
        ignore: Columns that do not count, by table: `{"orders": ["updated_at"]}`. They are restored, and not observed.
        mode: "deltas" restores in any order. "savepoint" works inside one transaction, last in, first out.
        schema: Where the journal is kept while the system is open.
        rows_shown: How many rows a table may have to be shown row by row. Every state keeps what was shown.
        clones: When the whole database is copied, so that a change of its schema can be undone: "auto" at the first
            checkpoint if nobody else is connected, and after each change; "always" and "never" whoever is connected.
        lock_timeout: Seconds that a restore waits for open transactions of the application.
    """

    def __init__(
        self,
        dsn: str | Connection,
        *,
        tables: Sequence[str] | None = None,
        ignore: Mapping[str, Iterable[str]] | None = None,
        mode: Literal["deltas", "savepoint"] = "deltas",
        schema: str = "clew_explore",
        rows_shown: int = 100,
        clones: CloneChoice = "auto",
        lock_timeout: float = 5.0,
    ) -> None:
        _check(dsn, tables, mode, schema, clones)
        watch: dict[str, Any] = {"tables": tables, "ignore": ignore or {}, "schema": schema}
        self._way: Deltas | Savepoints
        if mode == "savepoint":
            self._way = Savepoints(dsn, rows_shown=rows_shown, **watch)
        else:
            assert isinstance(dsn, str)
            self._way = Deltas(dsn, rows_shown=rows_shown, clones=clones, lock_timeout=lock_timeout, **watch)

    @property
    def ordering(self) -> Literal["any", "lifo"]:
        return self._way.ordering

    @property
    def connection(self) -> Connection:
        """In savepoint mode, the connection that everybody shares."""
        if isinstance(self._way, Savepoints):
            return self._way.connection
        raise AttributeError("connection: only in savepoint mode; otherwise the application has its own")

    def observe(self) -> Observation:
        """What the watched tables hold."""
        return self._way.observe()

    def checkpoint(self, name: str) -> Any:
        """A token for the state that is there now. `name` is a label for people."""
        return self._way.checkpoint(name)

    def rollback(self, token: Any) -> None:
        """Restore the state of a token, which stays valid."""
        self._way.rollback(token)

    def is_valid(self, token: Any) -> bool:
        """Whether a token can be restored."""
        return self._way.is_valid(token)

    def release(self, token: Any) -> None:
        """Free what a token holds; no error for one that is not there."""
        self._way.release(token)

    def size(self, token: Any) -> int:
        """The bytes that a token holds in this process: those of the rows that changed."""
        return self._way.size(token) if isinstance(self._way, Deltas) else 0

    def save_baseline(self, token: Any) -> Iterable[bytes]:
        """Return the watched rows at the latest checkpoint as byte strings for `restore_baseline` in another process.

        In savepoint mode the server itself takes everything back when a process is killed.
        """
        return self._way.save_baseline(token) if isinstance(self._way, Deltas) else ()

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Hold the rows that were kept, with the sequences; and the schema, if there is a clone of it.

        False if they are of another database, which are left alone.
        """
        return not isinstance(self._way, Deltas) or self._way.restore_baseline(pieces)

    def release_baseline(self) -> None:
        """Nobody has to come back after this process."""
        if isinstance(self._way, Deltas):
            self._way.release_baseline()

    def uninstall(self) -> None:
        """Take everything of the system's out of the database: triggers, journal, clones. The rows stay as they are."""
        self._way.uninstall()

    def close(self) -> None:
        """Uninstall, and disconnect."""
        self._way.close()

    def __enter__(self) -> PostgresSystem:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check(dsn: Any, tables: Any, mode: str, schema: str, clones: str) -> None:
    if mode not in ("deltas", "savepoint"):
        raise SystemSetupError(f'mode: {mode!r} is neither "deltas" nor "savepoint"')
    if clones not in ("auto", "always", "never"):
        raise SystemSetupError(f'clones: {clones!r} is not one of "auto", "always", "never"')
    if mode == "deltas" and not isinstance(dsn, str):
        raise SystemSetupError(
            'dsn: an address (text) is needed; a connection can be shared with mode="savepoint" only'
        )
    if isinstance(tables, str):
        raise SystemSetupError(f"tables: a list is needed: [{tables!r}]")
    if not schema or len(schema.encode()) > _LONGEST_SCHEMA or "\0" in schema or schema.startswith("pg_"):
        raise SystemSetupError(
            f"schema: {schema!r} is not a name of 1 to {_LONGEST_SCHEMA} bytes that PostgreSQL leaves to others"
        )
