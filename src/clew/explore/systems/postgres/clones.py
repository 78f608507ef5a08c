"""Copies of the whole database, for changes that row deltas cannot undo: schema changes.

PostgreSQL copies a database only while no client is connected to it. So making a clone ends all connections, rejects
new ones until it is done, and allows them again; the caller closes its own connection. A replacement of the database is
first made under another name, with the owner, privileges and settings of the old one. The old one is renamed, and
dropped when the replacement is in place. The next process repairs what a killed one left unfinished (`recover`). A held
clone outlives its process, because another process may need it.
"""

from __future__ import annotations

import time
from hashlib import sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from clew.errors import SystemSetupError
from clew.explore.systems.postgres.catalog import quoted
from clew.explore.systems.postgres.change_capture import ChangeCapture
from clew.explore.systems.postgres.connection import psycopg

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection

_GRACE = (0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2)  # seconds; a server notices the end of a client with a delay
_LISTS = {"search_path", "temp_tablespaces", "local_preload_libraries", "session_preload_libraries"}
_PERMITTED = """
SELECT rolsuper OR (rolcreatedb AND pg_has_role(d.datdba, 'USAGE')) FROM pg_roles, pg_database d
WHERE rolname = current_user AND d.datname = $1
"""


class Clones:
    """The clones of one database."""

    def __init__(self, parts: dict[str, Any], database: str, schema: str) -> None:
        self._parts = parts
        self._database = database
        self.prefix = f"clew_{sha256(f'{database}/{schema}'.encode()).hexdigest()[:12]}_"
        self._old_name = f"{self.prefix}old"
        self._incoming = f"{self.prefix}incoming"
        self._holding = f"{self.prefix}held_"
        self.left: frozenset[str] = frozenset()  # held by a killed process
        self._admin_link: Connection | None = None

    def _admin(self) -> Connection:
        if self._admin_link is None or self._admin_link.closed:
            places = [name for name in ("postgres", "template1") if name != self._database]
            for last, place in enumerate(places, 1):
                try:
                    parts = {**self._parts, "dbname": place, "application_name": "clew explore"}
                    self._admin_link = psycopg.connect(
                        autocommit=True, cursor_factory=psycopg.RawCursor, **parts
                    )
                    break
                except psycopg.OperationalError:
                    if last == len(places):
                        raise
        assert self._admin_link is not None
        return self._admin_link

    def _run(self, sql: str) -> None:
        self._admin().execute(sql.encode(), prepare=False)

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._admin().execute(sql.encode(), values).fetchall()

    def are_permitted(self) -> bool:
        """Return whether the role is allowed to copy the database, which is done from another database."""
        try:
            return self._ask(_PERMITTED, self._database) == [(True,)]
        except psycopg.OperationalError:  # the role cannot connect to another database
            return False

    def others(self, own: int) -> int:
        """Return the number of other sessions on the database, without those that are ending."""
        counted = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2 AND backend_type = $3"
        )
        found = 0
        for wait in _GRACE:
            time.sleep(wait)
            found = int(self._ask(counted, self._database, own, "client backend")[0][0])
            if not found:
                break
        return found

    def fence(self, own: int) -> None:
        """End all other sessions on the database, and reject new ones until `open`."""
        self._run(f"ALTER DATABASE {quoted(self._database)} ALLOW_CONNECTIONS false")
        there = "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND pid <> $2 AND backend_type = $3"
        for (process,) in self._ask(there, self._database, own, "client backend"):
            try:
                self._ask("SELECT pg_terminate_backend($1::int, 5000)", process)
            except psycopg.errors.InsufficientPrivilege:
                pass  # a superuser's session: if it does not end, the server rejects the copy with a reason

    def open(self) -> None:
        """Allow new sessions."""
        self._run(f"ALTER DATABASE {quoted(self._database)} ALLOW_CONNECTIONS true")

    def make(self) -> str:
        """Copy the database, and return the name of the clone; no client may be connected."""
        name = f"{self.prefix}{token_hex(4)}"
        self._run(f"CREATE DATABASE {quoted(name)} TEMPLATE {quoted(self._database)}")
        return name

    def replace_with(self, clone: str) -> None:
        """Replace the database with a copy of a clone; no client may be connected to either."""
        database, old, incoming = map(quoted, (self._database, self._old_name, self._incoming))
        self._run(f"DROP DATABASE IF EXISTS {incoming} WITH (FORCE)")
        self._run(f"DROP DATABASE IF EXISTS {old} WITH (FORCE)")
        try:
            self._run(f"CREATE DATABASE {incoming} TEMPLATE {quoted(clone)}")
            for statement in self._properties(incoming):
                self._run(statement)
            self._run(f"ALTER DATABASE {database} RENAME TO {old}")
            try:
                self._run(f"ALTER DATABASE {incoming} RENAME TO {database}")
            except BaseException:
                self._run(f"ALTER DATABASE {old} RENAME TO {database}")
                raise
        except BaseException:
            self._run(f"DROP DATABASE IF EXISTS {incoming}")
            raise
        self._run(f"DROP DATABASE {old}")

    def hold(self, clone: str) -> str:
        """Let a clone outlive this process; return its new name."""
        held = f"{self._holding}{token_hex(4)}"
        self._run(f"ALTER DATABASE {quoted(clone)} RENAME TO {quoted(held)}")
        return held

    def let_go(self, held: str) -> str:
        """Stop holding a clone; return its new name."""
        clone = f"{self.prefix}{token_hex(4)}"
        self._run(f"ALTER DATABASE {quoted(held)} RENAME TO {quoted(clone)}")
        return clone

    def _properties(self, database: str) -> list[str]:
        """Return statements that give another database the owner, limit, privileges and settings of this one."""
        ((oid, owner, limit, has_rights),) = self._ask(
            "SELECT oid, pg_get_userbyid(datdba), datconnlimit, datacl IS NOT NULL FROM pg_database WHERE datname = $1",
            self._database,
        )
        statements = [
            f"ALTER DATABASE {database} OWNER TO {quoted(owner)}",
            f"ALTER DATABASE {database} CONNECTION LIMIT {limit}",
        ]
        if has_rights:
            statements.append(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC")
            rights = self._ask(
                "SELECT a.privilege_type, a.is_grantable, r.rolname FROM pg_database d, aclexplode(d.datacl) a "
                "LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE d.oid = $1",
                oid,
            )
            for right, grantable, role in rights:
                statements.append(
                    f"GRANT {right} ON DATABASE {database} TO {quoted(role) if role else 'PUBLIC'}"
                    + (" WITH GRANT OPTION" if grantable and role else "")
                )
        settings = self._ask(
            "SELECT r.rolname, split_part(c, '=', 1), substr(c, strpos(c, '=') + 1) FROM pg_db_role_setting s "
            "CROSS JOIN unnest(s.setconfig) c LEFT JOIN pg_roles r ON r.oid = s.setrole WHERE s.setdatabase = $1",
            oid,
        )
        for role, name, value in settings:
            whose = f"ROLE {quoted(role)} IN DATABASE {database}" if role else f"DATABASE {database}"
            written = value if name in _LISTS else "'" + value.replace("'", "''") + "'"
            statements.append(f"ALTER {whose} SET {quoted(*name.split('.'))} TO {written}")
        return statements

    def drop(self, clone: str) -> None:
        self._run(f"DROP DATABASE IF EXISTS {quoted(clone)} WITH (FORCE)")

    def recover(self) -> bool:
        """Repair what a killed process left: a database that rejects connections or was renamed, and old clones.

        Return whether that made it possible to connect to the database.
        """
        is_repaired = False
        names = {name for (name,) in self._ask("SELECT datname FROM pg_database")}
        if self._old_name in names and self._database not in names:
            self._run(f"ALTER DATABASE {quoted(self._old_name)} RENAME TO {quoted(self._database)}")
            names = names - {self._old_name} | {self._database}
            is_repaired = True
        shut = "SELECT FROM pg_database WHERE datname = $1 AND NOT datallowconn"
        if self._ask(shut, self._database):
            self.open()
            is_repaired = True
        for name in names:
            if name.startswith(self._holding):
                self.left |= {name}
            elif name.startswith(self.prefix):
                self.drop(name)
        return is_repaired

    def close(self) -> None:
        if self._admin_link is not None:
            self._admin_link.close()


def open_session(parts: dict[str, Any], schema: str, lock_timeout: float) -> tuple[ChangeCapture, Clones]:
    """Return a session and the clones of its database, after repairing what a killed process left."""
    try:
        session = ChangeCapture(parts, schema, lock_timeout)
    except SystemSetupError as refused:
        if not _recovered(parts, schema):
            raise
        try:
            session = ChangeCapture(parts, schema, lock_timeout)
        except SystemSetupError:
            raise refused from None
    clones = Clones(parts, session.link.info.dbname, schema)
    left = "SELECT FROM pg_database WHERE starts_with(datname, $1)"
    if session.link.execute(left, (clones.prefix,)).fetchall():
        clones.recover()
    return session, clones


def _recovered(parts: dict[str, Any], schema: str) -> bool:
    """Repair a database that rejects connections, from another database; return whether that succeeded."""
    database = parts.get("dbname") or parts.get("user")
    if database is None:
        return False
    clones = Clones(parts, database, schema)
    try:
        return clones.recover()
    except psycopg.Error:
        return False
    finally:
        clones.close()
