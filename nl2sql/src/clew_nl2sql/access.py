"""Who asks, and what they may see: deny by default.

A grant is a pattern: ``*`` (everything), ``source.*`` (every table of a source) or ``source.table``. A user has
grants of their own and those of their roles. There are no denials: what no grant covers does not exist for that
user. The same `Access` is asked three times: for the sources that a question may go to, for the schema that a
planner may know (`visible`), and, through the catalog that came out of that, for every table of the SQL that a
planner proposes.

Names are compared without regard to case, as databases do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clew import register_type
from clew_nl2sql.errors import UsageError
from clew_nl2sql.planner.catalog import Catalog

_GRANT = re.compile(r"^(?:\*|[^.*\s]+\.(?:\*|[^*\s]+))$")


@register_type
class UserContext(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: a user of a tenant, with roles and grants of their own."""

    user_id: str = "anonymous"
    tenant_id: str = "default"
    roles: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()

    @classmethod
    def operator(cls, tenant_id: str = "default") -> UserContext:
        """Whoever holds the connections anyway: a script, a person at a command line."""
        return cls(user_id="operator", tenant_id=tenant_id, policies=("*",))


class Access:
    """What one user may see, by the grants of their own and of their roles."""

    def __init__(self, user: UserContext, roles: Mapping[str, Iterable[str]] | None = None) -> None:
        granted = [*user.policies, *(grant for role in user.roles for grant in (roles or {}).get(role, ()))]
        self._all = "*" in granted
        self._sources: dict[str, set[str]] = {}
        for grant in granted:
            source, _, table = check_grant(grant).lower().partition(".")
            if table:
                self._sources.setdefault(source, set()).add(table)

    def source(self, source: str) -> bool:
        """Whether any table of the source may be seen."""
        return self._all or source.lower() in self._sources

    def table(self, source: str, table: str) -> bool:
        """Whether a table may be seen."""
        if self._all:
            return True
        tables = self._sources.get(source.lower(), set())
        return "*" in tables or table.lower() in tables

    def visible(self, source: str, catalog: Catalog) -> Catalog:
        """The catalog without what may not be seen, and without keys that would tell of it."""
        tables = tuple(table for table in catalog.tables if self.table(source, table.name))
        names = {table.name for table in tables}
        keys = tuple(key for key in catalog.foreign_keys if {key.table, key.target_table} <= names)
        return msgspec.structs.replace(catalog, tables=tables, foreign_keys=keys)


def check_user(user: Any) -> None:
    """Refuse what is no user, or has something that is no grant."""
    if not isinstance(user, UserContext):
        raise UsageError(f"{user!r} is no user; write UserContext(user_id=..., policies=(...))")
    _grants(user.policies, f"of user {user.user_id!r}")


def check_policies(policies: Any) -> dict[str, tuple[str, ...]] | None:
    """Grants by role, if that is what they are."""
    if policies is None:
        return None
    if not isinstance(policies, Mapping):
        raise UsageError("policies are grants by role; write policies={'clerk': ['sales.orders']}")
    return {role: _grants(grants, f"of role {role!r}") for role, grants in policies.items()}


def _grants(grants: Any, whose: str) -> tuple[str, ...]:
    if isinstance(grants, str) or not isinstance(grants, Iterable):
        raise UsageError(f"the grants {whose} are a list; write [{grants!r}]")
    return tuple(map(check_grant, grants))


def check_grant(grant: Any) -> str:
    """The grant itself, if it is one."""
    if not isinstance(grant, str) or not _GRANT.match(grant):
        raise UsageError(f"{grant!r} is no grant; write '*', 'source.*' or 'source.table'")
    return grant
