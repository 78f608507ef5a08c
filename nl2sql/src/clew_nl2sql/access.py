"""Users, and what they may see. Access is denied by default.

A grant is a pattern: ``*`` (everything), ``source.*`` (every table of a source), ``source.table``, or, for a
database with several schemas, ``source.schema.*`` and ``source.schema.table``. Without a schema, only a table of the
default schema is meant. A user has personal grants and those of their roles. There are no deny rules: a table without
a grant does not exist for that user. `Access` applies three times: to the sources that a question may use, to the
schema that a planner receives (`visible`), and, through that catalog, to every table of a proposed query.

Names are compared without regard to case, as in databases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from clew import register_type
from clew_nl2sql.errors import UsageError
from clew_nl2sql.planner.catalog import Catalog

_GRANT = re.compile(r"^(?:\*|[^.*\s]+\.(?:\*|[^.*\s]+\.\*|[^*\s]+))$")
_DEFAULT = "public"  # a grant may name the default schema


@register_type
class UserContext(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a tenant, with roles and personal grants."""

    user_id: str = "anonymous"
    tenant_id: str = "default"
    roles: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()

    @classmethod
    def operator(cls, tenant_id: str = "default") -> UserContext:
        """Return a user who may see everything: a script, or a person at a command line."""
        return cls(user_id="operator", tenant_id=tenant_id, policies=("*",))


class Access:
    """What one user may see, by personal grants and those of roles."""

    def __init__(self, user: UserContext, roles: Mapping[str, Iterable[str]] | None = None) -> None:
        granted = [*user.policies, *(grant for role in user.roles for grant in (roles or {}).get(role, ()))]
        self._all = "*" in granted
        self._sources: dict[str, set[str]] = {}
        for grant in granted:
            source, _, table = check_grant(grant).lower().partition(".")
            if table:
                self._sources.setdefault(source, set()).add(table)

    def source(self, source: str) -> bool:
        """Return whether the user may see any table of the source."""
        return self._all or source.lower() in self._sources

    def table(self, source: str, table: str, schema: str = "") -> bool:
        """Return whether the user may see a table; `table` is its name in the catalog."""
        if self._all:
            return True
        tables = self._sources.get(source.lower(), set())
        if schema:
            return not tables.isdisjoint(("*", table.lower(), f"{schema.lower()}.*"))
        return not tables.isdisjoint(("*", table.lower(), f"{_DEFAULT}.{table.lower()}", f"{_DEFAULT}.*"))

    def visible(self, source: str, catalog: Catalog) -> Catalog:
        """Return the catalog without hidden tables, and without keys that mention them."""
        tables = tuple(table for table in catalog.tables if self.table(source, table.name, table.schema))
        names = {table.name for table in tables}
        keys = tuple(key for key in catalog.foreign_keys if {key.table, key.target_table} <= names)
        return msgspec.structs.replace(catalog, tables=tables, foreign_keys=keys)


def check_user(user: Any) -> None:
    """Raise UsageError if the user, or one of its grants, is invalid."""
    if not isinstance(user, UserContext):
        raise UsageError(f"{user!r} is not a user; write UserContext(user_id=..., policies=(...))")
    _grants(user.policies, f"of user {user.user_id!r}")


def check_policies(policies: Any) -> dict[str, tuple[str, ...]] | None:
    """Return grants by role; raise UsageError if they are invalid."""
    if policies is None:
        return None
    if not isinstance(policies, Mapping):
        raise UsageError("policies must map roles to grants; write policies={'clerk': ['sales.orders']}")
    return {role: _grants(grants, f"of role {role!r}") for role, grants in policies.items()}


def _grants(grants: Any, whose: str) -> tuple[str, ...]:
    if isinstance(grants, str) or not isinstance(grants, Iterable):
        raise UsageError(f"the grants {whose} must be a list; write [{grants!r}]")
    return tuple(map(check_grant, grants))


def check_grant(grant: Any) -> str:
    """Return the grant; raise UsageError if it is invalid."""
    if not isinstance(grant, str) or not _GRANT.match(grant):
        raise UsageError(
            f"{grant!r} is not a grant; write '*', 'source.*', 'source.table' or 'source.schema.*'"
        )
    return grant
