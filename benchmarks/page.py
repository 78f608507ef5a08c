"""The data of the page: what the server spends on the list of many runs, and on a window of a long run.

Times are those of the processor, because they are budgets of the server and other programs may run beside it. `window`
is 200 steps in the middle of a run of 100,000: the items and the changes, as the page asks for them while somebody
moves the scrubber. It is warm if the page has read a window near it, and cold for a new server. `memory` is what a
process grows by when it opens that run: header, items, changes, states, overview, reasons and log. `script` is what a
browser receives, compressed: before the largest screen shows something, and for all screens together. The rows of
`page_in_browser` follow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import page_in_browser
from benchmarks.contestants import CLEW, Contestant
from benchmarks.reading import stored_rows
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

RUNS = 10_000
STEPS = page_in_browser.MANY_STEPS
WINDOW = 200
ROOT = Path(__file__).parent.parent


def page(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "runs.db"
        _fill(place)
        warm_title = f"window of {WINDOW} of {STEPS:,} steps, warm"
        cold_title = f"window of {WINDOW} of {STEPS:,} steps, new server"
        rows = {
            "list": Row(
                "page-list", "page", f"newest 50 of {RUNS:,} runs, with counts", "ms", Bar(limit=5.0)
            ),
            "search": Row("page-search", "page", f"a word in {RUNS:,} runs", "ms", Bar(limit=100.0)),
            "warm": Row("page-warm", "page", warm_title, "ms", Bar(limit=10.0)),
            "cold": Row("page-cold", "page", cold_title, "ms", Bar(limit=80.0)),
            "memory": Row(
                "page-memory", "page", f"memory for a run of {STEPS:,} steps", "MB", Bar(limit=20.0)
            ),
        }
        samples: dict[str, list[float]] = {name: [] for name in rows}
        for number in range(settings.rounds):
            for name, sample in _measured(place, number).items():
                samples[name].append(sample)
        for name, row in rows.items():
            yield Result(row, (Outcome(CLEW, "measured", tuple(samples[name])),))
        yield from page_in_browser.measured(place, settings)
    for row, size in zip(SCRIPT_ROWS, script_sizes()):
        yield Result(row, (Outcome(CLEW, "measured", (size,)),))


SCRIPT_ROWS = (
    Row(
        "page-script", "page", "script before the largest screen is shown, compressed", "kB", Bar(limit=60.0)
    ),
    Row("page-script-all", "page", "script of all screens, compressed", "kB", Bar(limit=60.0)),
)


def script_sizes() -> tuple[float, float]:
    """Return the kilobytes of the script that the largest screen waits for, and of all script."""
    from clew.web.static_files import imported, load

    files = {name: file for name, file in load().items() if name.endswith(".js")}
    begin = imported("main.js", files) | {"theme.js"}
    screens = [begin | imported(name, files) for name in files if name.startswith("screens/")]
    sizes = {name: len(file.packed or file.content) / 1e3 for name, file in files.items()}
    return max(sum(sizes[each] for each in screen) for screen in screens), sum(sizes.values())


def _fill(place: Path) -> None:
    from clew import Engine, Graph, SQLiteStore, node, route

    @node(output="at")
    def step_on(at: int) -> int:
        return at + 1

    @route(targets=["step_on", "END"])
    def more(at: int, upto: int) -> str:
        return "step_on" if at < upto else "END"

    store = SQLiteStore(place)
    for row in stored_rows(RUNS):
        store.create(row)
    engine = Engine(Graph([step_on, more], name="walk"), store=store, max_steps=2 * STEPS)
    engine.run({"at": 0, "upto": STEPS // 2}, run_id="long")
    engine.run({"at": 0, "upto": page_in_browser.STEPS // 2}, run_id="middle")
    engine.close()


def _measured(place: Path, number: int) -> dict[str, float]:
    """Measure one round in a new process: nothing is cached from the round before."""
    command = [sys.executable, "-m", "benchmarks.page", str(place), str(number)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _cpu(action: Callable[[], Any], times: int = 1) -> float:
    """Return the milliseconds of the processor that an action takes, the fastest of several times."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best * 1e3


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure_round(place: str, number: int) -> dict[str, float]:
    """Measure everything once, as the server would answer."""
    from clew import SQLiteStore
    from clew.web.answers import encoded
    from clew.web.api import Api, Parameters
    from clew.web.verbs import Verbs

    store = SQLiteStore(place)
    api = Api(store, place, Verbs(store, place))

    def listed(text: str = "") -> bytes:
        return encoded(api.run_list(Parameters([("q", text)]), None))

    def window(first: int) -> None:
        asked = Parameters([("from", str(first)), ("to", str(first + WINDOW - 1))])
        encoded(api.changes(asked, None, "long"))
        encoded(api.items(asked, None, "long"))

    listed()
    api.run(Parameters([]), None, "long")
    before = _memory()
    middle = STEPS // 2 + 4_000 * number
    cold = _cpu(lambda: window(middle))
    warm = min(_cpu(lambda shift=shift: window(middle + shift)) for shift in (60, 110, 160))
    api.overview(Parameters([]), None, "long")
    for part in (api.changes, api.items, api.log, api.calls, api.graph):
        part(Parameters([("from", "99000")]), None, "long")
    for step in range(0, STEPS, STEPS // 40):
        api.state(Parameters([]), None, "long", str(step))
    api.why(Parameters([("item", "more#20000"), ("step", "40001")]), None, "long")
    memory = _memory() - before
    found = {"list": _cpu(listed, 5), "search": _cpu(lambda: listed("run 77"), 2)}
    store.close()
    return {**found, "warm": warm, "cold": cold, "memory": memory}


if __name__ == "__main__":
    print(json.dumps(measure_round(sys.argv[1], int(sys.argv[2]))))
