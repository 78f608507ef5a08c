"""The page in Chromium: how long somebody waits for it, how often it paints, and how much memory its tab has.

Every round has a new server and a browser without a cache. Times are by the clock, because somebody waits for them:
`list` from the navigation to the first row; `header` and `panes` from a click on a run in that list, until everything
of it is painted; `address` from the navigation to the address of the run, also until everything is painted. `live` is
how many frames a second have something new while another process commits steps and the page shows the last one. `heap`
and `tab` are taken after the states of a long run were shown at many places: what script holds, and the memory of the
renderer as the browser's task manager counts it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contestants import CLEW
from benchmarks.rows import Bar, Outcome, Result, Row, Settings, Status
from clew import Engine, Graph, SQLiteStore, node, route

ROOT = Path(__file__).parent.parent
STEPS, MANY_STEPS = 10_000, 100_000
RATE = 5_000  # steps a second
SECONDS = 3.0
PLACES = 20
ROWS = {
    "list": Row("page-first-list", "page", "first list in the browser", "ms", Bar(limit=300.0)),
    "header": Row(
        "page-header", "page", f"header of a run of {STEPS:,} steps after a click", "ms", Bar(limit=100.0)
    ),
    "panes": Row("page-panes", "page", f"all panes of a run of {STEPS:,} steps", "ms", Bar(limit=500.0)),
    "address": Row("page-address", "page", "the same by its address, without a cache", "ms"),
    "live": Row("page-live", "page", f"paints of a run of {RATE:,} steps a second", "1/s", Bar(limit=10.0)),
    "followed": Row("page-followed", "page", "the same: steps that the page has followed", "1/s"),
    "heap": Row("page-heap", "page", f"memory of script for a run of {MANY_STEPS:,} steps", "MB"),
    "tab": Row(
        "page-tab", "page", f"memory of the tab for a run of {MANY_STEPS:,} steps", "MB", Bar(limit=150.0)
    ),
}
PARTS = {
    "list": ["[data-row]"],
    "header": ["header.head h1", "header.head [data-clew-status]"],
    "panes": [
        f".p-graph [aria-label*='×{STEPS // 2}']",  # from the overview, which counts the whole run
        ".tl-scroll :is(.bar, .tl-canvas)",
        ".chain rect",
        ".values :is(.value, .empty)",
        ".p-insp .insp",
    ],
}
WATCH = """(parts) => {
  window.shown = {};
  let since = 0;
  addEventListener('click', (event) => { since = event.timeStamp; }, true);
  const look = () => {
    for (const [name, selectors] of Object.entries(parts)) {
      if (name in shown || !selectors.every((each) => document.querySelector(each))) continue;
      shown[name] = null;
      setTimeout(() => { shown[name] = performance.now() - since; });  // this frame is painted
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
COUNT_PAINTS = """async (seconds) => {
  let paints = 0, changed = false;
  const watcher = new MutationObserver(() => {
    if (changed) return;
    changed = true;
    requestAnimationFrame(() => { changed = false; paints++; });
  });
  watcher.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const slider = document.querySelector('[role=slider]');
  const began = performance.now(), first = slider.ariaValueMax;
  await new Promise((end) => setTimeout(end, 1000 * seconds));
  watcher.disconnect();
  const spent = (performance.now() - began) / 1000;
  return [paints / spent, (slider.ariaValueMax - first) / spent];
}"""
NewPage = Callable[[], Any]


def measured(place: Path, settings: Settings) -> Iterator[Result]:
    """Measure the page over a store that has the runs `middle` and `long`."""
    rounds: list[dict[str, float]] = []
    status: Status = "measured"
    note = ""
    try:
        with _browser() as new_page:
            for _ in range(settings.rounds):
                rounds.append(
                    {**_waited(place, new_page), **_remembered(place, new_page), **_painted(new_page)}
                )
    except ImportError as error:
        status, note = "missing", str(error)
    except Exception as error:  # as in measure: what breaks is reported, and the others go on
        status, note = "failed", f"{type(error).__name__}: {error}"
    for name, row in ROWS.items():
        samples = tuple(each[name] for each in rounds) if status == "measured" else ()
        yield Result(row, (Outcome(CLEW, status, samples, note),))


@contextmanager
def _browser() -> Iterator[NewPage]:
    """A Chromium; raises ImportError where there is none."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import DESK, FLAGS, PATIENCE, chromium

    path = chromium()
    if path is None:
        raise ImportError("no Chromium on this machine; set CLEW_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), timeout=PATIENCE)

        @contextmanager
        def new_page() -> Iterator[Any]:
            with browser.new_context(viewport=DESK) as context:
                context.set_default_timeout(PATIENCE)
                yield context.new_page()

        yield new_page
        browser.close()


@contextmanager
def _served(place: Path) -> Iterator[str]:
    from tests.browser.conftest import Process

    with closing(Process(place)) as server:
        yield server.url


def _waited(place: Path, new_page: NewPage) -> dict[str, float]:
    with _served(place) as url, new_page() as page:
        page.add_init_script(f"({WATCH})({PARTS})")
        page.goto(f"{url}/runs")
        page.wait_for_function("() => shown.list")
        page.locator("[data-clew-run=middle] a").click()
        page.wait_for_function("() => shown.panes")
        found: dict[str, float] = page.evaluate("shown")
    with _served(place) as url, new_page() as page:
        page.add_init_script(f"({WATCH})({PARTS})")
        page.goto(f"{url}/runs/middle")
        page.wait_for_function("() => shown.panes")
        return {**found, "address": page.evaluate("shown.panes")}


def _remembered(place: Path, new_page: NewPage) -> dict[str, float]:
    with _served(place) as url, new_page() as page:
        page.goto(f"{url}/runs/long")
        slider = page.get_by_role("slider")
        box = slider.bounding_box()
        for number in range(PLACES):
            slider.click(position={"x": box["width"] * number / PLACES, "y": box["height"] / 2})
            page.locator(".values :is(.value, .empty)").first.wait_for()
        of_page = page.context.new_cdp_session(page)
        of_page.send("HeapProfiler.collectGarbage")
        heap = of_page.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        of_browser = page.context.browser.new_browser_cdp_session()
        processes = of_browser.send("SystemInfo.getProcessInfo")["processInfo"]
        return {
            "heap": heap,
            "tab": max(_memory(each["id"]) for each in processes if each["type"] == "renderer"),
        }


def _memory(process: int) -> float:
    """Return the megabytes that belong to a process alone, as the task manager of Chromium counts them."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    sizes = {name: size for name, _, size in (line.partition(":") for line in lines)}
    return sum(int(sizes[name].split()[0]) for name in ("RssAnon", "VmSwap")) * 1024 / 1e6


def _painted(new_page: NewPage) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "runs.db"
        SQLiteStore(place).close()
        with _served(place) as url, _committing(place), new_page() as page:
            page.goto(f"{url}/runs")
            page.locator("[data-clew-run=live] a").click()
            page.get_by_role("slider").wait_for()
            page.wait_for_timeout(2000)  # what follows a click is drawn at once
            paints, followed = page.evaluate(COUNT_PAINTS, SECONDS)
            return {"live": paints, "followed": followed}


@contextmanager
def _committing(place: Path) -> Iterator[None]:
    """Another process that commits steps, until it is ended."""
    command = [sys.executable, "-m", "benchmarks.page_in_browser", str(place)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield
        finally:
            process.kill()


@node(output="at")
def step_on(at: int) -> int:
    time.sleep(max(0.0, BEGAN + 2 * at / RATE - time.monotonic()))
    return at + 1


@route(targets=["step_on"])
def again(at: int) -> str:
    return "step_on"


if __name__ == "__main__":
    BEGAN = time.monotonic()
    store = SQLiteStore(sys.argv[1], synchronous="normal")
    Engine(Graph([step_on, again], name="walk"), store=store, max_steps=10**9).run({"at": 0}, run_id="live")
