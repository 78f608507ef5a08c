"""Take the pictures of the page, ``page-*.png``, from real runs. Needs Chromium, and about a minute.

python docs/pictures/page.py [NAME ...]
"""

from __future__ import annotations

import linecache
import os
import sys
import tempfile
import threading
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["CLEW_PAGE_PACE"] = "1"


def shop() -> types.ModuleType:
    """Load the graphs of the tests as the module of a user: pictures show no path of this machine."""
    source = (ROOT / "tests/browser/flows.py").read_text("utf-8")
    name = "/srv/shop/flows.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = sys.modules["flows"] = sys.modules["tests.browser.flows"] = types.ModuleType("flows")
    exec(compile(source, name, "exec"), module.__dict__)
    return module


import tests.browser  # noqa: E402

tests.browser.flows = shop()

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from clew import SQLiteStore  # noqa: E402
from tests.browser import filled, flows  # noqa: E402
from tests.browser.conftest import DESK, FLAGS, PHONE, Served, chromium  # noqa: E402

# name: address, a text to wait for, size, theme
PICTURES = {
    "runs": ("/runs", "ticket-8841", DESK, "light"),
    "waiting": (
        "/runs/ticket-8841?k=6&item=use_tool%230%5B1%5D&tab=question",
        "Answer and go on",
        DESK,
        "light",
    ),
    "failed": ("/runs/invoice-2207?item=sum_up%230&tab=error", "What to do", DESK, "dark"),
    "fan-out": ("/runs/audit-0931?k=2&item=scan%230%5B317%5D&tab=items&node=scan", "Slowest", DESK, "dark"),
    "live": ("/runs/night-1114?k=8&item=fold%231&tab=item", "Ran ahead", DESK, "dark"),
    "compare": ("/compare?a=walk-77&b=walk-77-short", "set at the fork", DESK, "light"),
    "check": ("/checks/double_charge%3Acheck", "Path to it", DESK, "dark"),
    "values": ("/values/events?node=page(e1)", "Value at revision", DESK, "light"),
    "phone": ("/runs/ticket-8841/answer/approve%230", "Answer and go on", PHONE, "light"),
}


def prepare(path: Path) -> None:
    """Fill a store with runs, a dependency graph and a check."""
    store = SQLiteStore(path)
    filled.MODULE = "flows"
    filled.fill(store, files=500)
    store.close()
    filled.fill_values_and_check(path)


def work_at_night(server: Served) -> None:
    """Execute a run of which one node waits, while the others run ahead."""
    filled.engine_of(server.store, flows.night, "night").run(flows.NIGHT, run_id="night-1114")


def take(browser: Browser, server: Served, name: str) -> Path:
    """Take one picture."""
    address, text, size, theme = PICTURES[name]
    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce", locale="en-GB")
    page = context.new_page()
    page.goto(server.url + address)
    page.get_by_text(text).first.wait_for()
    page.wait_for_selector("[data-clew-live=live]")
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)  # the layout follows the sizes of the panes
    target = Path(__file__).with_name(f"page-{name}.png")
    page.screenshot(path=target)
    context.close()
    return target


def main() -> None:
    """Take the pictures that are named, or all."""
    names = sys.argv[1:] or list(PICTURES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clew.db")
        prepare(path)
        server = Served(path, address="clew.db")
        night = threading.Thread(target=work_at_night, args=(server,))
        night.start()
        flows.NIGHT_IS_AHEAD.wait(60)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
                for name in names:
                    sys.stdout.write(f"{take(browser, server, name).relative_to(ROOT)}\n")
                browser.close()
        finally:
            flows.NIGHT_MAY_END.set()
            night.join()
            server.close()


if __name__ == "__main__":
    main()
