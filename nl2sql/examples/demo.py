"""`demo`: a question across three sample databases, with what happens while it happens.

It ends by itself and leaves nothing behind but the run, if it was given a store. On a terminal the progress is
drawn in place; elsewhere it is a line for each node that finishes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from sample_postgres import sample_server

from clew import Event
from clew_nl2sql.answer import Answer
from clew_nl2sql.pipeline import Pipeline
from clew_nl2sql.sample_data import make_samples
from clew_nl2sql.template_synthesizer import shown

QUESTION = (
    "For each customer, what is the total amount of orders, how many tickets were opened"
    " and what is the total amount of overdue invoices?"
)
STAGES = (
    "schema_retriever",
    "ast_planner",
    "logical_validator",
    "generator",
    "physical_validator",
    "executor",
)


def demo(
    question: str = QUESTION,
    *,
    store: str | Path | None = None,
    postgres: bool = True,
    out: TextIO | None = None,
) -> Answer:
    """Ask a question of the three sample databases, and show how it is answered.

    Args:
        question: What to ask.
        store: A file for the run; in memory if left out.
        postgres: Whether to start a PostgreSQL for the third of them, if one can be started.
        out: Where to write; standard output if left out.
    """
    out = out or sys.stdout
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-samples-"))
        address = stack.enter_context(sample_server()) if postgres else None
        sources = make_samples(folder, postgres=address)
        print(f"{question}\n", file=out)
        kinds = {name: source.partition(":")[0] for name, source in sources.items()}
        print("asked of " + ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) + "\n", file=out)
        board = PipelineProgress()
        tell = stack.enter_context(board.drawn(out))
        pipeline = stack.enter_context(Pipeline(sources, store=store, listeners=[tell]))
        answer = pipeline.ask(question)
    say(answer, out)
    return answer


def say(answer: Answer, out: TextIO) -> None:
    """The answer: queries, rows, words, and where it came from."""
    for name, sql in answer.sql.items():
        print(f"{name}: {sql}", file=out)
    rows = [tuple("-" if value is None else shown(value) for value in row) for row in answer.rows]
    widths = [max(map(len, column)) for column in zip(answer.columns, *rows)]
    print(file=out)
    for row in (answer.columns, *rows):
        print("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip(), file=out)
    print(f"\n{answer.text}", file=out)
    for line in answer.provenance:
        print(f"  {line if line in answer.notes else f'from {line}'}", file=out)


class PipelineProgress:
    """What is known of each node, from the events of a run."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.lines: dict[str, str] = {}
        self._scans: dict[str, str] = {}

    def tell(self, event: Event) -> str | None:
        """Take in an event; the line that it changed, if any."""
        if event.kind == "gate_decided" and event.path.startswith("layer_router"):
            for number, sent in enumerate(event.data["decision"] or ()):
                self._scans[f"[{number}]"] = getattr(sent, "payload", {}).get("subgraph_id", "")
        if event.kind != "item_finished":
            return None
        node, path = event.data["node"], event.path
        if "/" not in path:
            if node != "sql_agent":
                self.lines[node] = "done"
                return str(node)
            name = self._name(path)
            self.lines[name] = "done"
            return name
        if node not in STAGES:
            return None
        name = self._name(path.partition("/")[0])
        self.lines[name] = f"{node} ({STAGES.index(node) + 1}/{len(STAGES)})"
        return name

    def _name(self, path: str) -> str:
        scan = next((name for end, name in self._scans.items() if path.endswith(end)), path)
        return f"sql_agent {scan}"

    @contextmanager
    def drawn(self, out: TextIO) -> Iterator[Any]:
        """A listener that shows progress there."""
        if out.isatty():
            try:
                from rich.console import Console
                from rich.live import Live
            except ModuleNotFoundError:
                pass
            else:
                with Live(self, console=Console(file=out), refresh_per_second=12):
                    yield self.tell
                print(file=out)
                return

        def tell(event: Event) -> None:
            if name := self.tell(event):
                print(f"{time.monotonic() - self.began:6.2f} s  {name}: {self.lines[name]}", file=out)

        yield tell
        print(file=out)

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 1))
        for name, state in list(self.lines.items()):
            done = state == "done"
            mark = Text("✓" if done else "●", style="green" if done else "yellow")
            table.add_row(mark, Text(name), Text(state, style="dim"))
        return table


if __name__ == "__main__":
    sys.exit(0 if demo().status == "answered" else 1)
