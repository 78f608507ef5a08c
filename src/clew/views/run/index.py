"""An index of a long run: where its steps are in time, in buckets, and which items were slow, retried or failed.

It is built in one pass over the stored steps, without their values, and continues where it ended. It keeps a few bytes
for each step, so a run of 100,000 steps needs a few megabytes.
"""

from __future__ import annotations

import heapq
from array import array
from collections import OrderedDict
from threading import Lock
from typing import Any

import msgspec

from clew.error_text import encodable
from clew.errors import InputError
from clew.runtime.log.entries.codec import step_times
from clew.runtime.log.entries.records import LABEL, QUESTION
from clew.runtime.log.reader import RunReader, StoredRun
from clew.views.run.states import RunStates
from clew.views.run.stored_steps import counts_of, record_of, steps_of
from clew.views.run.timeline import Columns, attempts_of

Json = dict[str, Any]

_MOST_RUNS = 4
_MOST_MARKS = 500
MOST_FOUND = 200
_CHUNK = 2_000


class NodeTotals(msgspec.Struct):
    """What is known about a node."""

    items: int = 0
    busy: float = 0.0
    first: int = 0
    last: int = 0


class StepIndex:
    """The index of one run."""

    def __init__(self, first: int, created: float) -> None:
        self.first = first
        self.last = first
        self.created = created
        self.starts = array("d")
        self.ends = array("d")
        self.items = array("l")
        self.nodes: dict[str, NodeTotals] = {}
        self.slowest: list[tuple[float, int, str, str]] = []  # a heap: duration, step, path, node
        self.failed: list[tuple[int, str]] = []
        self.retried: list[tuple[int, str]] = []

    def add(self, number: int, body: bytes) -> None:
        begin, end, count = float("inf"), 0.0, 0
        for node, path, started, duration, attempt, has_failed in step_times(body):
            count += 1
            begin, end = min(begin, started), max(end, started + duration)
            totals = self.nodes.get(node)
            if totals is None:
                totals = self.nodes[node] = NodeTotals(first=number)
            totals.items += 1
            totals.busy += duration
            totals.last = number
            found = (duration, number, path, node)
            if len(self.slowest) < MOST_FOUND:
                heapq.heappush(self.slowest, found)
            elif found > self.slowest[0]:
                heapq.heapreplace(self.slowest, found)
            if attempt and len(self.retried) < MOST_FOUND:
                self.retried.append((number, path))
            if has_failed and len(self.failed) < MOST_FOUND:
                self.failed.append((number, path))
        self.starts.append(begin if count else self.ends[-1] if self.ends else 0.0)
        self.ends.append(end)
        self.items.append(count)
        self.last = number


class RunIndex:
    """The indexes of the runs that were opened last."""

    def __init__(self, runs: RunReader, states: RunStates) -> None:
        self._runs = runs
        self._store = runs.store
        self._states = states
        self._known: OrderedDict[str, StepIndex] = OrderedDict()
        self._lock = Lock()

    def _index(self, run: StoredRun) -> StepIndex:
        with self._lock:
            run_id = run.row.run_id
            begin, end = self._states.range(run)
            found = self._known.get(run_id)
            if found is None or found.created != run.row.created:
                found = self._known[run_id] = StepIndex(begin, run.row.created)
            self._known.move_to_end(run_id)
            while len(self._known) > _MOST_RUNS:
                self._known.popitem(last=False)
            while found.last < end:
                entries = run.own_steps(found.last + 1, min(found.last + _CHUNK, end))
                for entry in entries:
                    found.add(entry.n, entry.body)
                if not entries:
                    break
            return found

    def overview(self, run_id: str, buckets: int) -> Json:
        """Return the chain of a run in buckets."""
        run = self._runs.open(run_id)
        index = self._index(run)
        count = len(index.items)
        width = max(1, -(-count // buckets))
        columns: dict[str, list[Any]] = {name: [] for name in ("from", "to", "start", "end", "items")}
        for first in range(0, count, width):
            last = min(first + width, count)
            columns["from"].append(index.first + first + 1)
            columns["to"].append(index.first + last)
            columns["start"].append(round(min(index.starts[first:last]), 6))
            columns["end"].append(round(max(index.ends[first:last]), 6))
            columns["items"].append(sum(index.items[first:last]))
        marked = {"failed": index.failed, "retried": index.retried}
        for name, found in marked.items():
            counts = [0] * len(columns["from"])
            for step, _ in found:
                counts[(step - index.first - 1) // width] += 1
            columns[name] = counts
        return {
            "first": index.first,
            "last": index.last,
            "origin": run.row.created,
            "items": sum(index.items),
            "columns": columns,
            "nodes": [
                {
                    "name": encodable(name),
                    "items": n.items,
                    "busy": round(n.busy, 6),
                    "first": n.first,
                    "last": n.last,
                }
                for name, n in index.nodes.items()
            ],
            "marks": self._marks(run, index),
        }

    def _marks(self, run: StoredRun, index: StepIndex) -> list[Json]:
        row = run.row
        found: list[Json] = [
            {"step": step, "kind": "failed", "text": encodable(path)} for step, path in index.failed
        ]
        for entry in self._store.within(row.run_id, (LABEL.name, QUESTION.name)):
            record = record_of(run, entry)
            if entry.kind == LABEL.name:
                found.append({"step": record.step, "kind": "label", "text": encodable(record.label)})
            else:
                found.append({"step": record.step, "kind": "asked", "text": encodable(record.path)})
        newest, _ = self._store.page(limit=1_000, children=True, after=row.created)
        found += [
            {"step": each.parent_step, "kind": "fork", "text": encodable(each.run_id)}
            for each in newest
            if each.parent == row.run_id
        ]
        return sorted(found, key=lambda each: each["step"] or 0)[:_MOST_MARKS]

    def items(self, run_id: str, show: str, node: str, limit: int) -> Json:
        """Return items of the whole run: those that failed, were retried, or took longest."""
        run = self._runs.open(run_id)
        index = self._index(run)
        if show == "slowest":
            chosen = [
                (step, path)
                for _, step, path, name in sorted(index.slowest, reverse=True)
                if node in ("", name)
            ]
        elif show in ("failed", "retried"):
            both = index.failed if show == "failed" else index.retried
            chosen = [each for each in both if node in ("", each[1].partition("#")[0])]
        else:
            raise InputError(f"show must be failed, retried or slowest, got {show!r}")
        counts = counts_of(self._store, run_id)
        calls = {path: number for (kind, path), number in counts.items() if kind == "call"}
        columns = Columns(run.row.created, calls)
        for step, path in chosen[:limit]:
            for found in steps_of(run, step, step):
                for outcome in found.outcomes:
                    if outcome.path == path:
                        columns.add_item(step, path, outcome)
        found_json: Json = {"origin": run.row.created, "last": index.last, "show": show, "next": None}
        return {**found_json, "columns": columns.columns, "attempts": attempts_of(run, columns.paths, counts)}
