"""A process that asks a question and never gets its last scan: to be killed.

``python -m nl2sql.tests.killed FOLDER`` with the sample databases in FOLDER. It writes a line to FOLDER/done for
each scan that is finished, and to FOLDER/started when the last one hangs."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from clew import Event
from clew_nl2sql import Pipeline, probes
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.sample_data import make_samples
from clew_nl2sql.sources import QueryResult, open_source
from clew_nl2sql.sql.guard import CheckedQuery
from nl2sql.tests.patience import PATIENT_PROBES
from nl2sql.tests.scripted import TICKETS, TOP_CUSTOMERS, TOP_FIVE, UNPAID, Scripted

PLANS = {"sales": TOP_CUSTOMERS, "support": TICKETS, "erp": UNPAID}


class Counted:
    """A source that writes down what it runs, and may hang."""

    def __init__(self, folder: Path, name: str, address: str, *, hangs: bool = False) -> None:
        self._log, self._source, self._hangs = folder / f"ran-{name}", open_source(address), hangs

    @property
    def dialect(self) -> str:
        return self._source.dialect

    def catalog(self) -> Catalog:
        return self._source.catalog()

    def explain(self, query: CheckedQuery) -> str:
        return self._source.explain(query)

    def run(self, query: CheckedQuery, max_rows: int) -> QueryResult:
        with self._log.open("a") as log:
            log.write("ran\n")
        if self._hangs:
            (self._log.parent / "started").touch()
            threading.Event().wait()
        return self._source.run(query, max_rows)


def pipeline(folder: Path, *, hangs: bool) -> Pipeline:
    addresses = (
        make_samples(folder)
        if hangs
        else {
            "sales": f"sqlite:///{folder}/sales.db",
            "support": f"duckdb:///{folder}/support.duckdb",
            "erp": f"sqlite:///{folder}/erp.db",
        }
    )
    sources = {n: Counted(folder, n, a, hangs=hangs and n == "erp") for n, a in addresses.items()}

    def tell(event: Event) -> None:
        if event.kind == "item_finished" and event.data.get("node") == "sql_agent":
            with (folder / "done").open("a") as done:
                done.write(f"{event.path}\n")

    return Pipeline(sources, planner=Scripted(PLANS), store=folder / "runs.db", listeners=[tell])


if __name__ == "__main__":
    probes.SECONDS = PATIENT_PROBES  # as in the process that resumes: a changed constant is changed code
    pipeline(Path(sys.argv[1]), hangs=True).ask(TOP_FIVE, run_id="killed")
