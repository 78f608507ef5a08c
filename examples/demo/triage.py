"""The demo: run a small graph with live progress, then show its result, its states and a fork.

`clew demo` executes this program. It triages log lines. The graph has a fan-out (one item for each service), a loop
(the two most similar messages are merged, until no two are similar) and a slow branch (the run book). The parts:

- The graph. Its functions do real work, and ``pace`` slows them down. ``pace`` is a bound value and not part of the
  state, so the digests are the same with ``--quick``.
- `EventTimeline` collects what the event stream says about each node.
- Two screens: live with rich in a terminal, plain text elsewhere. ``--json`` prints everything as JSON.
- The second part, ``crash.py``: a run that is killed, resumed, replayed and forked.

Without rich, the demo prints plain text and says so.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import math
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import crash

from clew import (
    ClewError,
    Context,
    Engine,
    Event,
    Graph,
    MemoryStore,
    Send,
    SQLiteStore,
    ifelse,
    merge,
    node,
    route,
)

# -- the graph -------------------------------------------------------------------------------------------------

MESSAGES = """\
[cart] INFO GET /cart/{n} answered 200 in {ms} ms
[cart] ERROR GET /cart/{n} answered 502 in {ms} ms
[cart] ERROR POST /cart/{n}/item failed in {ms} ms
[database] WARN connection to 10.0.3.{d} refused after {ms} ms
[database] ERROR connection to 10.0.3.{d} refused, giving up
[database] WARN slow query, {ms} ms: orders by customer
[disk] WARN volume data{d} is 9{d} % full
[disk] INFO volume data{d} checked in {ms} ms
[mail] WARN mailbox of user {n} is full
[mail] WARN mailbox of user {n} is locked
[payment] ERROR payment for order {n} timed out after {ms} ms
[payment] ERROR payment for order {n} timed out, tried {d} times
[payment] INFO payment for order {n} went through"""
RUN_BOOK = {
    r"connection to \S+ refused": "restart pool",
    r"volume \S+ is 9\d % full": "rotate archive",
    r"payment .* timed out": "other provider",
}
Record = tuple[str, str, str]
Row = tuple[int, str, str]


class Triage(TypedDict):
    log: str
    threshold: float
    records: list[Record]
    advice: dict[str, str]
    patterns: Annotated[dict[str, int], merge]
    groups: list[dict[str, int]]
    closest: tuple[float, int, int]
    answer: list[Row]


@node(output="records")
def parse(log: str, ctx: Context, pace: float) -> list[Record]:
    """Return service, level and message of each line that is not routine."""
    ctx.sleep(0.3 * pace)
    found = re.findall(r"\[(\w+)\] (\w+) (.*)", log)
    return [(service, level, message) for service, level, message in found if level != "INFO"]


@node(output="advice")
def run_book(records: list[Record], ctx: Context, pace: float) -> dict[str, str]:
    """Look up every message in the run book: the slow branch. One long sleep would release the run."""
    advice: dict[str, str] = {}
    for problem, remedy in RUN_BOOK.items():
        ctx.sleep(1.8 * pace)
        advice |= {masked(message): remedy for _, _, message in records if re.search(problem, message)}
    return advice


@route(targets=["scan"])
def each_service(records: list[Record]) -> list[Send]:
    """Send one item for each service."""
    return [Send("scan", {"service": service}) for service in sorted({record[0] for record in records})]


@node(output="patterns")
def scan(service: str, records: list[Record], ctx: Context, pace: float) -> dict[str, int]:
    """Count the messages of one service, with their numbers masked."""
    ctx.sleep(ctx.random.uniform(0.4, 1.6) * pace)
    return dict(Counter(masked(message) for owner, _, message in records if owner == service))


@node(output="groups", after="scan")
def sort_out(patterns: dict[str, int]) -> list[dict[str, int]]:
    """Start with one group for each pattern."""
    return [{pattern: count} for pattern, count in sorted(patterns.items())]


@node(output="closest")
def compare(groups: list[dict[str, int]], ctx: Context, pace: float) -> tuple[float, int, int]:
    """Find the two most similar groups."""
    ctx.sleep(0.4 * pace)
    heads = [next(iter(group)) for group in groups]
    pairs = [(i, j) for i in range(len(heads)) for j in range(i)]
    return max(((likeness(heads[i], heads[j]), i, j) for i, j in pairs), default=(0.0, 0, 0))


@ifelse(when_true="fold", when_false="report")
def alike(closest: tuple[float, int, int], threshold: float) -> bool:
    """Decide whether the loop merges two more groups."""
    return closest[0] >= threshold


@node(output="groups")
def fold(groups: list[dict[str, int]], closest: tuple[float, int, int], ctx: Context, pace: float) -> Any:
    """Merge two groups; the more frequent pattern comes first."""
    ctx.sleep(0.2 * pace)
    _, i, j = closest
    both = sorted({**groups[i], **groups[j]}.items(), key=lambda entry: (-entry[1], entry[0]))
    return [group for k, group in enumerate(groups) if k not in (i, j)] + [dict(both)]


@node(output="answer")
def report(groups: list[dict[str, int]], advice: dict[str, str], ctx: Context, pace: float) -> list[Row]:
    """Join the groups of the loop with the advice of the run book."""
    ctx.sleep(0.3 * pace)
    rows = []
    for group in sorted(groups, key=lambda group: (-sum(group.values()), min(group))):
        remedy = next((advice[pattern] for pattern in group if pattern in advice), "")
        others = f" (+{len(group) - 1})" if len(group) > 1 else ""
        rows.append((sum(group.values()), next(iter(group)) + others, remedy))
    return rows


def masked(message: str) -> str:
    return re.sub(r"\d+", "#", message)


def likeness(a: str, b: str) -> float:
    return round(difflib.SequenceMatcher(None, a, b, autojunk=False).ratio(), 3)


def make_log(seed: int, lines: int = 160) -> str:
    """Return the log of a night, the same for the same seed."""
    rng, written = Random(seed), []
    for number in range(lines):
        message = rng.choice(MESSAGES.splitlines())
        text = message.format(n=rng.randint(100, 999), d=rng.randint(2, 8), ms=rng.randint(5, 4000))
        written.append(f"{number // 20:02}:{number % 20 * 3:02} {text}")
    return "\n".join(written)


nodes = [parse, run_book, each_service, scan, sort_out, compare, alike, fold, report]
graph = Graph(nodes, name="triage", state=Triage)
THRESHOLD, OTHER_THRESHOLD = 0.6, 0.8
RUN, FORK = "triage", "strict-triage"

# -- events ----------------------------------------------------------------------------------------------------


@dataclass
class Span:
    """One item, from its start to its end, in seconds since the run began."""

    path: str
    node: str
    step: int
    begin: float
    end: float = math.inf


@dataclass
class EventTimeline:
    """The events of a run so far."""

    nodes: Mapping[str, Any]
    began: float = 0.0
    spans: dict[str, Span] = field(default_factory=dict)
    committed: int = 0
    ahead: dict[str, int] = field(default_factory=dict)  # finished items of steps that are not committed yet
    status: str = "running"
    elapsed: float = 0.0

    def hear(self, event: Event) -> None:
        """Add an event."""
        now = event.time - self.began
        if event.kind == "run_started":
            self.began = event.time
        elif event.kind == "item_started":
            self.spans[event.path] = Span(event.path, event.node, event.step, now)
        elif event.kind == "item_finished":
            span = self.spans[event.path]
            span.end = span.begin + event.duration
            self.ahead[event.path] = event.step
        elif event.kind == "step_committed":
            self.committed = event.step
            self.ahead = {path: step for path, step in self.ahead.items() if step > event.step}
        elif event.kind == "run_finished":
            self.status, self.elapsed = event.status, now

    def of(self, name: str) -> list[Span]:
        """Return a copy of the items of a node; a screen reads them from another thread."""
        return [span for span in list(self.spans.values()) if span.node == name]

    def seconds(self) -> float:
        """Return the duration of the run so far."""
        return self.elapsed or (time.time() - self.began if self.began else 0.0)

    def state(self, name: str) -> str:
        """Return the state of a node: waits, runs or ran; after the run, done or unused."""
        spans = self.of(name)
        if any(span.end == math.inf for span in spans):
            return "runs"
        if self.status != "running":
            return "done" if spans else "unused"
        return "ran" if spans else "waits"

    def timeline(self, name: str, width: int, horizon: float, marks: Sequence[str]) -> str:
        """Return a line of `width` characters that shows when a node ran.

        `marks` are the characters for no item, one item and a gate. Several items are shown as a number.
        """
        nothing, one, gate = marks
        now, cell, line = self.seconds(), horizon / width, ""
        spans = [(span.begin, min(span.end, now)) for span in self.of(name)]
        for column in range(width):
            middle = (column + 0.5) * cell
            count = sum(begin <= middle < end or abs(begin - middle) <= cell / 2 for begin, end in spans)
            some = gate if self.nodes[name].is_gate else one if count == 1 else str(min(count, 9))
            line += some if count else nothing
        return line


def lesson(board: EventTimeline) -> str:
    """Return a sentence about the concurrency of the run, or an empty one if no later step overlapped."""
    spans = board.spans.values()
    slow = max(spans, key=lambda span: span.end - span.begin)
    later = [span for span in spans if span.step > slow.step and span.end <= slow.end]
    if not later:
        return ""
    total = sum(span.end - span.begin for span in spans)
    return (
        f"While {slow.node} ran, {len(later)} items of {len({span.step for span in later})} later steps finished. "
        f"The nodes took {total:.1f} s in total, the run {board.elapsed:.1f} s."
    )


# -- results ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """A title, a table, and text below it."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    below: str = ""


