"""Owners in PostgreSQL, as SQL: the table `workers`, with one row and one lease for each.

A lease ends at a time of the server's clock; clients send no times. The slot of an owner is the key of the advisory
lock that its connections hold (`clew.stores.postgres.connection`). A restart of the server releases all locks, so a row
also holds the start time of the server: for an owner from before a restart, only the lease decides.

A released lock does not prove that its owner is dead: all of its connections may have been cut. For an owner on this
machine, the store checks the process. An owner on another machine that executes runs connects again within about a
second, because it reads its inboxes; it has several seconds to do so.

An owner that is declared dead stays dead, and its row stays while it owns runs. So a statement may take a run from an
owner that it sees as dead, even if it had to wait for the row of the run and other data has changed in the meantime. It
must not conclude anything from a row that it does not see.
"""

from __future__ import annotations

import os
import socket
from typing import Any

LIVES = 0x436C6577  # class of the advisory locks of owners; the second half of the key is the slot
KEPT = 3600.0  # seconds for which a dead owner without runs is listed

NOW = "extract(epoch FROM clock_timestamp())::double precision"
SERVER = "extract(epoch FROM pg_postmaster_start_time())::double precision"


def enroll(when: str) -> str:
    """Return a statement that registers an owner, or renews its lease if less than half is left, on a condition. It
    locks nothing otherwise. `enrolling` returns its values."""
    return f"""
        INSERT INTO @.workers (owner, label, host, pid, started, slot, server, until, dead, info)
        SELECT given.owner, '', given.host, given.pid, {NOW}, given.slot, {SERVER}, {NOW} + given.lease, false, '{{}}'
        FROM (VALUES (%s::text, %s::text, %s::integer, %s::integer, %s::double precision))
            AS given (owner, host, pid, slot, lease)
        WHERE given.owner <> '' AND {when} AND NOT EXISTS (
            SELECT FROM @.workers WHERE workers.owner = given.owner AND (dead OR until > {NOW} + given.lease / 2)
        )
        ON CONFLICT (owner) DO UPDATE SET slot = excluded.slot, server = excluded.server, until = excluded.until
        WHERE NOT workers.dead
    """


RENEW = f"slot = %s, server = {SERVER}, until = {NOW} + %s::double precision"

FIND = f"""
    SELECT runs.owner, runs.token, runs.child_of, workers.dead, workers.until - {NOW},
        CASE workers.server WHEN {SERVER} THEN workers.slot ELSE 0 END, workers.host, workers.pid
    FROM @.runs LEFT JOIN @.workers ON workers.owner = runs.owner WHERE runs.key = %s
"""
"""Selects an owner, its token, the run that contains a child, whether the owner is dead, the seconds until its lease
ends, its slot (0 if only the lease decides), its host and its process."""

_LOCK_IS_GONE = f"""slot <> 0 AND server = {SERVER} AND NOT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {LIVES} AND objid = slot::oid AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)"""
SILENT = f"SELECT owner, host, pid, slot FROM @.workers WHERE NOT dead AND until > {NOW} AND {_LOCK_IS_GONE}"
EXPIRE = f"""
    UPDATE @.workers SET dead = true
    WHERE NOT dead AND (until <= {NOW} OR owner = ANY(%s::text[]) AND {_LOCK_IS_GONE})
"""
BURY_SILENT = f"UPDATE @.workers SET dead = true WHERE owner = %s AND until <= {NOW}"
BURY_KILLED = f"UPDATE @.workers SET dead = true WHERE owner = %s AND slot = %s AND server = {SERVER}"
BURY_UNKNOWN = f"""
    INSERT INTO @.workers (owner, label, host, pid, started, slot, server, until, dead, info)
    VALUES (%s, '', '', 0, {NOW}, 0, 0, 0, true, '{{}}') ON CONFLICT DO NOTHING
"""
FORGET = f"""
    DELETE FROM @.workers WHERE (dead AND owner = %s OR until < {NOW} - {KEPT})
    AND NOT EXISTS (SELECT FROM @.runs WHERE runs.owner = workers.owner AND runs.owner <> '')
"""
"""Deletes an owner that has ended, and those whose lease ended long ago, if they have no runs."""

WORKERS = f"""
    SELECT owner, label, host, pid, started, until - {NOW}, dead, {_LOCK_IS_GONE}, slot, info
    FROM @.workers ORDER BY owner
"""


def enrolling(owner: str, slot: int, lease: float) -> tuple[Any, ...]:
    """Return the values of `ENROLL`."""
    return owner, socket.gethostname(), os.getpid(), slot, lease
