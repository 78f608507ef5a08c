"""Error messages that all stores share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clew.errors import StoreVersionError, UnknownRunError
from clew.stores.protocol import OWN_STEP, LogEntry

NO_DATABASE = (
    "ctx.transaction() needs a store with a database, and a memory store has none; use a SQLiteStore or a "
    "PostgresStore"
)


def exists(run_id: str) -> str:
    """Return the message of RunExistsError."""
    return (
        f"run {run_id!r} already exists; choose another run_id, or continue it with engine.resume({run_id!r})"
    )


MOST_RECENT = 100
RECENT = f"SELECT run_id FROM runs ORDER BY id DESC LIMIT {MOST_RECENT}"
"""The runs among which `unknown` looks for similar names; the limit keeps an unknown id cheap in a large store."""


def moved(thread: str, head: str | None) -> str:
    """Return the message of ThreadMovedError."""
    now = "does not exist" if head is None else f"has continued with run {head!r}"
    return f"thread {thread!r} {now}; read its state with engine.thread({thread!r}), and try again"


def unknown(run_id: str, recent: Iterable[Sequence[str]]) -> UnknownRunError:
    """Return the error for a run that does not exist; it suggests similar ids among the rows `recent`."""
    return UnknownRunError(
        f"run {run_id!r} does not exist", run_id=str(run_id), recent=tuple(row[0] for row in recent)
    )


def owned(run_id: str, owner: str, expires_in: float) -> str:
    """Return the message of RunOwnedError for a process that tries to claim a run."""
    return (
        f"run {run_id!r} is owned by {owner}, which is alive (its lease expires in {max(expires_in, 0.0):.0f} s); "
        f"wait for it, or cancel the run there"
    )


def declared_dead(owner: str) -> str:
    """Return the message of OwnerDeadError."""
    return (
        f"{owner} did not renew its lease in time and was declared dead, so it has lost its runs; other processes can "
        f"resume them"
    )


def replaced(what: str, path: object) -> str:
    """Return the message of UnknownRunError if the file of the store was replaced."""
    return (
        f"{what} is gone: {path} was removed or replaced while this store had it open; close the store and "
        f"open it again"
    )


def taken_over(run_id: str) -> str:
    """Return the message of RunOwnedError for a process that has lost a run."""
    return f"run {run_id!r} now belongs to another owner; this commit was rejected and nothing was written"


def conflict(run_id: str, entry: LogEntry) -> str:
    """Return the message of CommitConflictError."""
    return (
        f"run {run_id!r} already has a different {place(entry.kind, entry.path, entry.n)}; two processes ran it at the "
        f"same time, or its code is not deterministic"
    )


def has_fork(run_id: str, fork: str) -> str:
    """Return the message of StoreError for the deletion of a run that has a fork."""
    return f"run {run_id!r} has a fork, {fork!r}; delete the fork first"


def damaged_entry(run_id: str, kind: str, path: str, n: int) -> str:
    """Return the message of StoreCorruptError for an entry."""
    return f"run {run_id!r}: {place(kind, path, n)} is damaged: checksum mismatch; other runs can be read"


def damaged_row(run_id: str, what: str) -> str:
    """Return the message of StoreCorruptError for the row of a run."""
    return f"run {run_id!r}: its row is damaged: {what}; other runs can be read"


def damaged_owner(owner: str) -> str:
    """Return the message of StoreCorruptError for the row of an owner."""
    return f"the row of owner {owner!r} is damaged; runs without owners can be used"


def lost_content(digest: str, where: str, *, is_there: bool) -> str:
    """Return the message of StoreCorruptError for a large content."""
    return f"the content {digest[:12]}… is {'damaged in' if is_there else 'missing from'} {where}"


def refused(run_id: str, sql: str, error: Exception) -> str:
    """Return the message of StoreError for a statement of `ctx.transaction`."""
    reason = " ".join(str(error).split())
    return f"run {run_id!r}: the database rejected {sql!r} ({reason}); nothing of this step was written"


def place(kind: str, path: str, n: int) -> str:
    """Return an entry's name, for messages."""
    if kind == OWN_STEP:
        return f"step {n} of {path}" if path else f"step {n}"
    return f"{kind} {path} {n}".replace("  ", " ")


def check_version(version: int, oldest: int, newest: int, where: str) -> None:
    """Raise StoreVersionError for a store in a format that this version cannot read; 0 is a new store."""
    if version > newest:
        raise StoreVersionError(
            f"{where} was written by a newer Clew (format {version}, this version reads up to {newest}); update Clew"
        )
    if 0 < version < oldest:
        raise StoreVersionError(
            f"{where} was written by an older Clew (format {version}, this version reads {oldest} to {newest}); read "
            f"it with the version that wrote it, or use a new store"
        )
