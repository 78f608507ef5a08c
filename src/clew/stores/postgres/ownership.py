"""Ownership of runs in PostgreSQL: methods of `PostgresStore`.

The row of a run holds its fence, its owner and the token of the claim. Claiming a run that is free is one statement,
which also registers the owner. Detecting whether an owner is alive takes longer.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec

from clew.errors import OwnerDeadError, RunOwnedError, UnknownRunError
from clew.stores.messages import declared_dead, owned
from clew.stores.postgres.connection import is_open_here
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.workers import (
    BURY_KILLED,
    BURY_SILENT,
    BURY_UNKNOWN,
    EXPIRE,
    FIND,
    FORGET,
    RENEW,
    SILENT,
    WORKERS,
    enroll,
    enrolling,
)
from clew.stores.protocol import Owner, WorkerRow
from clew.stores.sql_rows import worker_info

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor
    from clew.stores.postgres.store import PostgresStore

RELEASED = "owner = '', token = ''"

_CLAIM = f"""
    WITH claimed AS (
        UPDATE @.runs SET fence = CASE fence WHEN 0 THEN id << 32 ELSE fence END + 1,
            owner = %s, token = %s
        WHERE key = %s
        AND (child_of IS NOT NULL OR owner = '' OR owner = %s AND token = %s
            OR EXISTS (SELECT FROM @.workers WHERE workers.owner = runs.owner AND dead))
        AND NOT EXISTS (SELECT FROM @.workers WHERE workers.owner = %s AND dead)
        RETURNING id, fence
    ), enrolled AS ({enroll("EXISTS (SELECT FROM claimed)")}
    ), entry AS (
        UPDATE @.queue SET taken = true FROM claimed WHERE queue.run = claimed.id
    )
    SELECT fence FROM claimed