def brief(paths: Sequence[str]) -> str:
    """Return the paths of a step; those of a batch as a range."""
    batches: dict[str, list[str]] = {}
    for path in paths:
        name, _, index = path.partition("[")
        batches.setdefault(name, []).append(index.rstrip("]"))
    return ", ".join(n if i == [""] else f"{n}[{i[0]}-{i[-1]}]" for n, i in batches.items())


def chain_of(engine: Engine, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield each state of a chain: items, new versions of values, decisions and digest."""
    old: Mapping[str, int] = {}
    for at in engine.history(run_id):
        gates = [name for path in at.items if engine.graph.nodes[name := path.partition("#")[0]].is_gate]
        new = dict(at.state.versions)
        yield {
            "step": at.step_id,
            "items": list(at.items),
            "changed": {name: version for name, version in new.items() if old.get(name) != version},
            "decided": {gate: chosen(at.state.gate_decisions.get(gate)) for gate in gates},
            "digest": at.digest,
        }
        old = new


def chosen(choice: Any) -> str:
    """Return the decision of a gate as text."""
    parts = (choice,) if isinstance(choice, str) else choice or ("nothing",)
    names = Counter(str(getattr(part, "target", part)) for part in parts)
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in names.items())


def chain_table(engine: Engine, run_id: str, title: str, below: str) -> Panel:
    rows = []
    for state in chain_of(engine, run_id):
        written = [f"{name} v{version}" for name, version in state["changed"].items()]
        decided = [f"-> {choice}" for choice in state["decided"].values()]
        changes = ", ".join(written + decided) if state["items"] else "initial state"
        rows.append((f"S({state['step']})", brief(state["items"]) or "-", changes, str(state["digest"][:12])))
    return Panel(title, ("state", "ran", "changed", "digest"), rows, below)


def difference(old: Sequence[Row], new: Sequence[Row]) -> list[Record]:
    """Return the rows that only one of two answers has."""
    removed, added = [row for row in old if row not in new], [row for row in new if row not in old]
    return [("-", str(row[0]), row[1]) for row in removed] + [("+", str(row[0]), row[1]) for row in added]


# -- screens ---------------------------------------------------------------------------------------------------


class Plain:
    """Lines of text, for pipes and files."""

    def watch(self, board: EventTimeline, events: Iterator[Event], title: str) -> None:
        print(f"{title}\n")
        for event in events:
            board.hear(event)
            if event.kind == "item_finished":
                span = board.spans[event.path]
                print(f"{span.end:6.2f} s  {event.path:16} took {event.duration:.2f} s")
        print()
        for name in board.nodes:
            print(f"{name:>14} |{board.timeline(name, 60, board.elapsed, (' ', '=', '*'))}|")
        print(f"\n{lesson(board)}")

    def table(self, table: Panel) -> None:
        print(f"\n{table.title}")
        widths = [max(map(len, column)) for column in zip(table.columns, *table.rows)]
        for row in (table.columns, *table.rows) if table.rows else ():
            print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if table.below:
            print(table.below)


LOOKS = {  # by state of a node: sign, style, style of its bar
    "waits": ("○", "dim", "cyan"),
    "runs": ("▶", "bold yellow", "yellow"),
    "ran": ("·", "", "cyan"),
    "done": ("✓", "green", "cyan"),
    "unused": ("–", "dim", "cyan"),
}


class Terminal:
    """A live table, with rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)

    def watch(self, board: EventTimeline, events: Iterator[Event], title: str) -> None:
        from rich.live import Live

        with Live(get_renderable=lambda: self._board(board, title), console=self.console) as live:
            for event in events:
                board.hear(event)
            live.refresh()
        self.console.print(f"[dim]{lesson(board)}[/]")

    def _board(self, board: EventTimeline, title: str) -> Any:
        from rich.table import Table as Grid
        from rich.text import Text

        now = board.seconds()
        width = max(20, min(self.console.width, 120) - 43)
        grid = Grid(title=f"{title}  [bold]{now:4.1f} s[/]", title_justify="left", title_style="")
        grid.box, grid.pad_edge = None, False
        for column in ("node", "", "items", "seconds", "when"):
            side: Any = "right" if column in ("items", "seconds") else "left"
            grid.add_column(column, justify=side, no_wrap=True)
        for name in board.nodes:
            state, spans = board.state(name), board.of(name)
            sign, style, bar = LOOKS[state]
            took = sum(min(span.end, now) - span.begin for span in spans)
            grid.add_row(
                Text(name, style=style),
                Text(f"{sign} {state}", style=style),
                str(len(spans) or ""),
                f"{took:.1f}" if spans else "",
                Text(board.timeline(name, width, max(6.3, now), (" ", "━", "◆")), style=bar),
            )
        caption, ahead = f"committed up to S({board.committed})", len(board.ahead)
        caption += f"; {ahead} items of later steps have already finished" if ahead else ""
        grid.caption, grid.caption_justify = Text(caption, style="dim"), "left"
        return grid

    def table(self, table: Panel) -> None:
        from rich import box
        from rich.table import Table as Grid
        from rich.text import Text

        self.console.print(f"\n[bold]{table.title}[/]")
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for column in table.columns:
            grid.add_column(column, no_wrap=column in ("state", "digest"))
        colours = {"-": "red", "+": "green"}
        for row in table.rows:
            grid.add_row(*map(Text, row), style=colours.get(row[0], ""))
        if table.rows:
            self.console.print(grid)
        if table.below:
            self.console.print(table.below, style="dim", markup=False)


