"""Read what is new in a run that another process may be executing: steps, published data, questions.

Each method is one short read of the store. Nothing is read twice: callers pass the number of the last step or data that
they have.
"""

from __future__ import annotations

from collections import Counter

from clew.engine.records import Question, Step
from clew.errors import StoreCorruptError
from clew.runtime.log.checks.integrity import missing
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.records import ANSWER, PUBLISHED, QUESTION, STEP, PublishedData, names_of
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_rows import opened_row
from clew.state import GraphState
from clew.stores import RunRow
from clew.stores.protocol import LAST

FOLLOWED = names_of(QUESTION, ANSWER, PUBLISHED)
"""The kinds whose entries a follower reads besides steps."""

_OWN = [("", "\x01")]  # the path "", as a range


class RunTail:
    """The end of the log of one run."""

    def __init__(self, runs: RunReader, run_id: str) -> None:
        self._runs = runs
        self._store = runs.store
        self._run_id = run_id
        self._decoder: EntryDecoder | None = None

    def row(self) -> RunRow:
        """Return the row of the run. Raise UnknownRunError if the run does not exist."""
        row = opened_row(self._store.row(self._run_id), classes=self._runs.classes)
        if row.damage:
            raise StoreCorruptError(row.damage)
        return row

    def start(self) -> GraphState:
        """Return the initial state."""
        return self._runs.open(self._run_id).start()

    def steps(self, row: RunRow, after: int, upto: int) -> list[Step]:
        """Return the steps of the run itself with ``after < number <= upto``, as far as they are stored."""
        found = self._store.within(self._run_id, (STEP.name,), _OWN, after=after, upto=upto)
        for number, entry in enumerate(found, start=after + 1):
            if entry.n != number:
                raise StoreCorruptError(f"run {self._run_id!r}: {missing(number)}")
        decoder = self._reader(row)
        return [decoder.record(entry) for entry in found]

    def emitted(self, row: RunRow, after: int) -> list[PublishedData]:
        """Return published data with a higher number."""
        last = self._store.last(self._run_id, PUBLISHED.name, "", LAST)
        if last is None or last.n <= after:
            return []
        found = self._store.find(self._run_id, PUBLISHED.name, "")
        decoder = self._reader(row)
        return [decoder.record(entry) for entry in found if entry.n > after]

    def questions(self) -> list[Question]:
        """Return the open questions."""
        return self._runs.open(self._run_id).log().questions if self._may_ask() else []

    def _may_ask(self) -> bool:
        """Return whether a question has no answer; its item may have ended in another way."""
        found = self._store.within(self._run_id, names_of(QUESTION, ANSWER))
        answers = Counter(entry.path for entry in found if entry.kind == ANSWER.name)
        return any(entry.kind == QUESTION.name and entry.n >= answers[entry.path] for entry in found)

    def _reader(self, row: RunRow) -> EntryDecoder:
        if self._decoder is None:
            store, classes = self._store, self._runs.classes
            self._decoder = EntryDecoder(row.run_id, store.blob, row.created, classes=classes)
        return self._decoder
