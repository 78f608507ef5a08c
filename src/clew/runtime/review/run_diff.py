"""Run diff: where two runs differ, and how.

Runs are compared from their last common step: where one was forked from the other, or both from a third run; otherwise
from the start. The comparison covers the items of each step by path, with their updates and decisions. Times, attempts
and recordings do not count. Items in subgraphs are compared too, and listed with their full path under the step of the
enclosing item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from clew import display
from clew.engine.records import Outcome, Step
from clew.graph import Send
from clew.runtime.log.run_log import RunLog, lineage_of
from clew.runtime.review.value_diff import difference, one_line
from clew.state import GraphState, position_of, same

_SHOWN_STEPS = 5
_WIDE = 100


class _Missing:
    """The type of `MISSING`, for a value that one of the runs does not have."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class ValueChange(msgspec.Struct, frozen=True):
    """A value, decision or error that differs; `MISSING` if a run does not have it."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old, new = _text(self.old), _text(self.new)
        if len(old) + len(new) <= _WIDE and old != new and "\n" not in old + new:
            return f"{self.name}: {old} -> {new}"
        if self.old is MISSING or self.new is MISSING:
            return f"{self.name}: {_cut(old)} -> {_cut(new)}"
        lines = difference(self.old, self.new).splitlines()[2:]  # without the two header lines
        if max(map(len, lines), default=0) > _WIDE and "\n" not in old + new:
            at = next((i for i, (x, y) in enumerate(zip(old, new)) if x != y), min(len(old), len(new)))
            lines = [f"- {_around(old, at)}", f"+ {_around(new, at)}"]
        return "\n".join([f"{self.name}:", *(f"  {line}" for line in lines)])


class ItemDiff(msgspec.Struct, frozen=True):
    """An item that only one run has, or whose outcome differs."""

    path: str
    only_in: str | None  # the id of the only run that has it
    changes: tuple[ValueChange, ...] = ()

    def __str__(self) -> str:
        if self.only_in is not None:
            return f"{self.path} is only in {self.only_in!r}"
        return "\n".join([f"{self.path} has a different outcome", *_indented(self.changes)])


class StepDiff(msgspec.Struct, frozen=True):
    """A step in which the runs differ. `values` are input values, or values set by a fork."""

    step: int
    items: tuple[ItemDiff, ...] = ()
    values: tuple[ValueChange, ...] = ()

    def __str__(self) -> str:
        heading = f"step {self.step}" if self.items else f"before step {self.step + 1}: different values"
        return "\n".join([heading, *_indented(self.values), *_indented(self.items)])


class RunDiff(msgspec.Struct, frozen=True):
    """The differences between runs `a` and `b`. It is true if they differ."""

    a: str
    b: str
    since: int
    """The last common step; the comparison starts after it."""
    common: str | None
    """The common ancestor, if any: `a`, `b` or a third run."""
    steps: tuple[StepDiff, ...]
    values: tuple[ValueChange, ...]
    """Values that differ at the end."""
    status: tuple[str, str]
    ends: tuple[int, int]
    """The last step of each run."""

    def __bool__(self) -> bool:
        return bool(self.steps or self.values or self.status[0] != self.status[1])

    @property
    def first(self) -> StepDiff | None:
        """The first step that differs."""
        return self.steps[0] if self.steps else None

    def __repr__(self) -> str:
        found = f"{len(self.steps)} steps and {len(self.values)} values differ" if self else "the same"
        return f"<RunDiff {self.a!r}, {self.b!r}: {found}>"

    def _repr_html_(self) -> str:
        rows = [
            (display.cell(change.name), display.value_cell(change.old), display.value_cell(change.new))
            for change in self.values
        ]
        values = display.table(("at the end", self.a, self.b), rows) if rows else ""
        return display.page(display.block(str(self)), values)

    def __str__(self) -> str:
        runs = f"runs {self.a!r} and {self.b!r}"
        if not self:
            return f"{runs} are the same: {self.ends[0]} step{'' if self.ends[0] == 1 else 's'}, {self.status[0]}"
        lines = [f"{runs} differ {self._where()}"]
        lines += [str(step) for step in self.steps[:_SHOWN_STEPS]]
        if len(self.steps) > _SHOWN_STEPS:
            lines.append(f"... and {len(self.steps) - _SHOWN_STEPS} more steps differ")
        (was, now), (last, end) = self.status, self.ends
        lines.append(f"at the end ({was} after step {last}; {now} after step {end})")
        lines += _indented(self.values) or ["  all values are the same"]
        return "\n".join(lines)

    def _where(self) -> str:
        origin = (
            f"after step {self.since} of {self.common!r}" if self.common is not None else "from the start"
        )
        first = self.first
        if first is None or first.step == self.since:
            return origin
        return f"in step {first.step} (compared {origin})"


def _known(log_of: Callable[[str], RunLog], known: dict[str, RunLog]) -> Callable[[str], RunLog]:
    """Read each log once: reading it again would read its large values again."""

    def find(run_id: str) -> RunLog:
        if run_id not in known:
            known[run_id] = log_of(run_id)
        return known[run_id]

    return find


def compare(
    a: str, b: str, log_of: Callable[[str], RunLog], state_of: Callable[[str, int | None], GraphState]
) -> RunDiff:
    """Compare two runs."""
    logs = log_of(a), log_of(b)
    log_of = _known(log_of, dict(zip((a, b), logs, strict=True)))
    common, since = _common_run(logs, log_of)
    lineages = [lineage_of(log, log_of) for log in logs]
    after = [[step for step in lineage.steps if step.number > since] for lineage in lineages]
    if common is None and lineages[0].start.step == lineages[1].start.step:
        since = lineages[0].start.step
    found = list(_set_by_hand(logs, common, since, log_of, state_of))
    if common is None and (given := _changes(lineages[0].start.values, lineages[1].start.values)):
        found.insert(0, StepDiff(since, values=given))
    inside = [_frames(log, log_of) for log in logs]
    frames = _by_item(inside)
    for number, (one, other) in enumerate(zip_longest(*after), start=since + 1):
        items = tuple(_items((a, b), (one, other), inside, frames))
        if items:
            found.append(StepDiff(number, items))
    ends = [state_of(run, None) for run in (a, b)]
    return RunDiff(
        a=a,
        b=b,
        since=since,
        common=common,
        steps=tuple(sorted(found, key=lambda step: step.step)),
        values=_changes(ends[0].values, ends[1].values),
        status=(logs[0].row.status, logs[1].row.status),
        ends=(ends[0].step, ends[1].step),
    )


def _set_by_hand(
    logs: Sequence[RunLog],
    common: str | None,
    since: int,
    log_of: Callable[[str], RunLog],
    state_of: Callable[[str, int | None], GraphState],
) -> Iterator[StepDiff]:
    """Yield the steps at which two runs, or their ancestors, set different values."""
    sets = [_set_values(log, since, log_of) for log in logs]
    for step in sorted({*sets[0], *sets[1]}):
        # values that were not set are those of the common run
        before = state_of(common, step).values if common is not None and step == since else {}
        names = sorted({name for each in sets for name in each.get(step, {})})
        old, new = ({n: each.get(step, {}).get(n, before.get(n, MISSING)) for n in names} for each in sets)
        if changes := _changes(old, new):
            yield StepDiff(step, values=changes)


def _ancestors(log: RunLog, log_of: Callable[[str], RunLog]) -> Iterator[tuple[RunLog, int]]:
    """Yield a run and its ancestors, each with the last step that the run shares with it."""
    shared = 1 << 62
    yield log, shared
    while log.row.parent is not None:
        assert log.row.parent_step is not None
        shared = min(shared, log.row.parent_step)
        log = log_of(log.row.parent)
        yield log, shared


def _common_run(logs: Sequence[RunLog], log_of: Callable[[str], RunLog]) -> tuple[str | None, int]:
    """Return the nearest common ancestor of two runs, and the last common step."""
    mine = {log.row.run_id: step for log, step in _ancestors(logs[0], log_of)}
    for log, step in _ancestors(logs[1], log_of):
        run_id = log.row.run_id
        if run_id in mine:
            return run_id, min(step, mine[run_id], log.start.step + len(log.steps))
    return None, 0


def _set_values(log: RunLog, since: int, log_of: Callable[[str], RunLog]) -> dict[int, dict[str, Any]]:
    """Return the values set by a run and its ancestors, by step, from step `since` on."""
    found: dict[int, dict[str, Any]] = {}
    for each, _ in _ancestors(log, log_of):
        start = each.start
        if each.row.parent is not None and start.step >= since and position_of(start).touched:
            found.setdefault(start.step, {}).update(
                {name: start.get(name) for name in sorted(position_of(start).touched)}
            )
    return found


Frames = Mapping[str, Sequence[Step]]
"""The steps inside subgraphs, by prefix."""


def _frames(log: RunLog, log_of: Callable[[str], RunLog]) -> Frames:
    """Return the frames of a run and its ancestors."""
    found: dict[str, Sequence[Step]] = {}
    for each, _ in reversed(list(_ancestors(log, log_of))):
        found.update((prefix, steps) for prefix, (_, steps) in each.frames.items())
    return found


def _items(
    runs: tuple[str, str],
    pair: tuple[Step | None, Step | None],
    inside: Sequence[Frames],
    frames: Mapping[str, Sequence[str]],
    prefix: str = "",
) -> Iterator[ItemDiff]:
    """Yield the items that differ between two steps, also inside common subgraph items."""
    old, new = ({o.path: o for o in step.outcomes} if step is not None else {} for step in pair)
    for name in [*old, *(name for name in new if name not in old)]:
        path = prefix + name
        if name not in new or name not in old:
            yield ItemDiff(path, runs[0] if name in old else runs[1])
            continue
        changes = _changes(old[name].update, new[name].update)
        changes += _changes(_decision_and_error(old[name]), _decision_and_error(new[name]))
        if changes:
            yield ItemDiff(path, None, changes)
        for within in frames.get(path, ()):
            for then, now in zip_longest(*(steps.get(within, ()) for steps in inside)):
                yield from _items(runs, (then, now), inside, frames, within)


def _by_item(inside: Sequence[Frames]) -> dict[str, list[str]]:
    """Return the frames of each item: one, or one for each element of a mapped item."""
    found: dict[str, list[str]] = {}
    for prefix in dict.fromkeys(prefix for frames in inside for prefix in frames):
        path = prefix[:-1]
        found.setdefault(path, []).append(prefix)
        if path.endswith("]"):
            found.setdefault(path[: path.rindex("[")], []).append(prefix)
    return found


def _decision_and_error(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if outcome.decision is not None:
        found["its decision"] = [
            [c.target, dict(c.payload)] if isinstance(c, Send) else str(c) for c in outcome.decision
        ]
    if outcome.error is not None:
        found["its error"] = f"{type(outcome.error).__name__}: {outcome.error}"
    return found


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    names = [*old, *(name for name in new if name not in old)]
    pairs = ((name, old.get(name, MISSING), new.get(name, MISSING)) for name in names)
    return tuple(ValueChange(name, was, now) for name, was, now in pairs if not _same(was, now))


def _same(one: Any, other: Any) -> bool:
    if one is MISSING or other is MISSING:
        return one is other
    return same(one, other)


def _text(value: Any) -> str:
    if value is MISSING:
        return "nothing"
    return one_line(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def _around(text: str, at: int) -> str:
    """Return the part of a long text around the first difference."""
    begin = max(at - _WIDE // 3, 0)
    return ("…" if begin else "") + _cut(text[begin:])


def _indented(parts: Sequence[Any]) -> list[str]:
    return [f"  {line}" for part in parts for line in str(part).splitlines()]
