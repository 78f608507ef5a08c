"""What stores say when they refuse something: one wording for all of them, so that advice is the same everywhere."""

from __future__ import annotations

from clew.errors import StoreVersionError
from clew.stores.protocol import OWN_STEP, LogEntry

NO_DATABASE = (
    "ctx.transaction() writes to the store's own database, and a store in memory has none; give the engine a "
    "SQLiteStore or a PostgresStore"
)


def exists(run_id: str) -> str:
    """What RunExistsError says."""
    return (
        f"there is a run {run_id!r} already; choose another run_id, or go on with engine.resume({run_id!r})"
    )


def unknown(run_id: str) -> str:
    """What UnknownRunError says."""
    return f"there is no run {run_id!r}; engine.runs() lists those there are"


def owned(run_id: str, owner: str, expires_in: float) -> str:
    """What RunOwnedError says to somebody who wants a run."""
    return (
        f"run {run_id!r} is owned by {owner}, which is alive (its lease lasts another {max(expires_in, 0.0):.0f} s); "
        f"wait for it, or cancel it there"
    )


def replaced(run_id: str, path: object) -> str:
    """What UnknownRunError says when the file that a run was in is gone."""
    return (
        f"run {run_id!r} is gone: {path} was removed or replaced while this store had it open; close the store and "
        f"open it again"
    )


def taken_over(run_id: str) -> str:
    """What RunOwnedError says to somebody who had a run."""
    return (
        f"run {run_id!r} was taken over by another owner, so this commit is refused; nothing of it was kept"
    )


def conflict(run_id: str, entry: LogEntry) -> str:
    """What CommitConflictError says."""
    return (
        f"run {run_id!r} has another {place(entry.kind, entry.path, entry.n)} already; two owners worked on it, or its "
        f"code is not deterministic"
    )


def has_fork(run_id: str, fork: str) -> str:
    """What StoreError says to somebody who deletes a run that another one goes on from."""
    return f"run {run_id!r} has a fork, {fork!r}, that builds on it; delete that first"


def damaged_entry(run_id: str, kind: str, path: str, n: int) -> str:
    """What StoreCorruptError says about an entry that is not what was written."""
    return f"run {run_id!r}: {place(kind, path, n)} is damaged: its checksum does not fit; other runs can be read"


def damaged_row(run_id: str, what: str) -> str:
    """What StoreCorruptError says about a run of which the row is not what was written."""
    return f"run {run_id!r}: what is known about it is damaged: {what}; other runs can be read"


def lost_content(digest: str, where: str, *, is_there: bool) -> str:
    """What StoreCorruptError says about a large content."""
    return f"the content {digest[:12]}… is {'damaged in' if is_there else 'missing from'} {where}"


def refused(run_id: str, sql: str, error: Exception) -> str:
    """What StoreError says about a statement of `ctx.transaction`."""
    said = " ".join(str(error).split())
    return f"run {run_id!r}: the database refused {sql!r} ({said}); nothing of its step was kept"


def place(kind: str, path: str, n: int) -> str:
    """An entry's name, for people."""
    if kind == OWN_STEP:
        return f"step {n} of {path}" if path else f"step {n}"
    return f"{kind} {path} {n}".replace("  ", " ")


def check_version(version: int, oldest: int, newest: int, where: str) -> None:
    """Refuse a store that another version of this library wrote and this one does not read; 0 is a new one."""
    if version > newest:
        raise StoreVersionError(
            f"{where} was written by a newer Clew (format {version}, this one reads up to {newest}); update Clew"
        )
    if 0 < version < oldest:
        raise StoreVersionError(
            f"{where} was written by an older Clew (format {version}, this one reads {oldest} to {newest}); read it "
            f"with the version that wrote it, or give Clew a new store"
        )
