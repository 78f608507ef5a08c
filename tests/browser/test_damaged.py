"""What the page shows of a store that is damaged: what can be read, and what to do."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from clew.views.checks import keep_check
from tests.browser.conftest import PHONE, Open, Served
from tests.browser.filled import fill, fill_values_and_check

FAILED = "status of 5"  # the browser reports answers with 500


def damage(path: Path, statement: str) -> None:
    db = sqlite3.connect(path)
    try:
        db.execute(statement)
        db.commit()
    finally:
        db.close()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("damaged") / "clew.db"
    store = SQLiteStore(path)
    fill(store)
    store.close()
    fill_values_and_check(path)
    store = SQLiteStore(path)
    keep_check(store, {"id": "odd", "name": "odd", "guarantees": [7]})
    store.close()
    of = "(SELECT id FROM runs WHERE run_id = '{}')"
    damage(path, f"UPDATE steps SET body = x'5b5d' WHERE id >> 32 = {of.format('walk-77')} AND id % 7 = 5")
    damage(
        path, f"UPDATE log SET body = x'5b5d' WHERE run = {of.format('ticket-8841')} AND kind = 'question'"
    )
    damage(path, "UPDATE origins SET start = x'7b7d' WHERE run = " + of.format("invoice-2199"))
    server = Served(path)
    yield server
    server.close()


def test_a_run_with_a_damaged_row_says_so_in_the_list_and_in_its_banner(
    damaged: Served, open_page: Open
) -> None:
    page = open_page(f"{damaged.url}/runs", expect=FAILED)
    page.locator("[data-clew-run=invoice-2199]").click()
    banner = page.get_by_role("alert").first
    expect(banner).to_contain_text("damaged")
    expect(banner.locator("code")).to_have_text(f"clew doctor --store {damaged.path}")


def test_a_pane_that_is_damaged_fails_alone(damaged: Served, open_page: Open) -> None:
    page = open_page(f"{damaged.url}/runs/walk-77", expect=FAILED)
    expect(page.locator("header.head h1")).to_have_text("walk-77")
    page.locator("[data-node=step_on]").wait_for()  # the graph is there
    page.get_by_role("alert").first.wait_for()
    expect(page.get_by_role("button", name="Try again").first).to_be_visible()


def test_a_check_that_is_damaged_fails_alone(damaged: Served, open_page: Open) -> None:
    page = open_page(f"{damaged.url}/checks", expect=FAILED)
    page.get_by_text("the check 'odd' is damaged").wait_for()
    page.get_by_role("link", name="double_charge:fixed").click()
    page.get_by_text("Every state that was seen keeps every guarantee.").wait_for()
    page.goto(f"{damaged.url}/checks/odd")
    expect(page.get_by_role("alert")).to_contain_text("the check 'odd' is damaged")


def test_a_screen_that_cannot_be_drawn_says_so(damaged: Served, open_page: Open) -> None:
    page = open_page(f"{damaged.url}/runs", expect="is not a function|reading|is not iterable")
    page.route("**/api/questions*", lambda route: route.fulfill(json={}))
    page.get_by_role("link", name="Questions").click()
    page.get_by_text("this screen could not be drawn").wait_for()
    page.get_by_role("link", name="Runs", exact=True).click()
    page.locator("[data-clew-run=walk-77]").wait_for()


def test_a_question_that_is_damaged_is_listed(damaged: Served, open_page: Open) -> None:
    page = open_page(f"{damaged.url}/questions", viewport=PHONE, expect=FAILED)
    expect(page.get_by_role("link", name=re.compile("letter-331"))).to_be_visible()
    page.get_by_role("link", name=re.compile("ticket-8841")).click()
    expect(page.get_by_role("alert").first).to_contain_text("damaged")
