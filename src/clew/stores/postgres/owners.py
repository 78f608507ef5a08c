"""What a row in PostgreSQL says about the owner of a run, in SQL.

A lease lasts until a time of the server's clock; no client brings a time. The owner's slot is the key of the
advisory lock that its connections hold (`clew.stores.postgres.connection`). A restart of the server releases all
locks, so a row has the time at which the server was started, too: a lock that is free says nothing about an owner
from before a restart, and its lease decides.
"""

from __future__ import annotations

from clew.stores.postgres.connection import LIVES

NOW = "extract(epoch FROM clock_timestamp())::double precision"
SERVER = "extract(epoch FROM pg_postmaster_start_time())::double precision"
UNTIL = f"{NOW} + %s::double precision"
"""When a lease of so many seconds that begins now runs out."""

LEASE = f"until = {UNTIL}, server = {SERVER}"
RELEASED = "owner = '', slot = 0, until = 0.0"

CLAIM = f"""
    UPDATE runs SET fence = CASE fence WHEN 0 THEN id << 32 ELSE fence END + 1, owner = %s, slot = %s, {LEASE}
    WHERE key = %s AND (owner IN ('', %s) OR until <= {NOW} OR server = {SERVER} AND NOT EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {LIVES} AND objid = slot::oid AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )) RETURNING fence
"""
OWNER = (
    f"SELECT owner, CASE server WHEN {SERVER} THEN slot ELSE 0 END, until - {NOW} FROM runs WHERE key = %s"
)
"""Selects an owner, its slot (0 if its lock says nothing), and for how many seconds its lease lasts."""
