"""Runs of one graph, read from a store: from the last snapshot before the step that is asked for.

What is read is what is needed. A state takes the run's own steps after the snapshot, some at a time; to go on with a
run takes what is known of its open items too, but nothing of the subgraphs that have ended; only who wants the whole
log gets all of it. Everything that is read is checked: each entry by itself, each chain by its digests, and whether all
is there that was there when the run was let go of.

A fork keeps no copy of its parent: it says which run and step it goes on from, and what was changed. It is followed
back to the first state that is there as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from clew.engine.programs import program_of
from clew.engine.records import Step
from clew.errors import CheckpointError, DecodeError, StoreCorruptError, UnknownRunError
from clew.graph import Graph
from clew.runtime.advance import Advance
from clew.runtime.codes import conflict_rule
from clew.runtime.log import Accepted, RunLog, read_log
from clew.runtime.losses import changed, damaged_steps, is_harmless, last_step, lost_entries, missing
from clew.runtime.rows import opened_row
from clew.runtime.schema_changes import with_defaults
from clew.runtime.snapshots import snapshot_state
from clew.runtime.starts import first_state, fork_of, is_fork
from clew.runtime.wire import Reader
from clew.state import GraphState
from clew.stores import Entry, RunRow, Store

T = TypeVar("T")

LAST = 1 << 62
_SOME = 2_000  # steps that are read at a time
OWN = [("", "\x01")]  # the path "", as a range
_OF_ITEMS = ("label", "journal", "retry", "question", "answer")
_COUNTED = ("resume", "accepted", *_OF_ITEMS)
_UNREAD = ("call", "intent", "start", "step")  # not all of them
_INSIDE = [("\x01", "\U0010ffff")]  # all paths but ""


class Retrieval:
    """Reads runs of one graph from one store."""

    def __init__(self, graph: Graph, store: Store, on_conflict: str) -> None:
        self._graph = graph
        self._store = store
        self._on_conflict = on_conflict

    def row(self, run_id: str) -> RunRow:
        """What is known about a run, its error as an exception. StoreCorruptError if that is damaged."""
        row = self._store.row(run_id)
        row = opened_row(row) if self._store.encodes else row
        if row.damage:
            raise StoreCorruptError(row.damage)
        return row

    # -- logs --------------------------------------------------------------------------------------------

    def log(self, run_id: str, *, upto: int | None = None, whole: bool = False) -> RunLog:
        """A run's log: what it takes to go on from its last state, or from S(upto); with `whole`, all of it."""
        row = self.row(run_id)
        if not self._store.encodes:
            return read_log(row, row.start, self._store.entries(run_id), self._on_conflict)
        base = None if whole else self.snapshot(run_id, LAST if upto is None else upto)
        start, weight = base or (self.start(row), 0)
        since = 0
        if whole:
            upto, counted, entries = None, None, self._store.entries(run_id)
        else:
            start, since = self._near_the_end(row, start, upto)
            counted, kinds = _COUNTED, ("step", "resume", "accepted", "measured")
            entries = self._store.within(run_id, kinds, OWN, after=start.step, upto=upto)
        reader, records = Reader(run_id, self._store.blob, row.created), list[Any]()
        for entry in entries:
            before = reader.fetched
            if entry.kind != "snapshot":
                records.append(reader.record(entry))
            if entry.kind == "step" and not entry.path:
                since += len(entry.body) + reader.fetched - before
        visits = None if whole else _visits(start, records)
        if visits is not None:
            more = self._open(run_id, dict(visits))
            entries = [*entries, *more]
            records += map(reader.record, more)
        log = read_log(row, start, records, self._on_conflict)
        log.weight, log.since = weight, since
        log.errors = self._failures(run_id, start, reader)
        for wrong in (*damaged_steps(log, entries, upto=upto), *lost_entries(row, entries, counted, visits)):
            raise StoreCorruptError(wrong)
        if visits is not None and upto is None and row.status != "completed":
            self._check_unread(row, visits)  # what has ended is not gone on with
        return log

    def _check_unread(self, row: RunRow, visits: dict[str, int]) -> None:
        """Raise if something is lost that is not read before it is needed, and may be needed to go on."""
        before = {kind: row.census[kind] for kind in _UNREAD if kind in row.census} if row.census else {}
        if not before:
            return
        now = self._store.census(row.run_id)
        for kind in before:
            if now.get(kind, 0) < before[kind]:
                entries = self._store.within(row.run_id, (kind,), _INSIDE)
                if not is_harmless(row, entries, kind, visits):
                    for wrong in lost_entries(row, entries, (kind,)):
                        raise StoreCorruptError(wrong)

    def _near_the_end(self, row: RunRow, start: GraphState, upto: int | None) -> tuple[GraphState, int]:
        """A state that not too many steps come after, and the bytes that led to it: itself, or one further on."""
        newest = self._store.last(row.run_id, "step", "", LAST if upto is None else upto)
        if newest is None or newest.n - start.step <= 2 * _SOME:
            return start, 0
        walk, since = self.walk(row, start, upto=newest.n - _SOME), 0
        del start
        advance, _ = next(walk)
        for _, size in walk:
            since += size
        return advance.state(), since

    def _failures(
        self, run_id: str, start: GraphState, reader: Reader
    ) -> list[tuple[tuple[int, ...], BaseException]]:
        """The confined failures before a state, each with its place: the steps in which these nodes ran last."""
        index = program_of(self._graph, start.position.given).index
        found: list[tuple[tuple[int, ...], BaseException]] = []
        for name in sorted(start.position.failed):
            last = start.node_history[name].step if name in start.node_history else 0
            for entry in self._store.within(run_id, ("step",), OWN, after=last - 1, upto=last):
                found += [
                    ((entry.n, index.get(name, -1), max(outcome.index, 0)), outcome.error)
                    for outcome in reader.record(entry).outcomes
                    if outcome.node == name and outcome.error is not None
                ]
        return found

    def _open(self, run_id: str, visits: dict[str, int]) -> list[Entry]:
        """What is known of items, and the strands inside those that are not in a step yet, given each node's visits."""
        found = list(self._store.within(run_id, _OF_ITEMS))
        journaled = {entry.path for entry in found if entry.kind == "journal"}
        nodes = [name for name, node in self._graph.nodes.items() if node.subgraph is not None]
        while nodes:  # a node may be some visits ahead of the last step
            items = [(name, f"{name}#{visits.get(name, 0)}") for name in nodes]
            inside = self._store.within(
                run_id, ("start", "step"), [span for _, i in items for span in _spans(i)]
            )
            found += inside
            begun = {entry.path.partition("#")[0] for entry in inside}
            nodes = [name for name, item in items if name in begun or item in journaled]
            visits.update((name, visits.get(name, 0) + 1) for name in nodes)
        return found

    # -- states ------------------------------------------------------------------------------------------

    def state(self, run_id: str, step: int | None = None) -> GraphState:
        """S(step), the last one by default."""
        row = self.row(run_id)
        if not self._store.encodes:
            log = self.log(run_id)
            chain = log.chain(program_of(self._graph, log.start.position.given))
            return chain.state(log.step_of(chain, step))
        base = [self.snapshot(run_id, LAST if step is None else step) or (self.start(row), 0)]
        first = base[0][0].step
        # popped: who held the state would have its lists copied
        advance = self._walked(row, base.pop()[0], step)
        if step is not None and advance.step != step:
            raise UnknownRunError(f"run {run_id!r} has no step {step}; it has {first} to {advance.step}")
        return advance.state()

    def _walked(self, row: RunRow, state: GraphState, upto: int | None, *, at_least: int = 0) -> Advance:
        walk = self.walk(row, state, upto=upto, at_least=at_least)
        del state
        advance, _ = next(walk)
        for _ in walk:
            pass
        return advance

    def walk(
        self, row: RunRow, state: GraphState, *, upto: int | None = None, at_least: int = 0
    ) -> Iterator[tuple[Advance, int]]:
        """Move on from a state of a run, and after each step say how many bytes it takes; first of all, where that
        begins. Each step is checked, and that there is one for each number up to `at_least`."""
        run_id, reader = row.run_id, Reader(row.run_id, self._store.blob, row.created)
        program = program_of(self._graph, state.position.given)
        last = self._last_accepted(row)
        rule = conflict_rule(row.codes if last is None else last.codes, self._on_conflict)
        if last is not None and last.filled:
            state = with_defaults(state, last.filled.get("", {}))
        advance = Advance(program, state, seed=row.seed, on_conflict=rule)
        del state  # a list that nobody else holds need not be copied
        yield advance, 0
        newest = self._store.last(run_id, "step", "", LAST if upto is None else upto)
        end = max(at_least, last_step(row, upto) or 0, 0 if newest is None else newest.n)
        while advance.step < end:
            first = advance.step + 1
            found = self._store.within(
                run_id, ("step",), OWN, after=first - 1, upto=min(advance.step + _SOME, end)
            )
            for entry in found if found else (None,):
                if entry is None or entry.n != advance.step + 1:
                    raise StoreCorruptError(f"run {run_id!r}: {missing(advance.step + 1)}")
                before = reader.fetched
                advance.add(reader.record(entry))
                if advance.digest != bytes(entry.digest).hex():
                    raise StoreCorruptError(f"run {run_id!r}: {changed(entry.n)}")
                yield advance, len(entry.body) + reader.fetched - before

    def accepted(self, row: RunRow) -> RunRow:
        """A row with the graph that the run goes on with: the one it was made with, or what was accepted last."""
        last = self._last_accepted(row)
        return row if last is None else replace(row, structure=last.structure, codes=last.codes)

    def _last_accepted(self, row: RunRow) -> Accepted | None:
        found = self._store.last(row.run_id, "accepted", "", LAST) if self._store.encodes else None
        last: Accepted | None = None if found is None else Reader(row.run_id, self._store.blob).record(found)
        return last

    def start(self, row: RunRow) -> GraphState:
        """The state that a run began with. Forks are made again from the first state that is there as a whole; in a
        loop, as there may be thousands."""
        forks: list[tuple[RunRow, int, dict[str, Any]]] = []  # each with the step and the values of its fork
        while True:
            run_id = row.run_id
            upto = forks[-1][1] if forks else row.parent_step
            base = self.snapshot(run_id, upto) if is_fork(row.start) or forks else None
            if base is not None and (forks or base[0].step == row.parent_step):
                state = base[0]
                break
            if not is_fork(row.start):
                state = self._first(run_id, row.start)
                break
            try:
                parent, step, values = fork_of(row.start, self._store.blob)
            except (DecodeError, StoreCorruptError, LookupError, TypeError, AttributeError) as error:
                raise StoreCorruptError(f"run {run_id!r}: what it began with is damaged ({error})") from error
            forks.append((row, step, values))
            row = self.row(parent)
        while forks:
            child, step, values = forks.pop()
            state = self._walked(row, state, step, at_least=step).state()
            state = state.set_multiple(values) if values else state
            row = child
        return state

    def snapshot(self, run_id: str, upto: int | None) -> tuple[GraphState, int] | None:
        """The last snapshot up to a step, and its weight."""
        found = None if upto is None else self._store.last(run_id, "snapshot", "", upto)
        if found is None:
            return None
        return _restored(run_id, found.n, lambda: snapshot_state(found, self._store.blob))

    def _first(self, run_id: str, data: bytes) -> GraphState:
        return _restored(run_id, 0, lambda: first_state(data, self._store.blob))


def _restored(run_id: str, step: int, load: Callable[[], T]) -> T:
    try:
        return load()
    except (CheckpointError, DecodeError, StoreCorruptError, TypeError, ValueError) as error:
        if "register" in str(error):
            raise
        raise StoreCorruptError(f"run {run_id!r}: the state at step {step} is damaged ({error})") from error


def _visits(start: GraphState, records: Sequence[Any]) -> dict[str, int]:
    """How often each node has run, after the steps among records."""
    visits = dict(start.position.visits)
    for step in records:
        if isinstance(step, Step):
            for outcome in step.outcomes:
                visits[outcome.node] = max(visits.get(outcome.node, 0), outcome.visit + 1)
    return visits


def _spans(item: str) -> list[tuple[str, str]]:
    """The ranges of paths of an item, and inside it: what follows its number is no digit."""
    return [(item, f"{item}0"), (f"{item}:", f"{item}\x7f")]
