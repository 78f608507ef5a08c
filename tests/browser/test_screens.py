"""Every screen at 1440 and 390 px, in both themes: it shows its content, fits, and axe finds nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page import script_sizes
from clew.web.static_files import imported, load, pages
from tests.browser import flows
from tests.browser.conftest import DESK, PHONE, ROOT, Open, Served
from tests.browser.filled import engine_of

STATIC = ROOT / "src" / "clew" / "web" / "static"

SCREENS = {
    "runs": ("/runs", "ticket-8841"),
    "no match": ("/runs?q=nothing-like-this", "No run matches"),
    "waiting": ("/runs/ticket-8841?k=6&item=use_tool%230%5B1%5D&tab=question", "Answer and go on"),
    "failed": ("/runs/invoice-2207?item=sum_up%230&tab=error", "KeyError: 'CHF'"),
    "fan-out": ("/runs/audit-0931?k=2&item=scan%230%5B7%5D&tab=items&node=scan", "How long they took"),
    "calls": ("/runs/ticket-8842?tab=calls", "ask_model"),
    "log": ("/runs/ticket-8842?tab=log", "the tool answered 503"),
    "question": ("/runs/ticket-8841/answer/approve%230", "Answer and go on"),
    "questions": ("/questions", "Publish 'The harbour is closed on Sunday'?"),
    "answer": ("/runs/question-12", "Where it comes from"),
    "compare": ("/compare?a=walk-77&b=walk-77-short", "set at the fork"),
    "checks": ("/checks", "double_charge:fixed"),
    "check": ("/checks/double_charge%3Acheck", "charged once is violated here."),
    "check that held": ("/checks/double_charge%3Afixed", "Every state that was seen keeps every guarantee."),
    "values": ("/values", "may be outdated"),
    "value": ("/values/events?node=page(e1)", "Value at revision"),
    "queues": ("/queues", "No queues in this store"),
    "no such run": ("/runs/nobody", "There is no run nobody"),
    "no such address": ("/nowhere", "There is no such address"),
}
# What the browser itself reports when the server answers 404, as it should here.
MISSING = {"no such run": "404"}


def axe(page: Any, rules: str = "{resultTypes: ['violations']}") -> list[str]:
    """What axe finds, as text."""
    import axe_playwright_python

    source = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(source)
    found = page.evaluate(f"axe.run(document, {rules})")
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in found["violations"]
        for node in violation["nodes"][:3]
    ]


# Words of tables and times of cards that are broken, or cut off at the side.
BROKEN = """() => [...document.querySelectorAll('th, td.r, .line1 span')].filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
  const words = cell.textContent.trim().split(/\\s+/).length;
  return lines.size > words || (cell.matches('.line1 span') && cell.getBoundingClientRect().right > innerWidth);
}).map((cell) => cell.textContent)"""


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("viewport, theme", [(DESK, "light"), (PHONE, "dark")], ids=["desk", "phone"])
def test_shows_its_content_fits_and_passes_axe(
    name: str, viewport: dict[str, int], theme: str, served: Served, open_page: Open
) -> None:
    address, text = SCREENS[name]
    page = open_page(served.url + address, viewport=viewport, theme=theme, expect=MISSING.get(name, "$^"))
    page.get_by_text(text).first.wait_for()
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], "it scrolls sideways"
    assert page.evaluate("document.querySelectorAll('tr, [role=row], li').length") <= 200
    assert page.evaluate(BROKEN) == []
    assert axe(page) == []
    # The other theme, in the same page: the choice is kept in the browser.
    other = "dark" if theme == "light" else "light"
    page.evaluate(f"localStorage.setItem('clew.theme', '{other}'); dispatchEvent(new Event('clew-theme'))")
    assert page.evaluate("document.documentElement.dataset.theme") == other
    assert axe(page, "{runOnly: ['color-contrast']}") == []


def test_a_long_id_leaves_room_for_the_time(served: Served, open_page: Open) -> None:
    name = f"letter-{'9' * 60}"
    engine_of(served.store, flows.letter, "letter").run({"text": "x"}, run_id=name)
    page = open_page(f"{served.url}/runs?q={name}", viewport=PHONE)
    page.locator(f"[data-clew-run={name}]").wait_for()
    assert page.evaluate(BROKEN) == []


SENT = load(STATIC)


def test_comments_are_not_sent_and_lines_keep_their_numbers() -> None:
    sent = SENT["lib/lanes.js"].content.decode()
    written = (STATIC / "lib/lanes.js").read_text("utf-8")
    assert "// -" not in sent
    assert "/**" not in sent
    code = [line for line in written.splitlines() if line.startswith(("export", "  const", "}"))]
    assert [line for line in sent.splitlines() if line.startswith(("export", "  const", "}"))] == code
    assert written.count("\n") == sent.count("\n")
    assert b"/*" not in SENT["style.css"].content


def test_a_screen_needs_at_most_60_kb_of_script() -> None:
    """What is loaded later (dialogs, the graph, the inspector, forms) counts only in the size of the whole page."""
    largest, everything = script_sizes()
    assert largest <= 60
    assert everything <= 108
    assert len(SENT["style.css"].packed) <= 8_000


@pytest.mark.parametrize(
    "screen, module", [("runs", "screens/runs.js"), ("run", "screens/run.js"), ("", "main.js")]
)
def test_a_page_asks_at_once_for_the_modules_of_its_screen(screen: str, module: str) -> None:
    links = re.findall(r'rel="modulepreload" href="/static/([^"]+)"', pages(SENT)[screen].content.decode())
    assert set(links) == imported("main.js", SENT) | imported(module, SENT)


def list_of_an_idle_browser(url: str, open_page: Open, *, saves_data: bool) -> tuple[Any, list[str]]:
    """Open the list in a browser that has nothing else to do; return its page, and what it asks for."""
    page = open_page(f"{url}/questions")  # the script below is there for the next address
    page.add_init_script(f"""window.requestIdleCallback = (action) => action();
      Object.defineProperty(navigator, 'connection', {{value: {{saveData: {str(saves_data).lower()}}}}})""")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/runs")
    page.wait_for_function("() => performance.getEntriesByName('first-list').length")
    page.evaluate("() => fetch('/static/icon.svg')")  # what was asked for before, is known after it
    return page, asked


def test_the_screen_of_a_run_is_loaded_while_the_list_is_read(served: Served, open_page: Open) -> None:
    page, asked = list_of_an_idle_browser(served.url, open_page, saves_data=False)
    assert f"{served.url}/static/screens/run.js" in asked
    page.locator("[data-row] a").first.click()
    page.locator("header.head h1").wait_for()


def test_nothing_is_loaded_early_for_somebody_who_saves_data(served: Served, open_page: Open) -> None:
    page, asked = list_of_an_idle_browser(served.url, open_page, saves_data=True)
    assert f"{served.url}/static/screens/run.js" not in asked
    page.locator("[data-row] a").first.click()
    page.locator("header.head h1").wait_for()


def test_every_file_of_the_page_is_used() -> None:
    text = "".join(path.read_text("utf-8") for path in [STATIC / "index.html", *STATIC.rglob("*.js")])
    for path in STATIC.rglob("*.*"):
        if path.suffix in {".js", ".css", ".svg"}:
            assert path.name in text, path


MARKUP = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")


def test_the_page_never_makes_markup_from_text() -> None:
    for path in STATIC.rglob("*.js"):
        if path.parent.name != "vendor":
            found = [word for word in MARKUP if word in path.read_text("utf-8")]
            assert found == [], path
