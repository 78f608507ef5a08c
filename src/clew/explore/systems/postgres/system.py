"""A PostgreSQL database that can be restored to any of its checkpoints in any order, while the application uses its own
connections and commits.

::

    catalog         the watched tables, columns, keys and sequences
    triggers        the journal that triggers write
    change_capture  reads the journal, over the connection of `connection`
    restore         moves rows
    observation     observes tables; `row_images` has their rows
    epochs          the time between two schema changes, what the schema consists of; undoes additions
    recovery        restores the database in another process
    diagnostics     errors and warnings
    deltas          combines all of these
    savepoints      the alternative: one transaction

Not rolled back: large objects, advisory locks and cached sequence numbers (each with a warning), roles, other
databases, and tables that are not watched.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import SystemSetupError
from clew.explore.model.system import Observation
from clew.explore.systems.tables import Ignore, TableSchema, postgres_tables, table_choice
from clew.explore.systems.version_tokens import ClosableSystem

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

_MAX_SCHEMA_BYTES = 48  # trigger names contain it


class PostgresSystem(ClosableSystem):
    """The rows of a PostgreSQL database.

    The `data` of an observation has each watched table by name (`orders`, or `shop.orders` outside of the schema
    `public`): a list of rows as dicts, ordered by the key; or, for a table of more than `rows_shown` rows, `{"rows":
    count, "digest": text}`. The `digest` covers all rows of all tables. Sequences are rolled back, but are not part of
    the identity of a state.

    Args:
        dsn: The database. In savepoint mode it can be a connection.
        tables: The tables to roll back. A partitioned table stands for all of its partitions. [default: all]
        observe: The tables that are part of the state, by name or by pattern. [default: all that are rolled back]
        ignore: Columns that are rolled back but not part of the state, by pattern: `["*.updated_at"]`, or by table.
        mode: "deltas" restores in any order; of schema changes, only additions are undone. "savepoint" works inside one
            transaction, last in, first out.
        schema: The schema of the journal, which exists while the system is open.
        rows_shown: The maximum number of rows of a table that observations show row by row.
        lock_timeout: Seconds that a restore waits for open transactions of the application.
    """

    ordering: Literal["any", "lifo"] = "any"

    def __new__(cls, *arguments: Any, mode: str = "deltas", **options: Any) -> PostgresSystem:
        """Choose the class for a mode."""
        if cls is not PostgresSystem:
            return super().__new__(cls)
        if mode == "savepoint":
            from clew.explore.systems.postgres.savepoints import Savepoints

            return super().__new__(Savepoints)
        from clew.explore.systems.postgres.deltas import Deltas

        return super().__new__(Deltas)

    def __init__(
        self,
        dsn: str | Connection,
        *,
        tables: Iterable[str] | None = None,
        observe: Iterable[str] | None = None,
        ignore: Ignore = (),
        mode: Literal["deltas", "savepoint"] = "deltas",
        schema: str = "clew_explore",
        rows_shown: int = 100,
        lock_timeout: float = 5.0,
    ) -> None:
        _check(dsn, mode, schema)
        self._choice = table_choice(tables, observe, ignore)
        self._schema = schema
        self._rows_shown = rows_shown
        self._lock_timeout = lock_timeout
        self._lock = threading.RLock()
        self._open(dsn)

    def _open(self, dsn: Any) -> None:
        """Connect to the database."""
        raise NotImplementedError

    @property
    def connection(self) -> Connection:
        """Return the shared connection; only in savepoint mode."""
        raise AttributeError(
            "connection: available only in savepoint mode; otherwise open your own connections"
        )

    def observe(self) -> Observation:
        """Return an observation of the watched tables."""
        raise NotImplementedError

    def checkpoint(self, name: str) -> Any:
        """Return a token for the current state. `name` appears in messages."""
        raise NotImplementedError

    def rollback(self, token: Any) -> None:
        """Restore the state of a token. The token stays valid."""
        raise NotImplementedError

    def is_valid(self, token: Any) -> bool:
        """Return whether a token can be restored."""
        raise NotImplementedError

    def release(self, token: Any) -> None:
        """Discard a token; an unknown one is not an error."""
        raise NotImplementedError

    def describe(self) -> dict[str, TableSchema]:
        """Return the columns, keys and foreign keys of each table by name, as observations name them."""
        return postgres_tables(self._query)

    def _query(self, sql: str) -> Iterable[Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Remove the triggers and the journal, and disconnect. The rows stay as they are."""
        raise NotImplementedError


def _check(dsn: Any, mode: str, schema: str) -> None:
    if mode not in ("deltas", "savepoint"):
        raise SystemSetupError(f'mode: expected "deltas" or "savepoint", got {mode!r}')
    if mode == "deltas" and not isinstance(dsn, str):
        raise SystemSetupError('dsn: expected a connection string; a connection needs mode="savepoint"')
    if not schema or len(schema.encode()) > _MAX_SCHEMA_BYTES or "\0" in schema or schema.startswith("pg_"):
        raise SystemSetupError(
            f"schema: expected a name of 1 to {_MAX_SCHEMA_BYTES} bytes that does not start with pg_, got {schema!r}"
        )
