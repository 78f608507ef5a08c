"""Every verb clicked, by mouse and by keyboard, against a real server and a real worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import Engine, SQLiteStore, Worker
from clew.testing import VirtualClock
from tests.browser import flows
from tests.browser.conftest import DESK, PATIENCE, PHONE, Open, Process, Served
from tests.browser.filled import BAD_INVOICE, engine_of, fill, fill_values_and_check
from tests.browser.test_screens import axe


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """`clew serve` for the graph of letters: it starts a worker, and may run that graph's code."""
    path = tmp_path_factory.mktemp("verbs") / "clew.db"
    store = SQLiteStore(path)
    letter = engine_of(store, flows.letter, "letter")
    for name in ("rerun", "replay", "cancel", "delete", "keys"):
        letter.run({"text": name}, run_id=name)
    for name in ("rerun", "replay"):
        letter.resume(name, answer=True)
    store.close()
    server = Process(path, "tests.browser.flows:letter")
    yield server
    server.close()


def work(served: Served, graph: Any) -> None:
    """Let a worker take what is queued."""
    Worker(graph, store=served.store, slots=2).run(until_idle=True)


def status(page: Any) -> Any:
    return page.locator("header.head [data-clew-status]")


def test_answering_a_question_checks_it_sends_it_and_the_run_goes_on(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/ticket-8841")
    form = page.locator("[data-clew-form]")
    form.get_by_role("radio", name="refund").click()
    amount = form.get_by_label("amount")
    amount.fill("64,90")
    form.get_by_role("button", name="Answer and go on").click()
    form.get_by_text("a number is expected: 64.90").wait_for()
    expect(amount).to_be_focused()  # the first error
    amount.fill("64.90")
    form.get_by_label("note").fill("by the page")
    page.keyboard.press("Control+Enter")
    page.get_by_role("dialog").get_by_text("clew worker").wait_for()  # no worker serves this graph yet
    page.get_by_role("dialog").get_by_role("button", name="Good").click()
    work(served, flows.support)
    status(page).get_by_text("completed").wait_for()
    store = served.store
    result = engine_of(store, flows.support, "support").result("ticket-8841")
    assert result["decision"] == flows.Decision("refund", 64.9, True, "by the page")
    page.get_by_role("tab", name="Log").click()
    page.locator(".logrow").get_by_text("answer", exact=True).wait_for()


def test_a_refused_answer_returns_to_the_question(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.support, "support").run(
        {"ticket": "kettle", "messages": []}, run_id="ticket-8843"
    )
    page = open_page(f"{served.url}/runs/ticket-8843/answer/approve%230", expect="422")
    form = page.locator("[data-clew-form]")
    form.get_by_role("button", name="as JSON").click()
    form.get_by_label("the answer as JSON").fill('{"action": "burn", "amount": 1}')
    form.get_by_role("button", name="Answer and go on").click()
    page.locator(".err, .problem").first.wait_for()
    assert served.store.row("ticket-8843").status == "waiting"


def test_what_is_refused_inside_an_answer_is_shown_at_its_field(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.stocktaking, "stocktaking").run({"shelf": "A"}, run_id="shelf")
    page = open_page(f"{served.url}/runs/shelf/answer/count_by_hand%230", expect="422")
    form = page.locator("[data-clew-form]")
    form.locator("textarea").fill('{"bolts": "many"}')
    form.get_by_role("button", name="Answer and go on").click()
    expect(form.locator(".err")).to_contain_text("bolts")
    assert served.store.row("shelf").status == "waiting"


def test_an_error_is_shown_with_all_of_its_causes(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.prices, "prices").run({"tag": "cheap"}, run_id="price")
    page = open_page(f"{served.url}/runs/price?item=read_price%230&tab=error")
    expect(page.get_by_role("heading", name="Caused by")).to_have_count(2)
    page.get_by_text("ValueError: invalid literal").first.wait_for()


def test_dates_times_and_decimals_have_fields_of_their_own(served: Served, open_page: Open) -> None:
    engine = engine_of(served.store, flows.appointments, "appointments")
    engine.run({}, run_id="appointment")
    page = open_page(f"{served.url}/runs/appointment/answer/arrange%230", timezone="Asia/Kolkata")
    form = page.locator("[data-clew-form]")
    expect(form.get_by_role("radio")).to_have_text(["low", "high", "at once"])  # as declared
    form.get_by_text("a date, may be left empty").wait_for()
    form.get_by_role("radio", name="at once").click()
    kinds = {"day": "date", "at": "time", "remind": "datetime-local", "until": "datetime-local"}
    for name, kind in {**kinds, "price": "text", "followed_by": "date"}.items():
        expect(form.get_by_label(name, exact=True)).to_have_attribute("type", kind)
    form.get_by_label("price", exact=True).fill("64,90")
    form.get_by_label("followed_by").press_sequentially("30")  # half a date
    form.get_by_role("button", name="Answer and go on").click()
    expect(form.locator(".err")).to_have_count(5)
    expect(form.get_by_label("until")).to_have_value(re.compile("^2026-12-01T18:30"))
    expect(form.get_by_label("begin")).to_have_value(re.compile("^2026-11-30T09:00"))  # in the browser's zone
    expect(form.get_by_label("day", exact=True)).to_be_focused()  # the first error
    form.get_by_text("a number is expected: 64.90").wait_for()
    form.get_by_label("followed_by").fill("")
    given = {"day": "2026-11-30", "at": "14:05", "remind": "2026-11-30T09:00"}
    for name, text in {**given, "price": "64.90"}.items():
        form.get_by_label(name, exact=True).fill(text)
    form.get_by_role("button", name="Answer and go on").click()
    page.get_by_role("dialog").get_by_role("button", name="Good").click()
    work(served, flows.appointments)
    page.get_by_text(re.compile("^answered")).first.wait_for()
    assert engine.result("appointment")["appointment"] == flows.Appointment(
        urgency="at once",
        day=date(2026, 11, 30),
        at=time(14, 5),
        remind=datetime(2026, 11, 30, 9, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        price=Decimal("64.90"),
    )


def test_resuming_a_failed_run_queues_it(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.invoice, "invoice").run({"invoice": BAD_INVOICE}, run_id="invoice-r")
    page = open_page(f"{served.url}/runs/invoice-r")
    page.locator(".banner").get_by_text("KeyError: 'CHF'").wait_for()
    page.keyboard.press("r")
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_text("clew worker").wait_for()
    assert served.store.entry("invoice-r") is not None
    work(served, flows.invoice)
    assert served.store.row("invoice-r").status == "failed"


def test_forking_at_the_cursor_makes_a_new_run(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/walk-77?k=10")
    page.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Fork walk-77 at S(10)").wait_for()
    dialog.get_by_label("new run id").fill("walk-77-b")
    dialog.get_by_text("clew fork walk-77").first.wait_for()
    dialog.get_by_role("button", name=re.compile("^Fork")).click()
    page.get_by_role("dialog").get_by_role("button", name="Good").click()
    page.wait_for_url("**/runs/walk-77-b")
    assert served.store.row("walk-77-b").parent == "walk-77"
    work(served, flows.walk)
    status(page).get_by_text("completed").wait_for()


def test_a_fork_with_values_that_needs_code_says_so(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/walk-77?k=10", expect="409")
    page.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("summary", has_text="upto 60").click()
    dialog.get_by_label("upto as JSON").fill("12")
    dialog.get_by_role("button", name=re.compile("^Fork")).click()
    server = f"clew serve tests.browser.flows:walk --store {served.path}"
    dialog.get_by_text(f"start the server with `{server}`").wait_for()
    commands = dialog.locator(".command code")
    expect(commands).to_have_count(1)  # the whole command, not also one without the step and the value
    expect(commands).to_have_text(re.compile(r"--step 10 --run-id \S+ upto=12$"))


def test_exporting_downloads_the_document(served: Served, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"{served.url}/runs/invoice-2199")
    with page.expect_download() as download:
        page.locator("[data-verb=export]").first.evaluate("button => button.click()")
    target = tmp_path / "run.json"
    download.value.save_as(target)
    assert "invoice-2199" in json.dumps(json.loads(target.read_text("utf-8")))


def test_verbs_that_need_code_run_it_in_a_process(process: Process, open_page: Open) -> None:
    page = open_page(f"{process.url}/runs/replay")
    page.locator("[data-verb=replay]").evaluate("button => button.click()")
    page.get_by_role("dialog").get_by_role("button", name="Replay").click()
    page.get_by_role("dialog").get_by_text("The replay did the same").wait_for()
    page.get_by_role("button", name="close").click()
    page.goto(f"{process.url}/runs/rerun")
    page.locator("[data-verb=rerun]").evaluate("button => button.click()")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("new run id").fill("rerun-2")
    dialog.get_by_role("button", name=re.compile("^Rerun")).click()
    page.wait_for_url("**/runs/rerun-2")


def test_cancelling_and_deleting_need_a_second_press(process: Process, open_page: Open) -> None:
    page = open_page(f"{process.url}/runs/cancel")
    page.locator("[data-verb=cancel]").evaluate("button => button.click()")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    again = page.get_by_role("dialog").get_by_role("button", name="Press again")
    again.wait_for()
    expect(status(page)).to_have_text("waiting")  # one press does nothing
    again.click()
    status(page).get_by_text("cancelled").wait_for()
    page.close()
    page = open_page(
        f"{process.url}/runs/delete", expect="404"
    )  # it may ask for the run once more before it leaves
    page.locator("[data-verb=delete]").first.evaluate("button => button.click()")
    page.get_by_role("dialog").get_by_role("button", name="Delete the run").click()
    page.get_by_role("dialog").get_by_role("button", name="Press again").click()
    page.wait_for_url("**/runs")
    page.locator("[data-clew-run=cancel]").wait_for()
    expect(page.locator("[data-clew-run=delete]")).to_have_count(0)


def test_the_keyboard_reaches_everything_in_a_run(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/ticket-8842")
    slider = page.get_by_role("slider")
    expect(slider).to_have_attribute("aria-valuemax", re.compile("[1-9]"))
    page.locator(".bar").first.wait_for()
    last = int(slider.get_attribute("aria-valuemax"))
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuenow", str(last - 1))
    page.wait_for_url(f"**k={last - 1}*")
    page.keyboard.press("Home")
    page.wait_for_url("**k=0*")
    page.keyboard.press("]")
    page.wait_for_url("**item=*")
    page.locator(".why li").first.wait_for()
    page.keyboard.press("c")
    page.get_by_role("tab", name="Calls", selected=True).wait_for()
    page.keyboard.press("t")
    page.wait_for_url("**axis=steps*")
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("item="))
    page.go_back()
    page.wait_for_url("**item=*")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/questions")
    page.get_by_role("link", name=re.compile("letter-331")).wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("invoice-2199")
    page.get_by_role("option", name=re.compile("invoice-2199"), selected=True).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/invoice-2199")


def test_the_jump_offers_only_what_was_typed_while_the_server_thinks(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id="newest")
    page = open_page(f"{served.url}/questions")
    asked = []
    page.route(re.compile("q=invoice"), lambda route: asked.append(route))  # and is not answered
    page.get_by_role("link", name=re.compile("letter-331")).wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="newest").wait_for()
    with page.expect_request(re.compile("q=invoice")):
        page.get_by_role("combobox").fill("invoice")
    expect(page.get_by_role("option", name="newest")).to_have_count(0)


TYPE_SLOWLY = """() => new Promise((done) => {
  const box = document.querySelector('[data-query]');
  const type = (letter) => { box.value += letter; box.dispatchEvent(new Event('input', { bubbles: true })); };
  window.requestAnimationFrame = () => 0;  // so that the box hears after 100 ms which query it has sent
  box.focus();
  type('a');  // is sent after 180 ms
  setTimeout(() => type('b'), 200);
  setTimeout(() => done(box.value), 320);
})"""


def test_a_letter_stays_that_is_typed_while_the_one_before_is_sent(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.locator("[data-row]").first.wait_for()
    assert page.evaluate(TYPE_SLOWLY) == "ab"


def test_letters_do_nothing_in_fields_and_can_be_switched_off(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs")
    page.locator("[data-row]").first.wait_for()
    query, dialog = page.locator("[data-query]"), page.get_by_role("dialog")
    page.keyboard.press("/")
    expect(query).to_be_focused()
    page.keyboard.type("gq?x")
    expect(query).to_have_value("gq?x")
    page.keyboard.press("Escape")
    expect(query).not_to_be_focused()
    page.keyboard.press("?")
    page.get_by_label("Single letter keys").uncheck()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("?")
    page.keyboard.press("Control+k")  # it comes later, and is no letter
    expect(dialog).to_have_attribute("aria-label", re.compile("^Jump"))


def test_selecting_an_item_draws_its_thread_in_all_panes(served: Served, open_page: Open) -> None:
    page = open_page(f"{served.url}/runs/ticket-8842")
    page.locator(".bar[data-path='use_tool#0[1]'] .hit").click()
    page.locator(".tl .thread").first.wait_for()
    page.locator(".arrow.on").first.wait_for()
    expect(page.locator(".why li")).to_have_count(3)
    expect(page.locator(".box.sel")).to_have_attribute("data-node", "use_tool")
    expect(page).to_have_url(re.compile(r"[?&]k=3(&.*)?&item=use_tool|item=use_tool.*&k=3"))


def test_long_waits_are_shown_and_folded(served: Served, open_page: Open) -> None:
    engine = Engine(flows.patient, store=served.store, clock=VirtualClock())
    engine.run({"wish": "tea"}, run_id="patient")
    page = open_page(f"{served.url}/runs/patient?item=rest%230&tab=item")
    page.get_by_text("slept 2 d", exact=True).wait_for()
    expect(page.locator("[data-path='rest#0'] .waited")).to_have_count(1)
    expect(page.locator("[data-path='serve#0'] .pausing")).to_have_count(1)  # a retry, two days later
    expect(page.locator(".folded")).to_have_count(2)


def test_items_inside_a_subgraph_and_a_child_are_shown(served: Served, open_page: Open) -> None:
    values = {"text": "The harbour is closed", "limit": 9}
    engine_of(served.store, flows.nested, "nested").run(values, run_id="nested")
    page = open_page(f"{served.url}/runs/nested")
    page.get_by_role("button", name="check#0, step 1").click()
    inside = page.locator(".insp")
    inside.get_by_role("button", name="count#0").click()
    expect(inside.locator(".itemrow")).to_have_text([re.compile("^split#0"), re.compile("^measure#0")])
    inside.get_by_role("button", name="measure#0").click()
    expect(page.locator("ul.why b")).to_have_text(
        ["check#0/count#0/measure#0", "check#0/count#0/split#0", "check#0/count#0", "check#0"]
    )
    expect(page.locator('[data-node="check/count/measure"]')).to_have_class(re.compile("sel"))
    page.get_by_role("button", name="hand_out#0, step 1").click()
    inside.get_by_role("link").click()
    page.get_by_text("child of").wait_for()
    page.get_by_role("button", name="measure#0, step 2").wait_for()


def test_the_list_is_searched_sorted_and_operated_in_bulk(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id="bulk-1")
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id="bulk-2")
    page = open_page(f"{served.url}/runs")
    page.locator("[data-row]").first.wait_for()
    page.locator("[data-query]").fill("bulk status:waiting ")
    page.locator(".token").get_by_text("waiting").wait_for()
    expect(page.locator("[data-row]")).to_have_count(2)
    page.wait_for_url("**status%3Awaiting*")
    page.keyboard.press("Escape")
    expect(page.locator("[data-query]")).not_to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_text("1 selected").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Shift+X")
    page.get_by_text("2 selected").wait_for()
    page.locator("[data-bulk=compare]").click()
    page.wait_for_url("**/compare?a=bulk-1&b=bulk-2")
    page.go_back()
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_label("select all").check()
    page.locator("[data-bulk=delete]").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 runs").click()
    page.get_by_role("dialog").get_by_role("button", name="Press again").click()
    page.get_by_text("No run matches").wait_for()
    page.get_by_role("button", name="Show all runs").click()
    page.locator("[data-clew-run=invoice-2199]").wait_for()
    page.locator("[data-query]").fill("took:banana ")
    page.locator(".token.bad").wait_for()
    page.locator("[data-row]").nth(3).wait_for()  # the rest of the query still works


def test_a_phone_answers_from_a_link(served: Served, open_page: Open) -> None:
    engine_of(served.store, flows.letter, "letter").run({"text": "from a phone"}, run_id="phone-1")
    page = open_page(f"{served.url}/runs/phone-1/answer/ask_editor%230", viewport=PHONE)
    page.locator("[data-clew-form] textarea").fill("true")
    page.get_by_role("button", name="Answer and go on").click()
    page.get_by_role("dialog").get_by_role("button", name="Good").click()
    work(served, flows.letter)
    page.get_by_text(re.compile("^answered")).first.wait_for()


def test_a_read_only_server_offers_no_verb(tmp_path: Path, open_page: Open) -> None:
    store = SQLiteStore(tmp_path / "clew.db")
    fill(store, files=3)
    store.close()
    server = Served(tmp_path / "clew.db", read_only=True)
    try:
        page = open_page(f"{server.url}/runs/ticket-8841")
        page.get_by_text("This server is read only").wait_for()
        assert page.locator("[data-clew-form]").count() == 0
        assert page.locator(".verbs > button[data-verb]:not([data-verb=export])").count() == 0
        page.context.close()
    finally:
        server.close()


def test_an_empty_store_says_how_to_make_a_run_and_shows_it_at_once(tmp_path: Path, open_page: Open) -> None:
    server = Served(tmp_path / "clew.db")
    try:
        page = open_page(f"{server.url}/runs")
        page.get_by_text("No runs in").wait_for()
        page.wait_for_selector("[data-clew-live=live]")
        engine_of(server.store, flows.letter, "letter").run({"text": "x"}, run_id="first-one")
        page.locator("[data-clew-run=first-one]").wait_for()
        page.context.close()
    finally:
        server.close()


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_each_queue_shows_what_waits_and_what_has_finished(
    viewport: dict[str, int], tmp_path: Path, open_page: Open
) -> None:
    server = Served(tmp_path / "clew.db")
    try:
        walk = engine_of(server.store, flows.walk, "walk")
        for queue in ("reports", "reports", flows.HOSTILE):
            walk.submit({"at": 0, "upto": 1}, queue=queue)
        Worker(flows.walk, store=server.store, queues=["reports", flows.HOSTILE]).run(until_idle=True)
        walk.submit({"at": 0, "upto": 1}, queue="mail")
        page = open_page(f"{server.url}/queues", viewport=viewport)
        page.get_by_role("img", name="2 runs of reports finished in 1 h").wait_for()
        page.get_by_role("img", name=f"1 run of {flows.HOSTILE} finished in 1 h").wait_for()
        expect(page.get_by_role("row", name=re.compile("^mail 1 .* none$"))).to_be_visible()
        assert axe(page) == []
        page.get_by_role("link", name=flows.HOSTILE).click()
        expect(page.locator("[data-row]")).to_have_count(1)
        page.go_back()
        page.get_by_role("link", name="mail").click()
        page.locator("[data-row]").get_by_text("waits for a worker").wait_for()
        page.context.close()
    finally:
        server.close()


def test_values_are_pulled_and_set_in_the_page(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "clew.db"
    fill_values_and_check(path)
    server = Process(path, "--values", "tests.browser.events:graph")
    try:
        page = open_page(f"{server.url}/values/events?node=page(e1)")
        state = page.locator(".itemhead [data-clew-status]")
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Pull page(e1)").click()
        dialog.get_by_text("It computes at most").wait_for()
        dialog.get_by_role("button", name="Pull").click()
        expect(state).to_have_attribute("data-clew-status", "fresh", timeout=PATIENCE)
        page.get_by_role("button", name="Set a source…").click()
        dialog.get_by_label("source").select_option("size")
        expect(dialog.get_by_label("value as JSON")).to_have_value("320")  # what it is now
        dialog.locator(".command", has_text="set tests.browser.events:graph size 320").wait_for()
        dialog.get_by_label("value as JSON").fill("640,")
        dialog.get_by_text("JSON is expected").wait_for()
        dialog.get_by_label("value as JSON").fill("640")
        dialog.get_by_role("button", name="Set", exact=False).first.click()
        expect(state).to_have_attribute("data-clew-status", "outdated", timeout=PATIENCE)
        page.context.close()  # before the server ends
    finally:
        server.close()
