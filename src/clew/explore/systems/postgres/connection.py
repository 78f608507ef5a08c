"""The system's own connection: settings under which an image is read back as it was written, and what an error means.

The session is used for nothing but the journal and restores, so what a restore needs holds for all of it: triggers,
rules and foreign keys sleep (`session_replication_role = replica`), text is written and read in one fixed style,
nothing waits for the disk. A connection that breaks is never made again behind anybody's back: nobody could say which
rows of the journal were taken out before it broke, so all checkpoints end with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.errors import SystemSetupError

try:
    import psycopg as psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:  # pragma: no cover - the extra is not installed
    psycopg = None  # type: ignore[assignment]

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]
    Cursor = psycopg.Cursor[tuple[Any, ...]]

# Under these a value is written as text in one way only, and read back as what it was.
TEXT_STYLE = {
    "search_path": "pg_catalog",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
}
_SESSION = TEXT_STYLE | {
    "array_nulls": "on",
    "xmloption": "content",
    "client_min_messages": "warning",
    "clew.restoring": "on",  # the journal's triggers look at it
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "jit": "off",
    "lock_timeout": "0",
    "plan_cache_mode": "force_generic_plan",
    "row_security": "off",  # an error is better than rows that a policy hides
    "statement_timeout": "0",
    "synchronous_commit": "off",
}
_OLDEST = 140000
_LOCKS = 0x436C6578  # the class of the advisory lock that says: this database is being explored


def address(dsn: str) -> dict[str, Any]:
    """The parts of a connection string."""
    if psycopg is None:  # pragma: no cover - the extra is not installed
        raise SystemSetupError("PostgresSystem needs psycopg; install it with: pip install 'clew[postgres]'")
    try:
        return conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise SystemSetupError(f"this is no address of a PostgreSQL database ({said(error)})") from error


def connect(parts: dict[str, Any]) -> Connection:
    """A session of the system's own; it needs the right to put triggers to sleep."""
    defaults = {"application_name": "clew explore", "connect_timeout": 10}
    try:
        # Raw: values are $1 and $2, and a % in the name of a table is only that.
        link = psycopg.connect(autocommit=True, cursor_factory=psycopg.RawCursor, **{**defaults, **parts})
    except psycopg.Error as error:
        raise SystemSetupError(f"PostgreSQL cannot be reached ({said(error)})") from error
    link.prepare_threshold = 0
    if link.info.server_version < _OLDEST:
        link.close()
        raise SystemSetupError(
            f"PostgreSQL {link.info.server_version // 10000} is too old; 14 is the oldest one"
        )
    try:
        style(link, _SESSION)
        link.execute("SET session_replication_role = replica", prepare=False)
    except psycopg.errors.InsufficientPrivilege as error:
        user = link.info.user
        link.close()
        raise SystemSetupError(
            f"the role {user} may not put triggers and foreign keys to sleep while rows are restored; "
            "a superuser can allow it (PostgreSQL 15 or later), for this role or one that it is a member of:\n"
            f'    GRANT SET ON PARAMETER session_replication_role TO "{user.replace(chr(34), chr(34) * 2)}";'
        ) from error
    except BaseException:
        link.close()
        raise
    return link


def style(link: Connection, settings: dict[str, str]) -> None:
    """Settings for a session."""
    calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(settings)))
    pairs = [part for pair in settings.items() for part in pair]
    link.execute(f"SELECT {calls}".encode(), pairs, prepare=False)


def claim(link: Connection, schema: str) -> None:
    """Be the only system on this database (and this journal); a killed one lets go within a moment."""
    with link.transaction():
        link.execute("SET LOCAL lock_timeout = '2s'", prepare=False)
        try:
            link.execute("SELECT pg_advisory_lock($1, hashtext($2))", (_LOCKS, schema))
        except psycopg.errors.LockNotAvailable as error:
            raise SystemSetupError(
                f"another PostgresSystem uses this database with the journal {schema!r}; close it first, "
                "or give each its own database"
            ) from error


def said(error: BaseException) -> str:
    """A server's message in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def was_interrupted(error: BaseException) -> bool:
    """While psycopg cancels a statement after Ctrl-C, the statement's own error may get in front of the interrupt."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def run_all(link: Connection, statements: Sequence[tuple[str, Sequence[Any] | None]]) -> list[Cursor]:
    """Statements in one round trip; each gives a cursor with its rows."""
    cursors = []
    with link.pipeline():
        for sql, values in statements:
            cursor = link.cursor()
            # What only steers (BEGIN, SET, LOCK) has no plan that would be worth keeping.
            cursor.execute(sql.encode(), values, prepare=values is not None)
            cursors.append(cursor)
    return cursors
