"""One run in a list: its status as people see it, and one line about what it does.

A run whose row says "running" but whose owner is dead is *lost*. What a run says is its question, its error, or how far
it is; that needs a few entries of its log, so it is read only for the rows that are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from clew.error_text import encodable, type_name
from clew.errors import ClewError
from clew.graph import Send
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.records import JOURNAL, RETRY, STEP, WAIT, WAITED, names_of
from clew.runtime.log.entries.wait_records import WaitRecord
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_rows import opened_row
from clew.stores import RunRow, Store
from clew.stores.protocol import LAST, Owner, WorkerRow
from clew.stores.queue import FINAL, PARKED
from clew.views.query_answers import GRAPH, answer_line
from clew.views.questions import open_questions, title_of, unanswered
from clew.views.run.stored_steps import counts_of

Json = dict[str, Any]
EXECUTES = ("running",)


class RowReader:
    """Shows the rows of one store. It is made for one answer: workers and owners are read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._workers: dict[str, WorkerRow] | None = None
        self._owners: dict[str, Owner | None] = {}

    @property
    def workers(self) -> Mapping[str, WorkerRow]:
        """The registered owners by name."""
        if self._workers is None:
            self._workers = {each.owner: each for each in self.store.workers()}
        return self._workers

    def owner(self, row: RunRow) -> Owner | None:
        """Return the owner of a run that executes."""
        if row.status not in EXECUTES:
            return None
        if row.run_id not in self._owners:
            self._owners[row.run_id] = self.store.owner(row.run_id)
        return self._owners[row.run_id]

    def status(self, row: RunRow) -> str:
        """Return the status as people see it."""
        if row.damage:
            return "damaged"
        if row.status in EXECUTES:
            owner = self.owner(row)
            if owner is None or not owner.holds:
                return "lost"
        return row.status

    def steps(self, row: RunRow) -> int | None:
        """Return the number of the last committed step."""
        if row.status not in EXECUTES and row.census is not None:
            return row.census.get("", row.parent_step or 0)
        last = self.store.last(row.run_id, STEP.name, "", LAST)
        return (row.parent_step or 0) if last is None else last.n

    def took(self, row: RunRow, now: float) -> float | None:
        """Return the seconds from the creation to the last change, or until now for a run that executes.

        None for a run that has not begun, and for one whose process was lost: its end was not recorded.
        """
        status = self.status(row)
        if status in ("queued", "lost"):
            return None
        return max(0.0, (now if status in EXECUTES else row.updated) - row.created)

    def owner_json(self, row: RunRow) -> Json | None:
        owner = self.owner(row)
        if owner is None:
            return None
        worker = self.workers.get(owner.name)
        found: Json = {"name": owner.name, "host": "", "pid": None, "label": "", "lease": owner.expires_in}
        if worker is not None:
            found.update(host=worker.host, pid=worker.pid, label=worker.label)
            found["name"] = worker.label or f"process {worker.pid}"
        return {**found, "alive": owner.holds}

    def queue_json(self, row: RunRow) -> Json | None:
        """Return the place of a run in a queue as JSON."""
        entry = self.store.entry(row.run_id)
        if entry is None:
            return None
        is_parked = entry.due == PARKED
        return {"name": entry.queue, "due": None if is_parked else entry.due, "parked": is_parked}

    def json(self, row: RunRow, now: float) -> Json:
        """Return a row of the list. A part that cannot be read is missing; the row is still listed."""
        found = opened_row(row)
        shown: Json = {
            "id": encodable(found.run_id),
            "status": self.status(found),
            "graph": encodable(found.graph),
            "target": encodable(found.target),
            "says": NOTHING,
            "steps": None,
            "took": None,
            "owner": None,
            "created": found.created,
            "updated": found.updated,
            "parent": found.parent,
            "parent_step": found.parent_step,
            "child_of": found.child_of,
            "attributes": {encodable(name): encodable(text) for name, text in found.attributes.items()},
            "queue": None,
            "damage": found.damage or None,
        }
        if found.damage:
            return shown
        try:
            shown["steps"] = self.steps(found)
            shown["took"] = self.took(found, now)
            shown["owner"] = self.owner_json(found)
            if found.status == "queued":
                shown["queue"] = self.queue_json(found)
            shown["says"] = self.says(found, now)
        except ClewError as error:
            shown["damage"] = str(error)
        return shown

    # -- what it says ------------------------------------------------------------------------------------

    def says(self, row: RunRow, now: float) -> Json:
        """Return what a run does or why it stopped, in one line."""
        if row.status == "failed" and row.failures:
            failure = row.failures[0]
            line = " ".join(str(failure.error).split())
            return says("error", encodable(line[:400]), path=failure.path, type=type_name(failure.error))
        if row.status in ("waiting", "sleeping"):
            return self._question(row) or self._wait(row)
        if row.status in EXECUTES:
            return self._progress(row)
        if row.status == "queued":
            return self._place(row, now)
        return self._end(row)

    def _question(self, row: RunRow) -> Json | None:
        """Return the first question without an answer, or that all of them have one."""
        asked = unanswered(self.store, row)
        if asked:
            more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
            return says("question", title_of(asked[0].question) + more, path=asked[0].path)
        return says("queued", "answered, waits for a worker") if open_questions(self.store, row) else None

    def _place(self, row: RunRow, now: float) -> Json:
        """Return what a run in a queue waits for: its time, or a worker."""
        entry = self.store.entry(row.run_id)
        if entry is not None and entry.due is not None and now < entry.due < PARKED:
            return says("queued", "waits", due=entry.due)
        return says("queued", "waits for a worker")

    def _end(self, row: RunRow) -> Json:
        """Return what is worth knowing about a run that has ended or is paused."""
        if row.failures:
            failed = sum(not each.rescued for each in row.failures)
            what = f"{failed} item{'' if failed == 1 else 's'} failed" if failed else "a failure was rescued"
            return says("failures", what, path=row.failures[0].path)
        if row.graph == GRAPH and row.status == "completed":
            answer = answer_line(RunReader(None, self.store, "error").open(row.run_id).state().values)
            if answer:
                return says("answer", answer)
        if row.parent is not None:
            return says("fork", f"fork of {row.parent} at S({row.parent_step})")
        return NOTHING

    def _wait(self, row: RunRow) -> Json:
        """Return what the run waits for, and until when: the wait that ends first."""
        decoder = EntryDecoder(row.run_id, self.store.blob, row.created, classes=False)
        found = [decoder.record(entry) for entry in self.store.within(row.run_id, names_of(WAIT, WAITED))]
        ended = {(each.path, each.n) for each in found if not isinstance(each, WaitRecord)}
        waits = [each for each in found if isinstance(each, WaitRecord) and (each.path, each.n) not in ended]
        if not waits:
            return says("wait", "waits for a signal" if row.status == "waiting" else "sleeps")
        first = min(waits, key=lambda wait: (wait.due is None, wait.due or 0.0, wait.path))
        what = f"waits for the signal {encodable(first.name)!r}" if first.name else "sleeps"
        more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
        return says("wait", what + more, path=first.item, due=first.due)

    def _progress(self, row: RunRow) -> Json:
        counts = counts_of(self.store, row.run_id)
        done = Counter(path.partition("#")[0] for kind, path in counts if kind == JOURNAL.name)
        retries = sum(number for (kind, _), number in counts.items() if kind == RETRY.name)
        if not done:
            return says("progress", "", retries=retries) if retries else NOTHING
        node, number = done.most_common(1)[0]
        total = self._sent(row, node)
        of = f" of {total:,}" if total is not None and total >= number else ""
        again = f" · {retries} retries" if retries > 1 else " · 1 retry" if retries else ""
        said = says("progress", f"{node} {number:,}{of}{again}", path=node, retries=retries)
        return {**said, "done": number, "of": total if of else None}

    def _sent(self, row: RunRow, node: str) -> int | None:
        """Return how many items the last step has sent to a node."""
        last = self.store.last(row.run_id, STEP.name, "", LAST)
        if last is None:
            return None
        step = EntryDecoder(row.run_id, self.store.blob, row.created, classes=False, keeps=True).record(last)
        sent = sum(
            isinstance(choice, Send) and choice.target == node
            for outcome in step.outcomes
            for choice in outcome.decision or ()
        )
        return sent or None


def says(
    kind: str | None, text: str, *, path: str = "", type: str = "", retries: int = 0, due: float | None = None
) -> Json:
    """Return the line of a run. `due` is when a wait ends."""
    known: Json = {"kind": kind, "text": encodable(text), "path": path or None, "type": type or None}
    return {**known, "done": None, "of": None, "retries": retries, "due": due}


NOTHING: Json = says(None, "")


def is_over(row: RunRow) -> bool:
    return row.status in FINAL
