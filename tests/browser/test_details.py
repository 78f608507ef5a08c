"""Details of the screens: labels, counts, forms, comparisons, and what the page says without live updates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore
from clew.testing import VirtualClock
from tests.browser import flows, waiting_flows
from tests.browser.conftest import Open, Process, Served
from tests.browser.filled import engine_of


@pytest.fixture
def asked(served: Served) -> Any:
    """Start a run of a graph that asks; return the id."""

    def ask(name: str, run_id: str) -> str:
        graph = getattr(waiting_flows, name)
        engine_of(served.store, graph, name).run({"order": "A-1"}, run_id=run_id)
        return run_id

    return ask


AT_ONCE = """async () => {
  const { rows } = await import('/static/lib/lanes.js');
  const done = (i, start, end, tries = []) =>
    ({ node: 'n', path: `n#0[${i}]`, index: i, begin: tries[0]?.start ?? start, start, end, tries, waits: [],
       state: 'done' });
  const items = [];
  for (let i = 0; i < 8; i++) items.push(done(i, 0, 1.000001));
  for (let i = 8; i < 16; i++) items.push(done(i, 1, 2));
  items.push(done(16, 3, 4, [{ start: 0, end: 0.0000015 }]));
  return rows(items)[0].atOnce;
}"""


def test_waits_between_attempts_are_not_counted_as_executing(served: Served, open_page: Open) -> None:
    assert open_page(f"{served.url}/checks").evaluate(AT_ONCE) == 8


def test_the_names_of_slow_items_do_not_overlap(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/checks")

    def slow(route: Any) -> None:
        response = route.fetch()
        found = response.json()
        columns = found["columns"]
        for place, path in enumerate(columns["path"]):
            if path.startswith("scan#0"):
                columns["start"][place] = 0.01 * (place % 3)
                columns["duration"][place] = 30.0 if place % 8 < 2 else 0.2
        route.fulfill(response=response, body=json.dumps(found))

    page.route("**/audit-0931/items*", slow)
    page.goto(f"{served.url}/runs/audit-0931")
    page.locator("text.out").first.wait_for()
    boxes = page.locator("text.out").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect()).map((r) => [r.left, r.top, r.right, r.bottom])"
    )
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom - 3 <= other[1] or other[3] - 3 <= top


def test_the_item_before_the_cursor_is_found_without_a_selection(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/walk-77?k=40")
    page.locator(".bar, .tl-canvas").first.wait_for()
    page.keyboard.press("[")
    page.wait_for_url("**item=*")
    assert "k=40" in page.url


def test_a_long_name_of_a_graph_is_cut(asked: Any, served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/{asked('baskets', 'long-name')}")
    heads = page.locator(".p-graph .panehead")
    heads.wait_for()
    assert heads.evaluate("(head) => head.getBoundingClientRect().height") < 45
    expect(heads.get_by_role("heading", name="Graph")).to_be_visible()
    assert heads.evaluate("(head) => head.scrollWidth <= head.clientWidth + 1")


READ = """async () => {
  const { read } = await import('/static/lib/schema.js');
  const texts = ['1.5', '64,90', '1.234,0', '12345678901234567890'];
  return texts.map((text) => read({ kind: 'int', schema: {} }, text).error ?? null);
}"""


def test_a_whole_number_is_not_suggested_where_there_is_none(served: Served, open_page: Open) -> None:
    fraction, comma, whole, large = open_page(f"{served.url}/checks").evaluate(READ)
    assert "2" not in fraction
    assert "64" not in comma
    assert "1234" in whole
    assert large is None, "a large number is sent with all of its digits"


def sent(page: Any) -> Any:
    """Send the form; return the answer in the request."""
    with page.expect_request("**/answer") as request:
        page.get_by_role("button", name="Answer and go on").click()
    return request.value.post_data_json["answer"]


def test_a_single_choice_of_a_union_is_chosen_once(asked: Any, served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/{asked('lines', 'line')}/answer/ask_line%230")
    page.get_by_role("button", name="none", exact=True).click()
    assert sent(page) == "none"


def test_an_optional_list_that_nobody_touched_is_left_out(
    asked: Any, served: Served, open_page: Open
) -> None:
    page = open_page(f"{served.url}/runs/{asked('baskets', 'basket')}/answer/ask_basket%230")
    page.get_by_label("name", exact=True).fill("tea")
    assert sent(page) == {"name": "tea"}


def test_an_answer_of_another_page_is_noticed(asked: Any, served: Served, open_page: Open) -> None:
    run = asked("lines", "two-pages")
    page = open_page(f"{served.url}/runs/{run}/answer/ask_line%230")
    form = page.locator("[data-clew-form]")
    form.wait_for()
    other = open_page(f"{served.url}/runs/{run}/answer/ask_line%230")
    other.get_by_role("button", name="none", exact=True).click()
    assert sent(other) == "none"
    expect(form).to_have_count(0)
    page.get_by_text("answered").first.wait_for()


def test_a_state_behind_a_violation_is_not_called_completed(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")

    def small(route: Any) -> None:
        response = route.fetch()
        found = response.json()
        kinds = {0: ("start", 0), 1: ("violates", 1), 2: ("completed", 2), 3: ("completed", 1)}
        found["nodes"] = [{"id": n, "depth": d, "kind": kind, "label": ""} for n, (kind, d) in kinds.items()]
        pairs = [(0, 1), (1, 2), (0, 3)]
        found["edges"] = [{"from": a, "to": b, "text": "", "fault": False} for a, b in pairs]
        found["violations"][0]["path"] = found["violations"][0]["path"][:2]
        for entry, state in zip(found["violations"][0]["path"], (0, 1)):
            entry["state"] = state
        route.fulfill(response=response, body=json.dumps(found))

    page.route("**/api/checks/*", small)
    page.goto(f"{served.url}/checks/double_charge%3Acheck")
    page.locator(".snode.violates").wait_for()
    expect(page.locator(".snode.completed")).to_have_count(1)


def test_comparisons_of_runs_that_are_no_forks(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/compare?a=letter-331&b=letter-332")
    page.get_by_text("they begin with").wait_for()
    expect(page.get_by_text("set at the fork")).to_have_count(0)
    page.goto(f"{served.url}/compare?a=walk-77-short&b=walk-77-short")
    page.get_by_text("the same run").wait_for()
    expect(page.get_by_text("fork of A")).to_have_count(0)
    expect(page.get_by_text("forked from A")).to_have_count(0)
    page.goto(f"{served.url}/compare?a=walk-77&b=walk-77-short")
    page.get_by_text("fork of A at S(10)").wait_for()


def test_a_page_without_a_stream_says_that_it_is_not_live(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/checks", expect="503")
    page.route("**/api/events*", lambda route: route.fulfill(status=503, json={"error": {"message": "busy"}}))
    page.goto(f"{served.url}/runs")
    page.wait_for_selector("[data-clew-live=busy]")
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id="without-stream")
    page.locator("[data-clew-run=without-stream]").wait_for()  # the page asks again
    expect(page.get_by_text("connection lost")).to_have_count(0)


def test_a_pane_that_failed_without_the_server_loads_when_it_is_back(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "clew.db"
    store = SQLiteStore(path)
    engine_of(store, flows.walk, "walk").run({"at": 0, "upto": 250}, run_id="before")
    server = Process(path)
    try:
        page = open_page(f"{server.url}/runs/before", expect="net::ERR_")
        page.wait_for_selector("[data-clew-live=live]")
        page.locator(".values .value").first.wait_for()
        server.kill()
        page.keyboard.press("Home")
        page.locator("[aria-label='State S(0)'] .problem").wait_for()
        server.start()
        expect(page.locator("[aria-label='State S(0)'] .problem")).to_have_count(0)
        page.context.close()
    finally:
        server.close()
        store.close()


def test_steps_and_items_in_the_header_are_of_the_same_moment(served: Served, open_page: Open) -> None:
    """The stream may tell of steps whose items are still to be loaded."""
    page = open_page(f"{served.url}/checks", expect="404|net::ERR_")
    events = [
        ("hello", {"version": 1, "now": 0, "resumed": True}),
        ("status", {"run": "walk-77", "status": "running", "last": 150, "updated": 0, "questions": 0}),
        ("steps", {"run": "walk-77", "from": 122, "to": 150, "items": None}),
    ]
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    seen: set[str] = set()

    def once(route: Any) -> None:
        first = route.request.url not in seen
        seen.add(route.request.url)
        if first:
            route.continue_()

    page.route("**/api/runs/walk-77", once)
    page.route("**/items*", once)
    page.route("**/events*", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.goto(f"{served.url}/runs/walk-77")
    expect(page.locator("header.head [data-clew-status]")).to_have_text("running")
    expect(page.locator(".chainhead .of")).to_contain_text("S(150)")
    expect(page.locator("header.head .facts")).to_contain_text("121 steps")
    expect(page.locator("header.head .facts")).not_to_contain_text("150 steps")


def test_reused_items_begin_with_the_run_that_reuses_them(served: Served, open_page: Open) -> None:
    early = engine_of(served.store, flows.walk, "walk", clock=VirtualClock())
    early.run({"at": 0, "upto": 3}, run_id="long-ago")
    engine_of(served.store, flows.walk, "walk").rerun("long-ago", run_id="reused")
    page = open_page(f"{served.url}/runs/reused")
    page.locator(".bar.k-cached").first.wait_for()
    expect(page.locator(".folded")).to_have_count(0)
    texts = page.locator("svg.axis text").all_text_contents()
    assert len(set(texts)) == len(texts)
