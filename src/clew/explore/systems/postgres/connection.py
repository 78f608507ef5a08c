"""The system's own connection to PostgreSQL, and the text of its errors.

The connection is used only for the journal and for restores, so its settings always apply: triggers, rules and foreign
keys are disabled (`session_replication_role = replica`), text has one fixed format, and commits do not wait for the
disk. A broken connection is not replaced silently, because it is unknown which rows of the journal were read before.
All checkpoints end with it.
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

# With these settings the text of a value is unique, and reads back as the same value.
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
    "clew.restoring": "on",  # the journal's triggers check it
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
_MIN_VERSION = 140000
_LOCK_CLASS = 0x436C6578  # of the advisory lock of an explored database
_CLAIM_TIMEOUT = 10.0  # seconds in which a busy server ends the session of a killed process


def address(dsn: str) -> dict[str, Any]:
    """Return the parts of a connection string."""
    if psycopg is None:  # pragma: no cover - the extra is not installed
        raise SystemSetupError("PostgresSystem needs psycopg; install it with: pip install 'clew[postgres]'")
    try:
        return conninfo_to_dict(dsn)
    except psycopg.Error as error:
        raise SystemSetupError(f"dsn: invalid connection string ({said(error)})") from error


def connect(parts: dict[str, Any]) -> Connection:
    """Open the system's connection; the role must be allowed to disable triggers."""
    defaults = {"application_name": "clew explore", "connect_timeout": 10}
    try:
        # RawCursor: parameters are $1 and $2, and a % in a table name has no meaning.
        link = psycopg.connect(autocommit=True, cursor_factory=psycopg.RawCursor, **{**defaults, **parts})
    except psycopg.Error as error:
        raise SystemSetupError(f"cannot connect to PostgreSQL ({said(error)})") from error
    link.prepare_threshold = 0
    if link.info.server_version < _MIN_VERSION:
        link.close()
        raise SystemSetupError(
            f"PostgreSQL {link.info.server_version // 10000} is too old; version 14 or later is required"
        )
    try:
        style(link, _SESSION)
        link.execute("SET session_replication_role = replica", prepare=False)
    except psycopg.errors.InsufficientPrivilege as error:
        user = link.info.user
        link.close()
        raise SystemSetupError(
            f"role {user} is not allowed to disable triggers and foreign keys during a restore; "
            "a superuser can allow it for this role, or a role that it is a member of (PostgreSQL 15 or later):\n"
            f'    GRANT SET ON PARAMETER session_replication_role TO "{user.replace(chr(34), chr(34) * 2)}";'
        ) from error
    except BaseException:
        link.close()
        raise
    return link


def style(link: Connection, settings: dict[str, str]) -> None:
    """Apply settings to a session."""
    calls = ", ".join(f"set_config(${2 * n + 1}, ${2 * n + 2}, false)" for n in range(len(settings)))
    pairs = [part for pair in settings.items() for part in pair]
    link.execute(f"SELECT {calls}".encode(), pairs, prepare=False)


def claim(link: Connection, schema: str) -> None:
    """Claim the database and journal for this system; the claim of a killed process ends soon."""
    with link.transaction():
        link.execute(f"SET LOCAL lock_timeout = {max(1, int(_CLAIM_TIMEOUT * 1000))}".encode(), prepare=False)
        try:
            link.execute("SELECT pg_advisory_lock($1, hashtext($2))", (_LOCK_CLASS, schema))
        except psycopg.errors.LockNotAvailable as error:
            raise SystemSetupError(
                f"another PostgresSystem uses this database with the journal {schema!r}; close it first, "
                "or give each its own database"
            ) from error


def said(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def was_interrupted(error: BaseException) -> bool:
    """Return whether an interrupt caused the error: psycopg may raise the error of the cancelled statement instead."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def run_all(link: Connection, statements: Sequence[tuple[str, Sequence[Any] | None]]) -> list[Cursor]:
    """Execute statements in one round trip, and return a cursor for each."""
    cursors = []
    with link.pipeline():
        for sql, values in statements:
            cursor = link.cursor()
            # Preparing control statements (BEGIN, SET, LOCK) has no benefit.
            cursor.execute(sql.encode(), values, prepare=values is not None)
            cursors.append(cursor)
    return cursors
