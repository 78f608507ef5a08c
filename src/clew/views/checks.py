"""Results of checks and explorations: the documents that their commands leave in a store, and the page shows.

A document has the guarantees, the states by their distance from the start, and for each violation the shortest path
with what happened and what it changed. Of a large state graph, it has only the violating paths and their neighbours.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from clew.error_text import encodable
from clew.errors import StoreCorruptError, UnknownValueError
from clew.explore.reports.state_diff import step_changes
from clew.explore.reports.state_picture import distances
from clew.stores import Store
from clew.stores.factory import open_table, table_names

if TYPE_CHECKING:
    from clew.explore.checking.check import CheckResult
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

Json = dict[str, Any]

TABLE = "checks"
DRAWN = 400
_FAULTS = ("crash", "fail ", "time out", "lose", "refuse")
_INSIDE = "run."
_MOST = 200


# The shape of a document, as far as its readers rely on it.
class _Guarantee(TypedDict):
    name: str
    violated: int
    message: str


class _Choice(TypedDict):
    text: str
    times: int


class _Node(TypedDict):
    id: int
    depth: int
    kind: str


_Edge = TypedDict("_Edge", {"from": int, "to": int, "text": str, "fault": bool})


class _PathStep(TypedDict):
    state: int | None
    choice: str
    narrative: list[str]
    diff: list[list[str]]
    inside: list[str]


class _Violation(TypedDict):
    guarantee: str
    message: str
    times: int
    path: list[_PathStep]


class _Document(TypedDict):
    name: str
    kind: str
    graph: str
    states: int
    transitions: int
    complete: bool
    took: float
    time: float
    facts: dict[str, Any]
    guarantees: list[_Guarantee]
    choices: list[_Choice]
    nodes: list[_Node]
    edges: list[_Edge]
    violations: list[_Violation]


def check_document(name: str, result: CheckResult, *, command: str | None = None) -> Json:
    """Return the result of a check as JSON. `command` repeats it with its options."""
    from clew.explore.checking.narrative import FORMAT

    explored, options = result.explored, result.check._options

    def kind(state: str) -> str:
        return str(explored.graph.states[state]["run"]["status"])

    violations = result.violations
    numbers = _numbers(explored, violations)
    return {
        "id": name,
        "name": name,
        "kind": "check",
        "clew_check": FORMAT,
        "command": command or shlex.join(["clew", "check", name]),
        "graph": result.check.graph.name or "",
        "ends": result.ends,
        "facts": {"faults": ", ".join(sorted(options["faults"])), "max_faults": options["max_faults"]},
        "guarantees": _guarantees(result.check.names, violations),
        **_states(explored, violations, numbers, kind),
        "violations": [
            _violation(explored, each, numbers, [step.happened for step in narrative.steps])
            for each, narrative in zip(violations[:_MOST], result.narratives)
        ],
    }


def exploration_document(name: str, result: ExplorationResult, *, command: str | None = None) -> Json:
    """Return the result of an exploration of systems as JSON. `command` repeats it, if that is known."""
    systems = result.initial.observations if result.graph.initial_id is not None else ()
    facts: Json = {"systems": ", ".join(systems), "strategy": result.strategy}
    requests = getattr(getattr(result, "service", None), "requests", None)
    if requests is not None:
        facts["requests"] = requests
    numbers = _numbers(result, result.violations)
    return {
        "id": name,
        "name": name,
        "kind": "exploration",
        "command": command,
        "graph": "",
        "facts": facts,
        "guarantees": _guarantees(result.invariants, result.violations),
        **_states(result, result.violations, numbers, lambda state: "end"),
        "violations": [_violation(result, each, numbers, []) for each in result.violations[:_MOST]],
    }


def _guarantees(names: Iterable[str], violations: Iterable[Violation]) -> list[Json]:
    violated, messages = Counter[str](), dict[str, str]()
    for each in violations:
        violated[each.name] += each.count
        messages.setdefault(each.name, each.message)
    return [
        {"name": name, "violated": violated[name], "message": messages.get(name, "")}
        for name in dict.fromkeys((*names, *violated))
    ]


def _numbers(explored: ExplorationResult, violations: Sequence[Violation]) -> dict[str, int]:
    """Number the states that are shown: all, or of many those on violating paths and next to them."""
    chosen = list(explored.graph.states)
    if len(chosen) > DRAWN:
        steps = [step for each in violations for step in each.path]
        on_path = dict.fromkeys(
            each for step in steps for each in (step.from_state_id, step.to_state_id) if each
        )
        near = [t for t in explored.transitions if t.from_state_id in on_path or t.to_state_id in on_path]
        ends = (each for t in near for each in (t.from_state_id, t.to_state_id) if each is not None)
        chosen = list(dict.fromkeys([explored.graph.initial_id or "", *on_path, *ends]))[:DRAWN]
    return {state: number for number, state in enumerate(chosen)}


def _states(
    explored: ExplorationResult,
    violations: Sequence[Violation],
    numbers: Mapping[str, int],
    end: Callable[[str], str],
) -> Json:
    """Return the states and transitions; `end` describes a state without outgoing transitions."""
    graph = explored.graph
    violating = {each.path[-1].to_state_id for each in violations if each.path}
    depths = distances(explored)

    def kind(state: str) -> str:
        if state == graph.initial_id:
            return "start"
        if state in violating:
            return "violates"
        return "state" if graph.leaving(state) else end(state)

    choices = Counter(t.action_name for t in explored.transitions).most_common(_MOST)
    return {
        "states": len(graph.states),
        "transitions": len(explored.transitions),
        "complete": explored.complete and not explored.truncated,
        "took": explored.seconds,
        "time": time.time(),
        "choices": [{"text": text, "times": times} for text, times in choices],
        "truncated": len(numbers) < len(graph.states),
        "nodes": [
            {"id": number, "depth": depths.get(state, 0), "kind": kind(state), "label": ""}
            for state, number in numbers.items()
        ],
        "edges": [
            {
                "from": numbers[t.from_state_id],
                "to": numbers[t.to_state_id],
                "text": t.action_name,
                "fault": t.action_name.startswith(_FAULTS),
            }
            for t in explored.transitions
            if t.from_state_id in numbers and t.to_state_id is not None and t.to_state_id in numbers
        ][: 4 * DRAWN],
    }


def _violation(
    explored: ExplorationResult, violation: Violation, numbers: Mapping[str, int], happened: Sequence[Any]
) -> Json:
    """Return a violation with its path; `happened` tells what happened in each step of a checked run."""
    path = []
    for place, step in enumerate(violation.path):
        changes = step_changes(explored, step)
        inside = [each for each in changes if happened and each[0].startswith(_INSIDE)]
        path.append(
            {
                "state": numbers.get(step.from_state_id),
                "to": numbers.get(step.to_state_id or ""),
                "choice": step.action_name,
                "narrative": list(happened[place]) if place < len(happened) else [],
                "diff": [_row(*each) for each in changes if each not in inside],
                "inside": [each[0] for each in inside],
            }
        )
    found: Json = {"guarantee": violation.name, "message": violation.message, "times": violation.count}
    return {**found, "confirmed": violation.confirmed, "path": path}


def _row(where: str, before: str, after: str) -> list[str]:
    if not before:
        return ["+", where, after]
    return ["-", where, before] if not after else ["~", where, before, after]


# -- in a store --------------------------------------------------------------------------------------------------------


def keep_check(store: Store, document: Json) -> None:
    """Store a document; it replaces an earlier one of the same name."""
    table = open_table(store, TABLE)
    try:
        table.write([(document["id"], msgspec.json.encode(document))])
    finally:
        table.close()


def _documents(store: Store) -> dict[str, bytes]:
    if TABLE not in table_names(store):
        return {}
    table = open_table(store, TABLE)
    try:
        return dict(table.scan(limit=_MOST))
    finally:
        table.close()


def _decoded(key: str, data: bytes) -> Json:
    try:
        found: Json = msgspec.json.decode(data)
        msgspec.convert(found, _Document)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreCorruptError(f"the check {key!r} is damaged: {error}") from error
    return found


def checks_json(store: Store) -> Json:
    """Return the checks of a store, the newest first, and then the damaged ones."""
    found = []
    for key, data in _documents(store).items():
        try:
            each = _decoded(key, data)
        except StoreCorruptError as error:
            found.append(
                {"id": encodable(key), "time": None, "violations": 0, "damage": encodable(str(error))}
            )
            continue
        shown = {name: each[name] for name in ("name", "kind", "graph", "states", "transitions", "time")}
        violations = sum(bool(held["violated"]) for held in each["guarantees"])
        found.append(
            {
                "id": encodable(key),
                **shown,
                "violations": violations,
                "finished": each["complete"],
                "damage": None,
            }
        )
    return {"checks": sorted(found, key=lambda each: -(each["time"] or 0.0))}


def check_json(store: Store, name: str) -> Json:
    found = _documents(store).get(name)
    if found is None:
        raise UnknownValueError(f"the store has no check {name!r}")
    return _decoded(name, found)
