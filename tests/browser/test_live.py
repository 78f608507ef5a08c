"""The page follows runs that happen, and survives the end of its server."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from clew.web.event_streams import EventStreams
from tests.browser import flows
from tests.browser.conftest import Open, Process, Served
from tests.browser.filled import engine_of

LOST = "net::ERR_"


def test_a_run_is_followed_while_it_happens(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.wait_for_selector("[data-clew-live=live]")
    engine = engine_of(served.store, flows.ticking, "ticking")
    runner = threading.Thread(
        target=engine.run, args=({"ticks": 0, "delay": 0.15, "upto": 12},), kwargs={"run_id": "tick"}
    )
    runner.start()
    try:
        page.locator("[data-clew-run=tick] a").click()
        slider = page.get_by_role("slider")
        expect(slider).not_to_have_attribute("aria-valuemax", "0")
        page.locator(
            "header.head [data-clew-status=running], header.head [data-clew-status=completed]"
        ).wait_for()
    finally:
        runner.join()
    expect(page.locator("header.head [data-clew-status]")).to_have_text("completed")
    expect(slider).to_have_attribute("aria-valuemax", "25")
    expect(page.locator(".bar")).to_have_count(25)


ITEMS = "performance.getEntriesByType('resource').filter((e) => e.name.includes('/items')).length"


def test_steps_that_are_committed_before_the_server_looks_are_shown(
    served: Served, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has read the items, and the stream of events begins with what is there when the server looks first."""
    may_look, look = threading.Event(), EventStreams._look_at

    def late(streams: EventStreams, run_id: str) -> None:
        assert may_look.wait(300)
        look(streams, run_id)

    monkeypatch.setattr(EventStreams, "_look_at", late)
    engine = engine_of(served.store, flows.letter, "letter")
    engine.run({"text": "x"}, run_id="early")
    page = open_page(f"{served.url}/runs/early")
    page.wait_for_function(f"() => {ITEMS} >= 2")  # at first, and when the stream has begun
    engine.resume("early", answer=True)
    may_look.set()
    expect(page.locator("header.head [data-clew-status]")).to_have_text("completed")
    expect(page.locator(".bar")).to_have_count(2)


def test_items_that_were_read_before_an_event_do_not_replace_what_it_says(
    served: Served, open_page: Open
) -> None:
    engine = engine_of(served.store, flows.letter, "letter")
    engine.run({"text": "x"}, run_id="overtaken")
    page = open_page(f"{served.url}/runs")
    read: list[Any] = []

    def hold(route: Any) -> None:
        read.append((route, route.fetch()))
        if len(read) != 2:  # the second is for the items that came before the stream had begun
            route.fulfill(response=read[-1][1])

    page.route("**/items*", hold)
    page.locator("[data-clew-run=overtaken] a").click()
    slider = page.get_by_role("slider")
    while len(read) < 2:
        page.wait_for_timeout(10)
    engine.resume("overtaken", answer=True)
    expect(slider).to_have_attribute("aria-valuemax", "2")
    route, response = read[1]
    route.fulfill(response=response)
    page.wait_for_function(f"() => {ITEMS} >= 2")
    page.wait_for_timeout(300)
    expect(page.locator(".bar")).to_have_count(2)


def test_items_that_ran_ahead_have_steps_states_and_causes(served: Served, open_page: Open) -> None:
    flows.NIGHT_IS_AHEAD.clear()
    flows.NIGHT_MAY_END.clear()
    engine = engine_of(served.store, flows.night, "night")
    runner = threading.Thread(target=engine.run, args=(flows.NIGHT,), kwargs={"run_id": "night"})
    runner.start()
    try:
        assert flows.NIGHT_IS_AHEAD.wait(300)
        page = open_page(f"{served.url}/runs/night?axis=steps")
        slider = page.get_by_role("slider")
        expect(slider).to_have_attribute("aria-valuemax", "9")
        page.get_by_text("1 step committed, 8 ahead").wait_for()
        page.get_by_role("button", name="fold#0, step 6").click()
        expect(slider).to_have_attribute("aria-valuetext", "S(6), fold#0, 1 item, provisional")
        page.get_by_text("Ran ahead.").wait_for()
        expect(page.locator("ul.why b")).to_have_text(
            ["fold#0", "alike#0", "sort_out#0", "scan#0[2]", "each_service#0", "parse#0"]
        )
        page.get_by_text("provisional: no digest before step 2 commits").wait_for()
        expect(page.locator("[data-clew-value=groups]")).to_contain_text("carts + mailer")
        expect(page.get_by_role("button", name="Fork from here")).to_be_disabled()
        expect(page.locator("svg.axis text").last).to_have_text("9")
    finally:
        flows.NIGHT_MAY_END.set()
        runner.join()
    expect(page.locator("header.head [data-clew-status]")).to_have_text("completed")