def show(seed: int, pace: float, screen: Plain | Terminal, keep: Path | None = None) -> dict[str, Any]:
    """Show both parts, and return the results as plain data. `keep` is the file to keep the runs in."""
    store = MemoryStore() if keep is None else SQLiteStore(keep)
    with Engine(graph.bind(pace=pace), store=store, seed=seed) as engine:
        found = first_act(engine, seed, screen)
    return {**found, "durable": crash.act(pace, lambda *panel: screen.table(Panel(*panel)), keep)}


def first_act(engine: Engine, seed: int, screen: Plain | Terminal) -> dict[str, Any]:
    """Show a live run, its answer, its states, the reasons for the answer, and a fork."""
    values = {"log": make_log(seed), "threshold": THRESHOLD}
    board = EventTimeline(graph.nodes)
    screen.watch(board, iter(engine.stream(values, run_id=RUN)), f"Triage of a night's log (seed {seed})")
    result = engine.result(RUN)
    answer = result["answer"]
    rows = [(str(count), pattern, remedy or "-") for count, pattern, remedy in answer]
    screen.table(
        Panel("The answer (+1: one more pattern was merged)", ("lines", "pattern", "run book"), rows)
    )
    below = "Run the demo again, with or without --quick: the digests are the same."
    screen.table(chain_table(engine, RUN, "The chain of states", below))
    because = engine.why(RUN, "answer")
    screen.table(Panel("Why the answer has this value", (), (), str(because)))

    step = next(at.step_id for at in engine.history(RUN) if "groups" in at.values)
    title = f"What if: fork from S({step}) with threshold {OTHER_THRESHOLD} instead of {THRESHOLD}"
    began = time.perf_counter()
    fork = engine.fork(RUN, step=step, values={"threshold": OTHER_THRESHOLD}, run_id=FORK)
    took = time.perf_counter() - began
    again = {path.partition("#")[0] for at in engine.history(FORK) for path in at.items}
    spared = [name for name in graph.nodes if name not in again]
    shared = f"It shares S(0) to S({step}) with the run; {', '.join(spared)} did not run again."
    below = f"The fork took {took:.1f} s. {shared}"
    screen.table(chain_table(engine, FORK, title, below))
    differs = difference(answer, fork["answer"])
    screen.table(Panel("How the answer differs", ("", "lines", "pattern"), differs))
    return {
        "status": result.status,
        "seed": seed,
        "seconds": round(board.elapsed, 3),
        "answer": answer,
        "timeline": [asdict(span) for span in board.spans.values()],
        "chain": list(chain_of(engine, RUN)),
        "why": str(because).splitlines(),
        "fork": {
            "from": step,
            "values": {"threshold": OTHER_THRESHOLD},
            "answer": fork["answer"],
            "chain": list(chain_of(engine, FORK)),
            "difference": differs,
        },
    }


