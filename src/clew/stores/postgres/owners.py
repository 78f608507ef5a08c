"""Owners of runs in PostgreSQL, as SQL.

A lease ends at a time of the server's clock; clients send no times. The slot of an owner is the key of the advisory
lock that its connections hold (`clew.stores.postgres.connection`). A restart of the server releases all locks, so a row
also holds the start time of the server: for an owner from before a restart, only the lease decides.
"""

from __future__ import annotations

from clew.stores.postgres.connection import LIVES

NOW = "extract(epoch FROM clock_timestamp())::double precision"
SERVER = "extract(epoch FROM pg_postmaster_start_time())::double precision"
UNTIL = f"{NOW} + %s::double precision"
"""The end of a lease of some seconds that starts now."""

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
"""Selects an owner, its slot (0 if only the lease decides), and the seconds until its lease ends."""