def test_the_page_survives_a_killed_server(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "clew.db"
    store = SQLiteStore(path)
    letter = engine_of(store, flows.letter, "letter")
    letter.run({"text": "before"}, run_id="before")
    server = Process(path)
    try:
        page = open_page(f"{server.url}/runs", expect=LOST)
        page.locator("[data-clew-run=before]").wait_for()
        page.wait_for_selector("[data-clew-live=live]")
        page.evaluate("() => import('/static/screens/run.js')")  # as the list does when the browser is idle
        server.kill()
        page.wait_for_selector("[data-clew-live=lost]")
        page.get_by_text("connection lost, as of").wait_for()
        page.locator("[data-clew-run=before]").wait_for()  # what was loaded stays
        page.locator("[data-clew-run=before] a").click()
        page.get_by_text("the server does not answer").wait_for()
        server.start()
        page.locator("h1[data-clew-run=before]").wait_for()  # by itself
        server.kill()
        page.wait_for_selector("[data-clew-live=lost]")
        page.get_by_role("link", name="Checks").first.click()
        page.get_by_text("this part of the page could not be loaded").wait_for()
        letter.run({"text": "meanwhile"}, run_id="meanwhile")
        server.start()
        page.get_by_role("heading", name="No checks in this store").wait_for()  # by itself
        page.get_by_role("link", name="Runs", exact=True).first.click()
        page.locator("[data-clew-run=meanwhile]").wait_for()
        page.context.close()
    finally:
        server.close()
        store.close()


def test_a_list_that_was_open_shows_what_happened_while_the_server_was_away(
    tmp_path: Path, open_page: Open
) -> None:
    path = tmp_path / "clew.db"
    store = SQLiteStore(path)
    letter = engine_of(store, flows.letter, "letter")
    letter.run({"text": "before"}, run_id="before")
    server = Process(path)
    try:
        page = open_page(f"{server.url}/runs", expect=LOST)
        page.wait_for_selector("[data-clew-live=live]")
        page.locator("[data-clew-run=before]").wait_for()
        server.kill()
        page.wait_for_selector("[data-clew-live=lost]")
        letter.run({"text": "meanwhile"}, run_id="meanwhile")
        server.start()
        page.locator("[data-clew-run=meanwhile]").wait_for()
        page.context.close()
    finally:
        server.close()
        store.close()


def test_updates_can_be_paused(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.wait_for_selector("[data-clew-live=live]")
    page.keyboard.press(" ")
    page.wait_for_selector("[data-clew-live=paused]")
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id="while-paused")
    page.keyboard.press(" ")
    page.wait_for_selector("[data-clew-live=live]")
    page.locator("[data-clew-run=while-paused]").wait_for()


COUNTED = """async () => {
  const { nodeStates } = await import('/static/lib/items.js');
  const item = (node, state, chose = []) => ({ node, state, chose, tries: [] });
  const found = nodeStates([item('each', 'done', ['work ×40']), item('work', 'done'), item('work', 'running')]);
  return [found.get('work').ran, found.get('work').total];
}"""


def test_items_that_were_sent_count_before_they_run(served: Served, open_page: Open) -> None:
    assert open_page(f"{served.url}/runs").evaluate(COUNTED) == [1, 40]


DRAWN = """async () => {
  const { html, render, useState } = await import('/static/lib/html.js');
  const place = document.createElement('div');
  let show, draws = 0;
  const Shown = () => { const [n, set] = useState(0); show = set; draws++; return html`<b>${n}</b>`; };
  render(html`<${Shown}/>`, place);
  const pause = (ms) => new Promise((next) => setTimeout(next, ms));
  await pause(1100);  // nobody touches the page
  draws = 0;
  const began = performance.now();
  for (let n = 1; n <= 100; n++) { show(n); await pause(5); }
  const most = 2 + (performance.now() - began) / 99;
  const few = draws <= most;
  show('waits');
  dispatchEvent(new Event('keydown'));
  const flushed = place.textContent;
  show('typed');
  await null;
  return [few, flushed, place.textContent];
}"""


def test_what_arrives_is_drawn_ten_times_a_second_and_what_somebody_does_at_once(
    served: Served, open_page: Open
) -> None:
    assert open_page(f"{served.url}/checks").evaluate(DRAWN) == [True, "waits", "typed"]
