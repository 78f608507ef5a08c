"""Verbs that leave the runs as they are, and those of a selection: each is clicked once."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from clew.explore.checking.narrative import counterexamples
from examples.checks import double_charge
from tests.browser import flows
from tests.browser.conftest import Open, Process, Served
from tests.browser.filled import BAD_INVOICE, engine_of, fill_values_and_check


def saved(page: Any, click: Any, folder: Path) -> str:
    """Click something that downloads a file; return its text."""
    with page.expect_download() as download:
        click()
    place = folder / "saved"
    download.value.save_as(place)
    return place.read_text("utf-8")


def wait_until_copied(page: Any, text: str) -> None:
    page.wait_for_function(
        "(text) => navigator.clipboard.readText().then((all) => all.includes(text))", arg=text
    )


def test_two_runs_are_swapped_changed_and_copied(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/compare?a=walk-77&b=walk-77-short")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("first difference").wait_for()
    page.get_by_role("button", name="Copy as text").click()
    wait_until_copied(page, "walk-77-short")
    page.get_by_role("button", name="Swap").click()
    page.wait_for_url("**/compare?a=walk-77-short&b=walk-77")
    page.get_by_role("button", name="Change…").last.click()
    page.get_by_role("dialog").get_by_label("Search runs").fill("invoice-2199")
    page.get_by_role("dialog").get_by_role("option", name="invoice-2199").click()
    page.wait_for_url("**b=invoice-2199")
    page.locator(".sidesbar").get_by_text("invoice-2199").wait_for()
    page.goto(f"{served.url}/compare")
    page.get_by_role("button", name="Choose two runs").click()
    for name in ("letter-331", "letter-332"):
        page.get_by_role("dialog").get_by_label("Search runs").fill(name)
        page.get_by_role("dialog").get_by_role("option", name=name).click()
    page.wait_for_url("**/compare?a=letter-331&b=letter-332")


def test_a_check_is_run_again_saved_and_reported(served: Served, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"{served.url}/checks/double_charge%3Acheck")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Run again").click()
    dialog.get_by_text("clew check double_charge:check").wait_for()
    page.get_by_role("button", name="close").click()
    page.get_by_role("button", name="Report…").click()
    dialog.get_by_text("--report report.html").wait_for()
    page.get_by_role("button", name="close").click()
    saved(page, page.get_by_role("button", name="Save counterexample").click, tmp_path)
    (example,) = counterexamples(tmp_path / "saved")  # as `clew check --replay` reads it
    again = double_charge.check.replay(example["choices"])
    assert example["invariant"] == "charged once"
    assert "charged once" in dict(again.violated)
    page.get_by_role("button", name="On the path").click()
    page.get_by_text("charged once is violated here.").wait_for()


def test_comparing_says_whether_runs_have_a_common_beginning(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/compare?a=letter-331&b=letter-332")
    page.get_by_text("they begin with").wait_for()
    expect(page.get_by_text("set at the fork")).to_have_count(0)
    page = open_page(f"{served.url}/compare?a=walk-77&b=walk-77")
    page.get_by_text("the same run").wait_for()
    page = open_page(f"{served.url}/compare?a=walk-77&b=walk-77-short")
    page.get_by_text("set at the fork").wait_for()


def test_a_server_that_only_reads_offers_no_change_of_values(served: Served, open_page: Open) -> None:
    reading = Served(served.path, read_only=True)
    try:
        page = open_page(f"{reading.url}/values/events?node=index")
        for verb in ("pull", "set", "invalidate"):
            expect(page.locator(f"[data-verb={verb}]")).to_be_disabled()
        page.close()  # with its stream of events
    finally:
        reading.close()


def test_an_answer_is_saved_as_csv(served: Served, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"{served.url}/runs/question-12")
    table = saved(page, page.get_by_role("button", name="Export CSV").click, tmp_path)
    rows = [["city", "sales", "days"], ["Bergen", "1290", "2.5"], ['Oslo, "the capital"', "880", ""]]
    assert list(csv.reader(table.splitlines())) == rows


def test_views_and_columns_of_the_list_are_kept(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs?q=graph%3Awalk")
    page.locator("[data-clew-run=walk-77]").wait_for()
    page.get_by_role("button", name="Save view").click()
    page.get_by_role("dialog").get_by_label("name").fill("Walks")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("dialog").get_by_label("Owner").uncheck()
    page.get_by_role("button", name="close").click()
    page.goto(f"{served.url}/runs")
    page.locator("[data-clew-run=invoice-2199]").wait_for()
    expect(page.get_by_role("columnheader", name="Owner")).to_have_count(0)
    page.get_by_role("button", name="Walks").click()
    page.wait_for_url("**q=graph%3Awalk*")
    expect(page.locator("[data-row]")).to_have_count(2)


def test_a_selection_is_resumed_replayed_and_exported(
    served: Served, open_page: Open, tmp_path: Path
) -> None:
    invoice = engine_of(served.store, flows.invoice, "invoice")
    for name in ("twice-1", "twice-2"):
        invoice.run({"invoice": BAD_INVOICE}, run_id=name)
    page = open_page(f"{served.url}/runs?q=twice", expect="409")
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_label("select all").check()
    assert "twice-2" in saved(page, page.locator("[data-bulk=export]").click, tmp_path)
    page.locator("[data-bulk=replay]").click()
    page.get_by_role("dialog").get_by_text("2 runs refused, 0 done").wait_for()  # it needs their code
    page.get_by_role("button", name="close").click()
    page.get_by_label("select all").check()
    page.get_by_role("button", name="Resume 2").click()
    expect(page.locator("[data-row]").get_by_text("queued", exact=True)).to_have_count(2)
    assert all(served.store.entry(name) is not None for name in ("twice-1", "twice-2"))


def test_a_run_is_shown_as_a_table_fitted_and_linked(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/ticket-8842")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".bar").first.wait_for()
    page.get_by_role("button", name="as table").click()
    page.get_by_role("button", name="use_tool#0[1]").click()
    page.get_by_text("the tool answered 503").first.wait_for()
    page.get_by_role("button", name="as bars").click()
    page.locator(".bar").first.wait_for()
    page.get_by_role("button", name="Fit", exact=True).click()
    page.keyboard.press("y")
    wait_until_copied(page, "item=use_tool")


@pytest.mark.parametrize("has_code", [True, False], ids=["with code", "without"])
def test_a_value_is_invalidated(has_code: bool, tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "clew.db"
    SQLiteStore(path).close()
    fill_values_and_check(path)
    server = Process(path, *(["--values", "tests.browser.events:graph"] if has_code else []))
    try:
        page = open_page(f"{server.url}/values/events?node=index", expect="409")
        page.get_by_role("button", name="Invalidate").click()
        page.get_by_role("dialog").get_by_role("button", name="Invalidate").click()
        if has_code:
            state = page.locator(".itemhead [data-clew-status]")
            expect(state).to_have_attribute("data-clew-status", "outdated")
        else:
            page.get_by_role("dialog").get_by_text("this server does not have it").wait_for()
        page.context.close()  # before the server ends
    finally:
        server.close()
