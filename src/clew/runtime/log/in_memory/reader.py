"""Reads runs of a store that keeps objects: the memory store.

The log of such a run consists of the records themselves, and its row holds the initial state and the graph. So nothing
is decoded or verified, and a run is always read whole. Objects whose class was defined again are converted
(``clew.state.redefined``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from clew.engine.records import SingleItemStep, Step
from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import description_of, is_made_with
from clew.runtime.log.entries.call_records import CallIntent, Recall, RecordedCall
from clew.runtime.log.entries.codec import EntryEncoder
from clew.runtime.log.entries.large_values import Blobs
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.run_log import RunLog, read_log
from clew.runtime.log.writer import LogWriter
from clew.state import GraphState, assemble, located
from clew.state.redefined import renewal
from clew.stores import LogEntry, RunRow, Store


def reader_of(graph: Graph | None, store: Store, on_conflict: str) -> RunReader:
    return (RunReader if store.encodes else MemoryReader)(graph, store, on_conflict)


class MemoryReader(RunReader):
    """Opens runs that consist of objects."""

    def graph_of(self, row: RunRow) -> Graph:
        if self.graph is not None and is_made_with(row, self.graph):
            return self.graph
        kept: Graph = row.description
        return kept

    def run_of(self, row: RunRow) -> MemoryRun:
        return MemoryRun(self, row)

    def recall(self, run_id: str, *, intents: bool) -> Recall:
        """Return a function that looks up the recorded calls of an item."""
        known: dict[str, list[RecordedCall | CallIntent]] | None = None
        renewed = renewal() or _same

        def recall(path: str) -> Sequence[RecordedCall | CallIntent]:
            nonlocal known
            if known is None:
                known = {}
                for record in self.store.entries(run_id):
                    if isinstance(record, RecordedCall | CallIntent):
                        known.setdefault(record.path, []).append(renewed(record))
            return known.get(path, ())

        return recall


class MemoryRun(StoredRun):
    """A run whose row and log consist of objects."""

    @cached_property
    def accepted(self) -> RunRow:
        """The row with the current graph of the run."""
        return self.whole().row

    def whole(self, before: Callable[[int], GraphState] | None = None) -> RunLog:
        entries, renewed = self.store.entries(self.row.run_id), renewal()
        if renewed is None:
            return read_log(self.row, self.row.start, entries, self._runs.on_conflict)
        return read_log(
            self.row, _renewed_state(self.row.start, renewed), map(renewed, entries), self._runs.on_conflict
        )

    def log(self) -> RunLog:
        """Return the log, and the inbox."""
        log, store, run_id = self.whole(), self.store, self.row.run_id
        log.messages, log.has_children = store.inbox(run_id), bool(store.rows(of=run_id))
        return log

    def start(self) -> GraphState:
        """Return the initial state."""
        start: GraphState = self.row.start
        renewed = renewal()
        return start if renewed is None else _renewed_state(start, renewed)

    def state(self, step: int | None = None, *, fetched: bool = True) -> GraphState:
        """Return S(step), by default the last state."""
        log = self.whole()
        chain = log.chain(self.program(log.start))
        return chain.state(log.step_of(chain, step))

    def digest_at(self, step: int) -> str:
        """Return the digest of S(step)."""
        return self.state(step).digest

    def steps_between(self, after: int, upto: int) -> list[Step]:
        """Return the steps of the run itself with ``after < number <= upto``."""
        records = self.store.entries(self.row.run_id)
        own = [record for record in records if type(record) in (SingleItemStep, Step)]
        steps = [record.step() if type(record) is SingleItemStep else record for record in own]
        return [step for step in steps if not step.prefix and after < step.number <= upto]

    def description(self) -> bytes:
        """Encode the description of the graph."""
        return description_of(self.graph)[1]

    def exported(self, start: GraphState, blobs: Blobs) -> Sequence[LogEntry]:
        """Encode the log, and add the blobs that the entries refer to."""
        run_id, collector = self.row.run_id, _EntryCollector()
        encoder = EntryEncoder({"": start.digest}, self.row.created)
        writer = LogWriter(collector, run_id, 0, encoder=encoder)  # type: ignore[arg-type]
        writer.write(self.store.entries(run_id))
        blobs.update(collector.blobs)
        return sorted(collector.entries.values(), key=lambda entry: entry.name)


def _renewed_state(state: GraphState, renewed: Callable[[Any], Any]) -> GraphState:
    """Return a state whose values have the newest definitions of their classes."""
    values = {name: renewed(value) for name, value in state.values.items()}
    if all(values[name] is value for name, value in state.values.items()):
        return state
    return assemble(
        values=values,
        versions=dict(state.versions),
        decisions=dict(state.gate_decisions),
        terminated=state.has_chosen_end,
        position=located(state),
        history=lambda: dict(state.node_history),
    )


def _same(value: Any) -> Any:
    return value


class _EntryCollector:
    """Takes the place of a store, and collects the entries that it would contain."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str, int], LogEntry] = {}
        self.blobs: dict[str, bytes] = {}

    def append(
        self,
        run_id: str,
        entries: Sequence[LogEntry],
        fence: int,
        *,
        drop: Sequence[tuple[str, str, int]] = (),
        blobs: Mapping[str, bytes] = {},
        **_: Any,
    ) -> None:
        """Add and drop entries; a log has no statements."""
        self.entries.update((entry.name, entry) for entry in entries)
        for name in drop:
            self.entries.pop(name, None)
        self.blobs.update(blobs)
