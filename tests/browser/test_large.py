"""Large data: long runs, wide runs and long lists stay quick, and the DOM stays small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from tests.browser import flows
from tests.browser.conftest import Open, Served
from tests.browser.filled import engine_of, fill_many

SCRUB = """async (moves) => {
  const slider = document.querySelector('[role=slider]');
  for (let i = 0; i < moves; i++) {
    slider.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft', bubbles: true}));
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next, 0)));
  }
}"""


def scrub(page: Any, moves: int) -> float:
    """Move the cursor back; return the CPU time of the page's main thread for each move, in ms."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    before = busy()
    page.evaluate(SCRUB, moves)
    return (busy() - before) * 1000 / moves


def rows(page: Any) -> int:
    return int(page.evaluate("document.querySelectorAll('[data-row], tr, .bar, .off li').length"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("large") / "clew.db"
    store = SQLiteStore(path)
    engine_of(store, flows.walk, "walk", max_steps=10_000).run({"at": 0, "upto": 3000}, run_id="long")
    engine_of(store, flows.audit, "audit", max_concurrent_nodes=64).run(
        {"files": [f"part-{n:04}" for n in range(1500)]}, run_id="wide"
    )
    fill_many(store, 400)
    store.close()
    server = Served(path)
    yield server
    server.close()


def check_long_run(url: str, steps: int, open_page: Open) -> None:
    page = open_page(f"{url}/runs/long")
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuemax", str(steps))
    page.locator(".value").first.wait_for()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuenow", "0")
    page.get_by_text("steps 1 to").wait_for()
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuenow", str(steps))
    page.locator(".bar, .tl-canvas").first.wait_for()
    spent = min(scrub(page, 20) for _ in range(3))
    print(f"a move of the scrubber takes {spent:.1f} ms")
    assert spent <= 16
    expect(slider).to_have_attribute("aria-valuenow", str(steps - 60))
    assert page.locator(".chain rect").count() <= 450
    across = page.locator(".chain svg").bounding_box()
    first, last = (
        each.bounding_box() for each in (page.locator(".chain rect").first, page.locator(".chain rect").last)
    )
    assert abs(first["x"] - across["x"]) < 2, "the states begin at the left end"
    assert abs(last["x"] + last["width"] - across["x"] - across["width"]) < 4, "and end at the right end"


def test_a_long_run_is_shown_in_windows(served: Served, open_page: Open) -> None:
    check_long_run(served.url, 6001, open_page)


def test_a_wide_run_is_drawn_on_a_canvas(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/wide?k=2&item=scan%230%5B7%5D&tab=items&node=scan")
    page.locator(".tl-canvas").wait_for()
    page.get_by_text("How long they took").wait_for()
    page.wait_for_function(
        """() => { const c = document.querySelector('.tl-canvas');
        return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(Boolean) }"""
    )
    page.locator(".pick").first.wait_for(state="attached")
    assert page.locator(".timeline .off li").count() <= 200
    on_top = page.evaluate(
        """() => { const r = document.querySelector('.pick').getBoundingClientRect();
        document.querySelector('.over').style.pointerEvents = 'all';
        return document.elementFromPoint(r.x + r.width / 2, r.y + 1).closest('svg') !== null }"""
    )
    assert on_top, "the selected item is drawn above the canvas"
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('svg.tl rect:not(.over *)')].filter((rect) => {
            const fill = getComputedStyle(rect).fill;
            return rect.getBoundingClientRect().width > 200 && fill !== 'none' && fill !== 'rgba(0, 0, 0, 0)';
        }).length"""
    )
    assert hidden == 0, "nothing wide and opaque hides the rows of the canvas"
    box = page.locator(".tl-box").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 90)
    page.wait_for_url("**item=scan*")
    page.get_by_role("button", name="retried", exact=True).click()
    expect(page.locator(".tl-canvas")).to_have_count(0)
    expect(page.locator(".bar")).to_have_count(25)


def test_a_long_list_is_loaded_in_pages_and_keeps_few_rows(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.get_by_text("402 runs").wait_for()
    oldest = page.locator("[data-clew-run=long]")
    deadline = time.monotonic() + 300
    while not oldest.count():  # as often as pages need to arrive
        assert time.monotonic() < deadline, "the last page did not arrive"
        page.evaluate("document.getElementById('main').scrollTop += 4000")
        page.wait_for_timeout(30)
        assert rows(page) <= 200


def test_a_page_of_the_list_fits_after_a_look_at_what_is_new(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/checks")  # follows no runs, so that the list begins a stream
    streams: list[Any] = []
    pages: list[Any] = []
    # After a new stream, the page looks at the newest runs again.
    page.route("**/api/events*", lambda route: streams.append(route))
    page.route("**/api/runs?*after=*", lambda route: pages.append(route))
    page.get_by_role("link", name="Runs").first.click()
    page.locator("[data-row]").first.wait_for()
    page.evaluate("document.getElementById('main').scrollTop = 1e6")
    while not (pages and streams):
        page.wait_for_timeout(10)
    with page.expect_response("**/api/runs?*"):
        streams[-1].continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    pages[0].continue_()
    page.wait_for_function("() => document.querySelector('.rows').offsetHeight > 150 * 34")


def first_list(page: Any, url: str) -> float:
    """Open the list; return the CPU time of the page's main thread until it is there, in ms."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(f"{url}/runs")
    page.locator("[data-row]").first.wait_for()
    metrics = session.send("Performance.getMetrics")["metrics"]
    wall = page.evaluate("performance.getEntriesByName('first-list')[0].startTime")
    spent = 1000 * float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))
    print(f"the first list takes {spent:.0f} ms of CPU, {wall:.0f} ms by the clock")
    return spent


@pytest.mark.slow
def test_a_hundred_thousand_steps_and_ten_thousand_runs(tmp_path: Path, open_page: Open) -> None:
    store = SQLiteStore(tmp_path / "clew.db")
    engine_of(store, flows.walk, "walk", max_steps=200_000).run({"at": 0, "upto": 50_000}, run_id="long")
    fill_many(store, 10_000)
    store.close()
    server = Served(tmp_path / "clew.db")
    try:
        check_long_run(server.url, 100_001, open_page)
        page = open_page(f"{server.url}/runs", expect="ERR_")  # the server ends before its pages are closed
        page.get_by_text("10,001 runs").wait_for()
        page.locator("[data-query]").fill("note-04242")
        expect(page.locator("[data-row]")).to_have_count(1)
        assert min(first_list(page, server.url) for _ in range(3)) <= 300
        page.context.close()
    finally:
        server.close()
