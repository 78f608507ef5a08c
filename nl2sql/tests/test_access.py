"""Deny by default: what no grant covers does not exist."""

from __future__ import annotations

import pytest

from clew_nl2sql import UserContext
from clew_nl2sql.access import Access, check_grant
from clew_nl2sql.errors import UsageError
from clew_nl2sql.planner.catalog import Catalog, Column, ForeignKey, Table


def access(*grants: str) -> Access:
    return Access(UserContext(policies=grants))


def test_nobody_sees_anything_by_default() -> None:
    assert not access().source("sales")
    assert not access().table("sales", "orders")
    assert not Access(UserContext(roles=("admin",)), {}).source("sales")


@pytest.mark.parametrize(
    "grant, seen",
    [
        ("*", {"sales.orders", "sales.customers", "hr.salaries"}),
        ("sales.*", {"sales.orders", "sales.customers"}),
        ("sales.orders", {"sales.orders"}),
        ("SALES.Orders", {"sales.orders"}),
        ("hr.nothing", set()),
    ],
)
def test_a_grant_covers(grant: str, seen: set[str]) -> None:
    every = ["sales.orders", "sales.customers", "hr.salaries"]
    assert {name for name in every if access(grant).table(*name.split("."))} == seen


def test_a_database_may_spell_its_names_in_any_case() -> None:
    assert access("sales.orders").table("Sales", "Orders")
    assert access("SALES.*").source("sales")


def test_grants_of_roles_and_of_the_user_add_up() -> None:
    user = UserContext(roles=("clerk", "unknown"), policies=("sales.orders",))
    both = Access(user, {"clerk": ["hr.*"], "boss": ["*"]})
    assert both.table("sales", "orders")
    assert both.table("hr", "salaries")
    assert not both.table("sales", "customers")


def test_a_filtered_catalog_does_not_tell_of_what_is_hidden() -> None:
    column = (Column(name="id"),)
    catalog = Catalog(
        tables=(Table(name="orders", columns=column), Table(name="salaries", columns=column)),
        foreign_keys=(ForeignKey(table="orders", column="id", target_table="salaries", target_column="id"),),
    )
    seen = access("sales.orders").visible("sales", catalog)
    assert [table.name for table in seen.tables] == ["orders"]
    assert seen.foreign_keys == ()


@pytest.mark.parametrize("grant", ["", "sales", "*.orders", "sales.", ".orders", "a b.c", "**"])
def test_what_is_no_grant_is_refused(grant: str) -> None:
    with pytest.raises(UsageError, match="is not a grant"):
        check_grant(grant)
