"""Run ids, values, node names and errors that try to be markup are shown as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from tests.browser import flows
from tests.browser.conftest import Open, Served
from tests.browser.filled import fill_hostile

SCRIPT = "<script>alert(2)</script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("hostile") / "clew.db"
    store = SQLiteStore(path)
    fill_hostile(store)
    store.close()
    server = Served(path)
    yield server
    server.close()


@pytest.mark.parametrize(
    "address",
    [
        "/runs",
        f"/runs?q={quote(SCRIPT)}",
        f"/runs/{quote(flows.HOSTILE, safe='')}",
        f"/runs/{quote(flows.HOSTILE, safe='')}?tab=log",
        f"/runs/{quote(SCRIPT, safe='')}?tab=error",
        f"/runs/{quote(SCRIPT, safe='')}?view=all&tab=item&item={quote('<img src=x onerror=alert(3)>#0', safe='')}",
        f"/runs/{quote(SCRIPT, safe='')}?view=json&axis=steps",
        "/questions",
        f"/runs/{quote(flows.HOSTILE, safe='')}/answer/ask_editor%230",
        f"/compare?a={quote(SCRIPT, safe='')}&b={quote(flows.HOSTILE, safe='')}",
    ],
)
def test_markup_is_shown_as_text(address: str, served: Served, open_page: Open) -> None:
    """`open_page` fails on a dialog, on a message of the console, and on a request to another host."""
    page = open_page(served.url + address)
    page.wait_for_load_state("load")
    page.locator("main").get_by_text("alert(", exact=False).first.wait_for()
    for selector in ("main img", "main script", "main iframe", "main b b", "main [onload]", "main [onerror]"):
        assert page.locator(selector).count() == 0, selector


def test_the_dangerous_ids_can_be_opened_from_the_list(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.get_by_role("link", name=flows.HOSTILE).click()
    page.locator("h1[data-clew-run]").get_by_text(flows.HOSTILE).wait_for()
    page.go_back()
    page.get_by_role("link", name=SCRIPT).click()
    page.locator("h1[data-clew-run]").get_by_text(SCRIPT).wait_for()
    page.locator(".box.failed").wait_for()


@pytest.mark.parametrize("run", [flows.HOSTILE, SCRIPT])
def test_commands_to_copy_are_quoted_for_a_shell(run: str, served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/{quote(run, safe='')}")
    page.get_by_role("button", name="Fork…").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("summary").first.click()
    dialog.get_by_label("text as JSON").fill('"it\'s $(rm)"')
    dialog.get_by_text("changed", exact=True).wait_for()
    expect(dialog.locator(".command code")).to_contain_text("rm")
    words = shlex.split(dialog.locator(".command code").inner_text())
    assert words[:3] == ["clew", "fork", run]
    assert words[-1] == 'text="it\'s $(rm)"'
