"""The states of a run, for a reader that moves back and forth: what each step changed, and whole states.

A cursor walks over the steps. Views, which are states every `EVERY` steps, are remembered, so a window near an earlier
one costs a window and not the run. They share values with each other; their number is bounded by what they hold. Large
values are not fetched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from clew.engine.edits import is_by_hand
from clew.engine.history.provisional_steps import ProvisionalStep
from clew.engine.records import Outcome, Step
from clew.error_text import encodable
from clew.errors import UnknownRunError, UnknownValueError
from clew.runtime.log.entries.large_values import Kept, fetched
from clew.runtime.log.entries.records import LABEL, STEP
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.state_cursor import StateCursor
from clew.state import GraphState, position_of
from clew.stores.protocol import LAST
from clew.views.run.stored_steps import first_of, record_of, steps_ahead, steps_of
from clew.views.run.timeline import targets_of
from clew.views.shown import exact, shown, size_of
from clew.views.value_diffs import change, grown

Json = dict[str, Any]

EVERY = 200  # steps between two views
MOST_STEPS = 400  # of one answer
_MOST_RUNS = 8
_MOST_VIEWS = 24
_MOST_HELD = 400_000  # items of lists and dicts in the views of a run
_CHANGE = 2_000  # bytes of a value in a change
_VALUE = 4_000  # bytes of a value in a state
_EXACT = 16_000  # characters of a value as JSON text
_WHOLE = 8 << 20
_MOST_SIZES = 10_000
_MOST_WINDOWS = 16
_LONG = 500  # items of a list that is not copied to compare it

MISSING: Any = object()
_UNFINISHED = {"$": "text", "kind": "provisional", "text": "its reducer is called when the step commits"}


class OpenRun:
    """The views of one run."""

    def __init__(self) -> None:
        self.views: OrderedDict[int, GraphState] = OrderedDict()
        self.created = 0.0
        self.held = 0

    def near(self, step: int) -> GraphState | None:
        """Return the last view up to a step."""
        found = sorted(self.views)
        place = bisect_right(found, step)
        if not place:
            return None
        self.views.move_to_end(found[place - 1])
        return self.views[found[place - 1]]

    def keep(self, state: GraphState) -> None:
        """Remember a view, and forget those that were not used for longest."""
        if state.step in self.views:
            return
        self.views[state.step] = state
        self.held += _weight(state)
        while len(self.views) > 1 and (len(self.views) > _MOST_VIEWS or self.held > _MOST_HELD):
            _, gone = self.views.popitem(last=False)
            self.held -= _weight(gone)


def _weight(state: GraphState) -> int:
    return 50 + sum(len(value) for value in state.values.values() if isinstance(value, (list, dict)))


class RunStates:
    """Reads the states of the runs of one store. It may be used by several threads."""

    def __init__(self, runs: RunReader) -> None:
        self._runs = runs
        self._store = runs.store
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._windows: OrderedDict[tuple[Any, ...], Json] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._lock = Lock()

    # -- walking -----------------------------------------------------------------------------------------

    def _views(self, run: StoredRun) -> OpenRun:
        key = run.row.run_id
        found = self._open.get(key)
        if found is None or found.created != run.row.created:  # a new run may have the id of a deleted one
            found = self._open[key] = OpenRun()
            found.created = run.row.created
        self._open.move_to_end(key)
        while len(self._open) > _MOST_RUNS:
            self._open.popitem(last=False)
        return found

    def _walk(self, run: StoredRun, first: int, last: int) -> Iterator[StateCursor]:
        """Yield a cursor at S(first), and after each step up to S(last)."""
        views = self._views(run)
        base = views.near(first)
        stored = run.snapshot(first, keeps=True)
        if stored is not None and (base is None or stored[0].step > base.step):
            base = stored[0]
        if base is None:
            base = run.start()
            views.keep(base)
        for cursor, _ in run.walk(base, upto=last):
            if cursor.step % EVERY == 0 and cursor.done is not None and cursor.step not in views.views:
                views.keep(cursor.view())
            if cursor.step >= first:
                yield cursor

    def range(self, run: StoredRun) -> tuple[int, int]:
        """Return the numbers of the first and the last state of a run."""
        newest = self._store.last(run.row.run_id, STEP.name, "", LAST)
        first = first_of(run)
        return first, first if newest is None else newest.n

    # -- changes -----------------------------------------------------------------------------------------

    def changes(self, run_id: str, first: int, last: int) -> Json:
        """Return what each of these steps changed."""
        run = self._runs.open(run_id)
        begin, end = self.range(run)
        first = max(first, begin)
        ahead = steps_ahead(run) if last > end else []
        newest = ahead[-1].number if ahead else end
        if first > newest:
            raise UnknownRunError(f"run {run_id!r} has no step {first}; it has steps {begin} to {newest}")
        last = min(last, newest, first + MOST_STEPS - 1)
        provisional = [provisional_json(step) for step in ahead if first <= step.number <= last]
        if first > end:
            return {"from": first, "to": last, "first": begin, "last": end, "steps": provisional}
        labels = self._labels(run)
        steps: list[Json] = []
        before: dict[str, Any] = {}
        key = (run_id, run.row.created, first, last, run.accepted.structure, len(labels))
        with self._lock:
            known = self._windows.get(key)
            if known is not None:
                return {**known, "last": end}
            for cursor in self._walk(run, max(first - 1, begin), min(last, end)):
                if cursor.step == begin and first == begin:
                    steps.append(self._start(run, cursor, labels))
                elif cursor.step >= first:
                    steps.append(self._step(cursor, before, labels))
                before = _remembered(cursor.values)
            steps += provisional
            found: Json = {"from": first, "to": last, "first": begin, "last": end, "steps": steps}
            if last - first >= EVERY // 2 and last < end:  # committed steps do not change
                self._windows[key] = found
                while len(self._windows) > _MOST_WINDOWS:
                    self._windows.popitem(last=False)
        return found

    def _start(self, run: StoredRun, cursor: StateCursor, labels: Mapping[int, list[str]]) -> Json:
        changes = [
            {
                **change(name, MISSING, value, _CHANGE, missing=MISSING),
                "version": cursor.versions[name],
                "by": [],
            }
            for name, value in cursor.values.items()
        ]
        return {
            "k": cursor.step,
            "digest": cursor.digest,
            "time": run.row.created,
            "items": [],
            "labels": labels.get(cursor.step, []),
            "by_hand": False,
            "ahead": False,
            "chose": [],
            "changes": changes,
        }

    def _step(self, cursor: StateCursor, before: Mapping[str, Any], labels: Mapping[int, list[str]]) -> Json:
        step = cursor.done
        assert step is not None
        return {
            "k": cursor.step,
            "digest": cursor.digest,
            "labels": labels.get(cursor.step, []),
            "ahead": False,
            **step_json(step.outcomes, before, cursor.values, cursor.versions),
        }

    def _labels(self, run: StoredRun) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for entry in self._store.within(run.row.run_id, (LABEL.name,)):
            label = record_of(run, entry)
            found.setdefault(label.step, []).append(encodable(label.label))
        return found

    # -- states ------------------------------------------------------------------------------------------

    def _state(self, run: StoredRun, step: str) -> GraphState | ProvisionalStep:
        begin, end = self.range(run)
        number = end if step == "last" else int(step) if step.isascii() and step.isdigit() else None
        if number is None:
            labels = self._labels(run)
            number = next((k for k, names in labels.items() if step in names), None)
        if number is not None and begin <= number <= end:
            return self.graph_state(run, number)
        for ahead in steps_ahead(run) if number is not None and number > end else ():
            if ahead.number == number:
                return ahead
        raise UnknownRunError(f"run {run.row.run_id!r} has no step {step!r}; it has steps {begin} to {end}")

    def graph_state(self, run: StoredRun, number: int) -> GraphState:
        """Return S(number), with large values that were not fetched."""
        with self._lock:
            view = self._views(run).views.get(number)
            if view is not None:
                return view
            cursor = next(iter(self._walk(run, number, number)))
            return cursor.view()

    def state(self, run_id: str, step: str) -> Json:
        """Return a state, with values that may be cut."""
        run = self._runs.open(run_id)
        found = self._state(run, step)
        if isinstance(found, GraphState):
            state, number, labels = found, found.step, self._labels(run).get(found.step, [])
            writers = self._writers(run, state)
        else:
            state, number, labels = self.graph_state(run, self.range(run)[1]), found.number, []
            writers = self._writers(run, state)
            for earlier in steps_ahead(run):
                if earlier.number <= number:
                    writers.update(
                        (name, (encodable(outcome.path), earlier.number))
                        for outcome in earlier.outcomes
                        for name in outcome.update
                    )
        versions = found.versions
        values = []
        for name, value in found.values.items():
            made, is_cut = shown(value, _VALUE)
            path, written = writers.get(name, (None, None))
            values.append(
                {
                    "name": encodable(name),
                    "version": versions[name],
                    "writer": path,
                    "step": written,
                    "size": self._size(value),
                    "cut": is_cut,
                    "value": made,
                    "exact": None if is_cut else exact(value, _EXACT),
                    "set": name in position_of(state).touched,
                }
            )
        return {
            "k": number,
            "digest": state.digest if found is state else None,
            "labels": labels,
            "ahead": found is not state,
            "values": values,
        }

    def _size(self, value: Any) -> int | None:
        """Return about how many bytes a value has; that of a large value is looked up once."""
        if type(value) is not Kept:
            return size_of(value)
        if value.digest not in self._sizes:
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[value.digest] = len(self._store.blob(value.digest))
        return self._sizes[value.digest]

    def _writers(self, run: StoredRun, state: GraphState) -> dict[str, tuple[str, int]]:
        """Return the last writer of each value and its step, from the last execution of each node."""
        wanted: dict[int, list[str]] = {}
        for record in state.node_history.values():
            for name, version in record.output_versions.items():
                if state.versions.get(name) == version:
                    wanted.setdefault(record.step, []).append(name)
        found: dict[str, tuple[str, int]] = {}
        begin = first_of(run)
        for number, names in sorted(wanted.items()):
            step = next(steps_of(run, number, number), None) if number > begin else None
            for name in names:
                writer = _last_writer(step, name)
                found[name] = (writer or _node_of(state, name, number), number)
        return found

    def value(self, run_id: str, step: str, name: str) -> Json:
        """Return one whole value."""
        number, version, value = self.raw_value(run_id, step, name)
        made, is_cut = shown(value, _WHOLE)
        return {
            "name": encodable(name),
            "k": number,
            "version": version,
            "size": size_of(value),
            "cut": is_cut,
            "value": made,
        }

    def raw_value(self, run_id: str, step: str, name: str) -> tuple[int, int, Any]:
        """Return the number of a state, and the version and the value of a name in it, fetched."""
        run = self._runs.open(run_id)
        state = self._state(run, step)
        number, values = state.step if isinstance(state, GraphState) else state.number, state.values
        if name not in values:
            raise UnknownValueError(f"S({number}) of run {run_id!r} has no value {name!r}")
        value = values[name]
        if type(value) is Kept:
            value = fetched(value, self._store.blob, classes=False)
        return number, state.versions[name], value


def step_json(
    outcomes: Sequence[Outcome],
    before: Mapping[str, Any],
    values: Mapping[str, Any],
    versions: Mapping[str, int],
) -> Json:
    """Return what the items of a step did to the values."""
    writers: dict[str, list[str]] = {}
    for outcome in outcomes:
        for name in outcome.update:
            writers.setdefault(name, []).append(encodable(outcome.path))
    return {
        "time": max((each.started + each.duration for each in outcomes if each.started), default=None),
        "items": [encodable(outcome.path) for outcome in outcomes],
        "by_hand": is_by_hand(outcomes),
        "chose": [
            {"path": encodable(outcome.path), "targets": targets_of(outcome)}
            for outcome in outcomes
            if outcome.decision is not None
        ],
        "changes": [
            {**_change(name, before.get(name, MISSING), values[name]), "version": versions[name], "by": by}
            for name, by in writers.items()
            if name in values
        ],
    }


def provisional_json(step: ProvisionalStep) -> Json:
    """Return what a step that is not committed has changed so far."""
    found = step_json(step.outcomes, step.before, step.values, step.versions)
    unfinished = {encodable(name) for name in step.unfinished}
    for each in found["changes"]:
        if each["name"] in unfinished:
            each.update(new=_UNFINISHED, diff=None, kind=None)
    return {"k": step.number, "digest": None, "labels": [], "ahead": True, **found}


def _last_writer(step: Step | None, name: str) -> str | None:
    found: list[Outcome] = [] if step is None else [each for each in step.outcomes if name in each.update]
    return encodable(found[-1].path) if found else None


def _node_of(state: GraphState, name: str, step: int) -> str:
    return next(
        (
            node
            for node, record in state.node_history.items()
            if record.step == step and name in record.output_versions
        ),
        "",
    )


class _Length:
    """Stands for a long list before a step: its identity and its length. A reference would force a copy of it."""

    __slots__ = ("length", "of")

    def __init__(self, value: list[Any]) -> None:
        self.of, self.length = id(value), len(value)


def _remembered(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _Length(value) if type(value) is list and len(value) > _LONG else value
        for name, value in values.items()
    }


def _change(name: str, old: Any, new: Any) -> Json:
    if type(old) is not _Length:
        return change(name, old, new, _CHANGE, missing=MISSING)
    found = change(name, MISSING, new, _CHANGE, missing=MISSING)
    if type(new) is list and len(new) >= old.length and old.of == id(new):
        found["diff"] = grown(old.length, new)
        found["kind"] = f"list of {old.length} → list of {len(new)}"
    found["old"] = {"$": "cut", "of": "list", "shown": [], "size": old.length}
    return {**found, "cut": True}
