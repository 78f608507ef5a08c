"""The header of a run: facts, forks, questions, failures, and what can be done with it.

It is read from the row and a few entries, so it does not depend on the number of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from clew.error_text import encodable
from clew.errors import ClewError, StoreCorruptError
from clew.runtime.log.entries.records import CALL, JOURNAL, LABEL, RETRY, STEP
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_rows import opened_row
from clew.runtime.workers.presence import graphs_of
from clew.stores import RunRow, Store
from clew.stores.protocol import LAST
from clew.views.commands import command, run_command, worker_command
from clew.views.failures import failures_json
from clew.views.query_answers import GRAPH, answer_json
from clew.views.questions import answer_command, questions_of
from clew.views.run.stored_steps import counts_of, record_of
from clew.views.run_rows import Json, RowReader, is_over

_MOST = 50  # forks and children that are listed
_SCANNED = 1_000  # of the newest runs, among which forks are looked for

VERBS = ("answer", "resume", "fork", "rerun", "replay", "cancel", "export", "delete")
ORDER = {
    "waiting": ("answer", "fork", "rerun", "replay", "cancel", "export", "delete"),
    "sleeping": ("answer", "fork", "rerun", "replay", "cancel", "export", "delete"),
    "failed": ("resume", "fork", "rerun", "export", "delete", "replay", "cancel"),
    "lost": ("resume", "fork", "cancel", "export", "rerun", "replay", "delete"),
    "paused": ("resume", "fork", "rerun", "replay", "cancel", "export", "delete"),
    "cancelled": ("resume", "fork", "rerun", "export", "delete", "replay", "cancel"),
    "running": ("cancel", "fork", "export", "rerun", "replay", "resume", "delete"),
    "queued": ("cancel", "export", "fork", "rerun", "replay", "resume", "delete"),
    "damaged": ("delete", "export"),
}
_COMPLETED = ("rerun", "replay", "fork", "export", "delete", "resume", "cancel")
_RUNNING = (("running",), "it is {}; cancel it first")
_REFUSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "cancel": (("completed", "failed", "cancelled", "compensated"), "it is {}"),
    "delete": _RUNNING,
    "rerun": _RUNNING,
    "replay": _RUNNING,
    "fork": (("queued",), "it has not begun"),
}
"""The statuses in which a verb cannot be used, and why."""


def why_not(verb: str, status: str, questions: int, is_child: bool) -> str | None:
    """Return why a verb cannot be used on a run; None if it can be."""
    if is_child and verb in ("resume", "cancel", "delete", "rerun"):
        return "it belongs to another run; use that one"
    if verb == "answer":
        return None if questions else "it asks nothing"
    if verb == "resume":
        return None if status in ("failed", "lost", "paused", "cancelled") else f"it is {status}"
    statuses, reason = _REFUSED.get(verb, ((), ""))
    return reason.format(status) if status in statuses else None


class RunHeader:
    """Reads the headers of runs. `address` is that of the store in commands."""

    def __init__(self, runs: RunReader, address: str, *, read_only: bool = False) -> None:
        self._runs = runs
        self._store: Store = runs.store
        self._address = address
        self._read_only = read_only

    def json(self, run_id: str, now: float) -> Json:
        """Return the header of a run. A part that is damaged is missing, and `damage` says why."""
        sealed = self._row(run_id)
        row = opened_row(sealed)
        rows = RowReader(self._store)
        shown = rows.json(sealed, now)
        status = shown["status"]
        found: Json = {
            **shown,
            "structure": row.structure,
            "ended": row.updated if is_over(row) else None,
            "first": row.parent_step or 0,
            "last": shown.pop("steps"),
            "digest": None,
            "items": None,
            "calls": 0,
            "retries": 0,
            "queue": None,
            "labels": [],
            "parent": None if row.parent is None else {"id": row.parent, "step": row.parent_step},
            "child_of": None if row.child_of is None else {"id": row.child_of, "place": row.place},
            "thread": None,
            "forks": [],
            "children": [],
            "questions": [],
            "failures": failures_json(sealed),
            "running": [],
            "answer": None,
            "worker": self.worker(row, rows),
        }
        found.pop("parent_step", None)
        if not row.damage:
            for read in (self._facts, self._around, self._asked):
                try:
                    read(found, row, rows)
                except ClewError as error:
                    found["damage"] = found["damage"] or str(error)
        found["doctor"] = command("doctor", address=self._address)
        found["verbs"] = self._verbs(row, status, found["questions"])
        return found

    def _row(self, run_id: str) -> RunRow:
        try:
            return self._store.row(run_id)
        except StoreCorruptError:
            rows, _cursor = self._store.page(text=run_id, limit=200, children=True)
            for row in rows:
                if row.run_id == run_id:
                    row.damage = row.damage or f"run {run_id!r}: its row is damaged; other runs can be read"
                    return row
            raise

    def _facts(self, found: Json, row: RunRow, rows: RowReader) -> None:
        store, run_id = self._store, row.run_id
        last = store.last(run_id, STEP.name, "", LAST)
        if last is not None:
            found["digest"], found["last"] = bytes(last.digest).hex(), last.n
        else:
            found["digest"] = row.start_digest
        counts = Counter[str]()
        for (kind, _), number in counts_of(store, run_id).items():
            counts[kind] += number
        found["calls"], found["retries"] = counts[CALL.name], counts[RETRY.name]
        found["ahead"] = counts[JOURNAL.name]
        run = self._runs.run_of(row)
        found["labels"] = [
            {"label": encodable(label.label), "step": label.step}
            for entry in store.within(run_id, (LABEL.name,))
            for label in [record_of(run, entry)]
        ]
        found["queue"] = rows.queue_json(row)
        found["thread"] = next((name for name, head in store.threads() if head == run_id), None)

    def _around(self, found: Json, row: RunRow, rows: RowReader) -> None:
        newest, _ = self._store.page(limit=_SCANNED, children=True, after=row.created)
        forks = [each for each in newest if each.parent == row.run_id][:_MOST]
        found["forks"] = [
            {"id": each.run_id, "step": each.parent_step, "status": rows.status(each)} for each in forks
        ]
        children = self._store.rows(of=row.run_id)[:_MOST]
        found["children"] = [
            {"id": each.run_id, "place": each.place, "status": each.status, "graph": each.graph}
            for each in children
        ]

    def _asked(self, found: Json, row: RunRow, rows: RowReader) -> None:
        if row.status in ("waiting", "sleeping", "running", "failed", "paused"):
            found["questions"] = questions_of(self._runs.run_of(row), self._address)
        if row.graph == GRAPH and row.status == "completed":
            found["answer"] = answer_json(self._runs.run_of(row).state().values)

    def _verbs(self, row: RunRow, status: str, questions: list[Json]) -> list[Json]:
        found, unanswered = [], sum(each["sent"] is None for each in questions)
        commands = {"fork": ("fork", "--step N")}
        order = ORDER.get(status, _COMPLETED)
        for verb in (*order, *(each for each in VERBS if each not in order)):
            reason = why_not(verb, status, unanswered, row.child_of is not None)
            if self._read_only and verb != "export":
                reason = "this server only reads (--read-only)"
            name, *more = commands.get(verb, (verb,))
            line = run_command(name, row.run_id, *more, address=self._address)
            if verb == "answer":
                line = answer_command(row.run_id, len(questions), self._address)
            found.append({"verb": verb, "enabled": reason is None, "reason": reason, "command": line})
        return found

    def worker(self, row: RunRow, rows: RowReader | None = None) -> Json:
        """Return whether a living worker has the graph of a run, and the command that starts one."""
        known = (rows or RowReader(self._store)).workers.values()
        is_there = any(
            each.structure == row.structure
            for worker in known
            if worker.is_alive
            for each in graphs_of(worker)
        )
        entry = self._store.entry(row.run_id)
        queue = "" if entry is None else entry.queue
        line = worker_command(row.target, queue=queue, address=self._address)
        return {"available": is_there, "command": line}