"""
_RETURNED = """status = CASE WHEN status = 'running'
    AND EXISTS (SELECT FROM @.queue WHERE queue.run = runs.id AND due < 'infinity') THEN 'queued' ELSE status END"""
_FREED = ", freed AS (UPDATE @.queue SET taken = false FROM changed WHERE queue.run = changed.id)"
_ABOUT = "the owners"
_TIDY = 600.0  # seconds
_GRACE = 5.0  # seconds in which a living owner on another machine takes its lock again
_LOOK = 0.1


def claim(store: PostgresStore, run_id: str, owner: str, *, lease: float, token: str = "") -> int:
    link, key, what = store._link, key_of(run_id), f"run {run_id!r}"
    token = token or token_hex(8)  # a repeated statement is one claim
    while True:
        values = (owner, token, key, owner, token, owner, *enrolling(owner, link.slot, lease))
        if found := link.fetch(what, _CLAIM, values):
            return int(found[0][0])
        holder, _, _, dead, expires_in, slot, host, pid = _find(store, run_id)
        if is_dead(store, owner):
            raise OwnerDeadError(declared_dead(owner))
        if not holder or dead:
            continue  # it was released or declared dead in the meantime
        if holder == owner:
            raise RunOwnedError(owned(run_id, holder, expires_in))
        if dead is None:
            link.change(what, BURY_UNKNOWN, (holder,))
        elif expires_in <= 0:
            link.change(what, BURY_SILENT, (holder,))
        elif _outlives(store, host, pid, slot) and (
            is_gone(host, pid, slot) or holder in _long_silent(store, {holder})
        ):
            link.change(what, BURY_KILLED, (holder, slot))
        else:
            raise RunOwnedError(owned(run_id, holder, expires_in))


def is_dead(store: PostgresStore, owner: str) -> bool:
    """Return whether an owner was declared dead."""
    return bool(store._link.fetch(_ABOUT, "SELECT 1 FROM @.workers WHERE owner = %s AND dead", (owner,)))


def release(store: PostgresStore, run_id: str, fence: int) -> None:
    try:
        store._change(run_id, fence, f"{RELEASED}, {_RETURNED}", also=_FREED)
    except (RunOwnedError, UnknownRunError):
        pass


def owner(store: PostgresStore, run_id: str) -> Owner | None:
    name, token, child_of, dead, expires_in, slot, host, pid = _find(store, run_id)
    outermost = name
    while child_of is not None:
        outermost, _, child_of, dead, expires_in, slot, host, pid = _find(store, child_of)
    if not outermost:
        return Owner(name, 0.0, False, token) if name else None
    is_alive = dead is False and not (_outlives(store, host, pid, slot) and is_gone(host, pid, slot))
    return Owner(outermost, expires_in or 0.0, is_alive, token)


def register(
    store: PostgresStore, owner: str, *, lease: float, label: str = "", info: Mapping[str, Any] | None = None
) -> None:

    def work(cursor: Cursor, _: bool) -> None:
        with cursor.connection.transaction():
            cursor.execute(enroll("true"), enrolling(owner, store._link.slot, lease))
            cursor.execute("UPDATE @.workers SET label = %s WHERE owner = %s", (label, owner))

    store._link.run(_ABOUT, work)
    renew(store, owner, lease=lease, info=info)


def renew(store: PostgresStore, owner: str, *, lease: float, info: Mapping[str, Any] | None = None) -> None:
    described = None if info is None else msgspec.json.encode(info).decode()
    statement = f"UPDATE @.workers SET {RENEW}, info = coalesce(%s, info) WHERE owner = %s AND NOT dead"
    if not store._link.change(_ABOUT, statement, (store._link.slot, lease, described, owner)):
        raise OwnerDeadError(declared_dead(owner))
    if (now := time.monotonic()) - store._tidied > _TIDY:
        store._tidied = now
        store._link.change(_ABOUT, FORGET, ("",))


def retire(store: PostgresStore, owner: str) -> None:
    store._link.change(_ABOUT, "UPDATE @.workers SET dead = true WHERE owner = %s", (owner,))
    store._link.change(_ABOUT, FORGET, (owner,))


def expire(store: PostgresStore) -> int:
    link = store._link
    silent = {owner: is_gone(host, pid, slot) for owner, host, pid, slot in link.fetch(_ABOUT, SILENT)}
    gone = [owner for owner, is_dead in silent.items() if is_dead]
    elsewhere = {owner for owner, is_dead in silent.items() if is_dead is None}
    count = link.change(_ABOUT, EXPIRE, ([*gone, *_long_silent(store, elsewhere)],))
    if count:
        link.change(_ABOUT, FORGET, ("",))
    return count


def _outlives(store: PostgresStore, host: str, pid: int, slot: int) -> bool:
    return store._link.outlives(slot, is_gone=bool(is_gone(host, pid, slot)))


def is_gone(host: str, pid: int, slot: int) -> bool | None:
    """Return whether the process of an owner whose lock is gone has ended, or has closed its store; None if it is on
    another machine."""
    if host != socket.gethostname():
        return None
    return not is_open_here(slot) if pid == os.getpid() else not is_running(pid)


def is_running(pid: int) -> bool:
    """Return whether a process runs on this machine; one that was killed and not yet waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return True


def _long_silent(store: PostgresStore, owners: Collection[str]) -> set[str]:
    """Return those of the owners on other machines that do not take their locks again for a while."""
    left = set(owners)
    until = time.monotonic() + _GRACE
    while left and time.monotonic() < until:
        time.sleep(_LOOK)
        left &= {
            owner
            for owner, host, pid, slot in store._link.fetch(_ABOUT, SILENT)
            if is_gone(host, pid, slot) is None
        }
    return left


def workers(store: PostgresStore) -> list[WorkerRow]:
    return [
        WorkerRow(
            owner,
            label,
            host,
            pid,
            started,
            expires_in,
            not dead and (not is_silent or is_gone(host, pid, slot) is False),
            worker_info(owner, info),
        )
        for owner, label, host, pid, started, expires_in, dead, is_silent, slot, info in store._link.fetch(
            _ABOUT, WORKERS
        )
    ]


def _find(store: PostgresStore, run_id: str) -> tuple[Any, ...]:
    return store._of_run(run_id, FIND, (key_of(run_id),))[0]