def remove_earlier(file: Path) -> bool:
    """Delete the runs of an earlier demo; return False if the file has anything else. The page may be open."""
    if not file.exists():
        return True
    try:
        with closing(SQLiteStore(file)) as store:
            made = {row.run_id for row in store.rows()}
            ours = [name for name in (FORK, RUN, crash.FORK, crash.RUN) if name in made]  # forks first
            if len(ours) < len(made):
                return False
            for name in ours:
                store.delete(name)
    except ClewError:
        return False
    return True


def pick_screen() -> Plain | Terminal:
    """Return a live screen for a terminal that supports it, otherwise plain text."""
    if not sys.stdout.isatty():
        return Plain()
    try:
        screen = Terminal()
    except ImportError:
        print(
            "rich is not installed, so the output is plain text; install it with: pip install rich",
            file=sys.stderr,
        )
        return Plain()
    console = screen.console
    return screen if console.encoding.startswith("utf") and not console.is_dumb_terminal else Plain()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python examples/demo/triage.py", description="Run example graphs.")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="factor for the delays of nodes, from 0 to 100"
    )
    parser.add_argument("--quick", action="store_true", help="do not delay nodes; the same as --pace 0")
    parser.add_argument("--store", type=Path, help="SQLite file to keep the runs in")
    parser.add_argument("--seed", type=int, default=7, help="seed of the log and of random numbers")
    given = parser.parse_args(arguments)
    pace = 0.0 if given.quick else given.pace
    if not 0 <= pace <= 100:
        parser.error(f"--pace must be a number from 0 to 100, got {pace}")
    if given.store is not None and not remove_earlier(given.store):
        print(
            f"error: {given.store} is not the store of an earlier demo\nhint: choose another file with --store",
            file=sys.stderr,
        )
        return 2
    try:
        if given.json:
            with redirect_stdout(io.StringIO()):
                found = show(given.seed, pace, Plain(), given.store)
            print(json.dumps(found, indent=2))
        else:
            found = show(given.seed, pace, pick_screen(), given.store)
    except KeyboardInterrupt:
        return 130
    if found["status"] != "completed":
        print(f"the run of the demo ended as {found['status']}: {found['error']}", file=sys.stderr)
    return 0 if found["status"] == "completed" else 1


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `... | head` ends it without a traceback
    sys.exit(main())
