"""A store with runs of every kind, as the tests and the pictures of the page use it."""

from __future__ import annotations

import sys
from pathlib import Path

from clew import DependencyGraph, Engine, Graph, SQLiteStore
from clew.stores import Store
from clew.views.checks import check_document, keep_check
from examples.checks import double_charge
from tests.browser import flows
from tests.browser.events import SCHEMAS

BAD_INVOICE = {
    "day": "2026-11-13",
    "lines": [{"amount": 120, "currency": "EUR"}, {"amount": 89.5, "currency": "CHF"}],
}


MODULE = "tests.browser.flows"


def engine_of(store: Store, graph: Graph, name: str, **options: object) -> Engine:
    return Engine(graph, store=store, import_string=f"{MODULE}:{name}", check=False, **options)


def fill(store: Store, *, files: int = 40, steps: int = 60) -> None:
    """Add one run of each kind."""
    letter = engine_of(store, flows.letter, "letter")
    for number, text in enumerate(("The harbour is closed on Sunday", "The lighthouse gets a new lamp")):
        letter.run({"text": text}, run_id=f"letter-{331 + number}")
    invoice = engine_of(store, flows.invoice, "invoice")
    good = {**BAD_INVOICE, "lines": BAD_INVOICE["lines"][:1]}
    invoice.run({"invoice": good}, run_id="invoice-2199")
    walk = engine_of(store, flows.walk, "walk")
    walk.run({"at": 0, "upto": steps}, run_id="walk-77")
    walk.fork("walk-77", step=10, values={"upto": 20}, run_id="walk-77-short")
    audit = engine_of(store, flows.audit, "audit", max_concurrent_nodes=24)
    audit.run({"files": [f"part-{n:04}.parquet" for n in range(files)]}, run_id="audit-0931")
    invoice.run({"invoice": BAD_INVOICE}, run_id="invoice-2207")
    support = engine_of(store, flows.support, "support")
    support.run({"ticket": "kettle", "messages": []}, run_id="ticket-8842")
    support.resume("ticket-8842", answer=flows.Decision("refund", 64.9))
    support.run({"ticket": "kettle", "messages": []}, run_id="ticket-8841", attributes={"tenant": "acme"})


def fill_answer(store: Store) -> None:
    """Add a run that asked two databases."""
    asked = {"user_query": "Which city buys most, and how long do its parcels take?"}
    engine_of(store, flows.question, "question").run(asked, run_id="question-12")


EVENTS = [{"id": "e1", "kind": "photo"}, {"id": "e2", "kind": "note"}, {"id": "e3", "kind": "photo"}]


def fill_values_and_check(path: Path) -> None:
    """Add a dependency graph with outdated values, and the result of a check that found a violation."""
    with DependencyGraph(SCHEMAS, store=str(path), name="events") as graph:
        graph.set("names", {"e1": "Harbour"})
        graph.set("size", 300)
        graph.set("events", EVENTS)
        graph.pull("page(e1)")
        graph.pull("page(e3)")
        graph.set("size", 320)
        graph.pull("index")
    store = SQLiteStore(path)
    try:
        for name, check in (("check", double_charge.check), ("fixed", double_charge.fixed)):
            keep_check(store, check_document(f"double_charge:{name}", check.run()))
    finally:
        store.close()


def fill_hostile(store: Store) -> None:
    """Add runs whose ids, values, node names and errors try to be markup."""
    engine_of(store, flows.letter, "letter").run(
        {"text": flows.HOSTILE}, run_id=flows.HOSTILE, attributes={flows.HOSTILE: flows.HOSTILE}
    )
    engine_of(store, flows.hostile, "hostile").run(
        {"text": flows.HOSTILE}, run_id="<script>alert(2)</script>"
    )


def fill_many(store: Store, count: int) -> None:
    """Add many short runs."""
    invoice = engine_of(store, flows.letter, "letter")
    for number in range(count):
        invoice.run({"text": f"note {number}"}, run_id=f"note-{number:05}")


if __name__ == "__main__":
    opened = SQLiteStore(Path(sys.argv[1]))
    try:
        fill(opened, files=int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    finally:
        opened.close()
