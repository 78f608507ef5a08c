"""Two runs side by side: the steps after their common beginning, and the values that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.engine.records import Step
from clew.error_text import encodable
from clew.errors import InputError
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_log import lineage_of
from clew.runtime.review.run_diff import MISSING, ItemDiff, RunDiff, StepDiff, ValueChange, compare
from clew.state import GraphState
from clew.views.commands import command
from clew.views.value_diffs import change, equal

Json = dict[str, Any]

_MOST_STEPS = 2_000
_VALUE = 4_000


class Comparison:
    """Compares the runs of one store."""

    def __init__(self, runs: RunReader, address: str = "") -> None:
        self._runs = runs
        self._address = address

    def json(self, a: str, b: str, step: int | None) -> Json:
        """Return how two runs differ; values at the end, or at a step that both have."""
        if not a or not b:
            raise InputError("diff needs two runs: ?a=RUN&b=RUN")
        found = compare(a, b, lambda run: self._runs.open(run).whole(), self._state)
        logs = [self._runs.open(run).whole() for run in (a, b)]
        after = [
            {each.number: each for each in lineage_of(log, lambda run: self._runs.open(run).whole()).steps}
            for log in logs
        ]
        ends = [self._state(run, step) for run in (a, b)]
        return {
            "a": {"id": a, "status": found.status[0], "last": found.ends[0], "parent": logs[0].row.parent},
            "b": {"id": b, "status": found.status[1], "last": found.ends[1], "parent": logs[1].row.parent},
            "common": found.common,
            "since": found.since,
            "same": not found,
            "first": None if found.first is None else found.first.step,
            "k": step,
            "command": command("diff", a, b, address=self._address),
            "steps": self._steps(found, after),
            "values": _values(ends[0].values, ends[1].values),
            "equal": [
                encodable(name)
                for name, value in ends[0].values.items()
                if name in ends[1].values and equal(value, ends[1].values[name])
            ],
        }

    def _state(self, run: str, step: int | None) -> GraphState:
        return self._runs.open(run).state(step)

    def _steps(self, found: RunDiff, after: list[dict[int, Step]]) -> list[Json]:
        differ = {each.step: each for each in found.steps}
        last = max((*after[0], *after[1], found.since))
        steps = []
        for number in range(found.since, min(last, found.since + _MOST_STEPS) + 1):
            if number == found.since and number not in differ:
                continue
            ran = [after[0].get(number), after[1].get(number)]
            difference = differ.get(number, StepDiff(number))
            paths = [
                [] if step is None or number == found.since else [encodable(o.path) for o in step.outcomes]
                for step in ran
            ]
            steps.append(
                {
                    "k": number,
                    "a": paths[0],
                    "b": paths[1],
                    "same": number not in differ,
                    "set": [_change(each) for each in difference.values],
                    "items": _items(difference),
                }
            )
        return steps


def _items(difference: StepDiff) -> list[Json]:
    return [_item(each) for each in difference.items]


def _item(item: ItemDiff) -> Json:
    return {
        "path": encodable(item.path),
        "only_in": item.only_in,
        "changes": [_change(each) for each in item.changes],
    }


def _change(found: ValueChange) -> Json:
    return change(found.name, found.old, found.new, _VALUE, missing=MISSING)


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Json]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        change(name, old.get(name, MISSING), new.get(name, MISSING), _VALUE, missing=MISSING)
        for name in names
        if name not in old or name not in new or not equal(old[name], new[name])
    ]
