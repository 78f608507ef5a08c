"""Two runs side by side: the steps after their common beginning, and the values that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.engine.records import Step
from clew.error_text import encodable
from clew.errors import InputError
from clew.runtime.log.reader import RunReader
from clew.runtime.log.run_log import RunLog, lineage_of
from clew.runtime.review.run_diff import MISSING, ItemDiff, RunDiff, StepDiff, ValueChange, compare
from clew.state import GraphState
from clew.views.commands import command
from clew.views.value_diffs import change, equal

Json = dict[str, Any]

_MOST_STEPS = 2_000
_VALUE = 4_000


def comparison_json(runs: RunReader, a: str, b: str, step: int | None, address: str) -> Json:
    """Return how two runs differ; values at the end, or at a step that both have."""
    if not a or not b:
        raise InputError("diff needs two runs: ?a=RUN&b=RUN")

    def log_of(run: str) -> RunLog:
        return runs.open(run).whole()

    def state_of(run: str, step: int | None) -> GraphState:
        return runs.open(run).state(step)

    found = compare(a, b, log_of, state_of)
    logs = [log_of(run) for run in (a, b)]
    after = [{each.number: each for each in lineage_of(log, log_of).steps} for log in logs]
    ends = [state_of(run, step) for run in (a, b)]
    return {
        "a": {"id": a, "status": found.status[0], "last": found.ends[0], "parent": logs[0].row.parent},
        "b": {"id": b, "status": found.status[1], "last": found.ends[1], "parent": logs[1].row.parent},
        "common": found.common,
        "since": found.since,
        "same": not found,
        "first": None if found.first is None else found.first.step,
        "k": step,
        "command": command("diff", a, b, address=address),
        "steps": _steps(found, after),
        "values": _values(ends[0].values, ends[1].values),
        "equal": [
            encodable(name)
            for name, value in ends[0].values.items()
            if name in ends[1].values and equal(value, ends[1].values[name])
        ],
    }


def _steps(found: RunDiff, after: list[dict[int, Step]]) -> list[Json]:
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
                "items": [_item(each) for each in difference.items],
            }
        )
    return steps


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
