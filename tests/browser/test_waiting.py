"""What runs say that wait, that ask or fail inside a subgraph, or whose question has no answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from clew import SQLiteStore, Worker
from tests.browser import waiting_flows
from tests.browser.conftest import Open, Served
from tests.browser.filled import engine_of, fill_answer


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server over runs that wait for a time, for a signal and in a queue, and inside a subgraph."""
    path = tmp_path_factory.mktemp("waiting") / "clew.db"
    store = SQLiteStore(path)
    fill_answer(store)

    def started(name: str, values: dict[str, Any], run_id: str) -> None:
        engine_of(store, getattr(waiting_flows, name), name).run(values, run_id=run_id)

    for name, values in (("napping", {"tea": "green"}), ("paying", {"bill": "rent"})):
        engine_of(store, getattr(waiting_flows, name), name).submit(values, run_id=name)
        Worker(getattr(waiting_flows, name), store=store).run(until_idle=True)
    later = datetime.now(UTC) + timedelta(hours=2)
    engine_of(store, waiting_flows.napping, "napping").submit({"tea": "black"}, run_id="later", at=later)
    for name in ("asking", "breaking"):
        started(name, {"text": " tea "}, name)
    started("unanswered", {"user_query": "Which spaceship?"}, "unanswered")
    store.close()
    server = Served(path)
    yield server
    server.close()


CLOCK = r"until \d+ \w+ \d\d:\d\d:\d\d"


def says(page: Any, run: str) -> Any:
    return page.locator(f"[data-clew-run={run}]")


def test_the_list_says_what_runs_wait_for(waiting: Served, open_page: Open) -> None:
    page = open_page(f"{waiting.url}/runs")
    expect(says(page, "napping")).to_contain_text(re.compile(f"sleeps {CLOCK}"))
    expect(says(page, "paying")).to_contain_text("waits for the signal 'payment'")
    expect(says(page, "later")).to_contain_text(re.compile(f"waits {CLOCK}"))


@pytest.mark.parametrize(
    "run, text", [("napping", f"sleeps {CLOCK}"), ("paying", "signal 'payment'"), ("later", f"waits {CLOCK}")]
)
def test_the_banner_says_what_a_run_waits_for(run: str, text: str, waiting: Served, open_page: Open) -> None:
    page = open_page(f"{waiting.url}/runs/{run}")
    expect(page.locator(".banner")).to_contain_text(re.compile(text))
    expect(page.locator(".banner")).not_to_contain_text("No worker")
    if run != "later":
        expect(page.locator(".graph [role=button]")).to_have_class(re.compile(r"\bsleeps\b"))


@pytest.mark.parametrize(
    "run, item, text",
    [("napping", "nap%230", f"sleeps {CLOCK}"), ("paying", "pay%230", "waits for the signal payment")],
)
def test_an_item_says_what_it_waits_for(
    run: str, item: str, text: str, waiting: Served, open_page: Open
) -> None:
    page = open_page(f"{waiting.url}/runs/{run}?item={item}")
    expect(page.locator(".insp")).to_contain_text(re.compile(text))
    expect(page.locator(".bar").first).to_have_attribute("aria-label", re.compile(text))
    expect(page.locator(".insp")).not_to_contain_text("began 0 after")


def test_a_question_without_an_answer_is_not_called_answered(waiting: Served, open_page: Open) -> None:
    page = open_page(f"{waiting.url}/runs")
    expect(says(page, "unanswered")).to_contain_text("could not be answered")
    expect(says(page, "question-12")).to_contain_text("answered · 2 rows from 2 sources")
    page.goto(f"{waiting.url}/runs/unanswered")
    expect(page.locator("header.head [data-clew-status]")).to_have_text("unanswered")
    expect(page.get_by_role("button", name="Export CSV")).to_have_count(0)
    page.goto(f"{waiting.url}/runs/question-12")
    expect(page.locator("header.head [data-clew-status]")).to_have_text("answered")


@pytest.mark.parametrize(
    "run, place, state", [("asking", "review/check", "asks"), ("breaking", "review/break_down", "failed")]
)
def test_the_graph_shows_what_is_unfinished_inside_a_subgraph(
    run: str, place: str, state: str, waiting: Served, open_page: Open
) -> None:
    page = open_page(f"{waiting.url}/runs/{run}")
    expect(page.locator(f".graph [data-node='{place}']")).to_have_class(re.compile(rf"\b{state}\b"))
    expect(page.locator(".graph [data-node='review']")).to_have_class(re.compile(rf"\b{state}\b"))
    expect(page.locator(".graph [data-node='review/tidy']")).to_have_class(re.compile(r"\bran\b"))
    expect(page.locator(".graph [data-node='send']")).to_have_class(re.compile(r"\bnever\b"))
    stroke = "(node) => getComputedStyle(node.querySelector('.shape')).stroke"
    ran = page.locator(".graph [data-node='review/tidy']").evaluate(stroke)
    assert ran != page.locator(f".graph [data-node='{place}']").evaluate(stroke)
    expect(page.locator(".bar .ahead")).to_have_count(0)
    page.locator(".tl-box [data-path='review#0']").click()
    expect(page.locator(".insp .itemrow").first).to_contain_text("tidy#0")
    expect(page.locator(f".graph [data-node='{place}']")).to_have_class(re.compile(rf"\b{state}\b"))
