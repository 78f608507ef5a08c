"""Confirmation: turn recorded violations into reported ones, each with a path that was repeated successfully.

For each kind, the state graph gives the shortest path to any occurrence; this may differ from the path on which the
violation was first found. The path is repeated in the world. If it reproduces the violation, it is shrunk, and the
shrunk path is repeated once more before the violation is reported as confirmed. Otherwise the violation is reported as
it was recorded, unconfirmed: the world or a check depends on something that is not rolled back. The most serious kinds
come first; when the time is over, the others are reported without a repetition.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import Transition
from clew.explore.model.violations import Violation, ViolationGroup, ViolationKind, ViolationLog
from clew.explore.search.shrinker import (
    ReproducedPath,
    ShrinkOracle,
    Successors,
    TrialRun,
    shrink,
    successors_of,
)


def confirm(
    log: ViolationLog,
    graph: StateGraph,
    trial: TrialRun | None,
    *,
    exhaustive: bool = False,
    out_of_time: Callable[[], bool] | None = None,
) -> list[Violation]:
    """Return one violation per kind, the most serious and then the shortest first. Without a trial: unconfirmed.

    `exhaustive` means that every action was tried in every state in which it is possible.
    """
    paths = shortest_paths(log, graph)
    successors = successors_of(graph, trial.numbers) if trial is not None and paths else {}
    violations = []
    order = sorted(log.by_kind, key=lambda kind: (log.by_kind[kind].first.severity.rank, len(paths[kind])))
    for kind in order:
        group = log.by_kind[kind]
        if trial is not None and out_of_time is not None and out_of_time():
            trial = None
        oracle = None if trial is None else _oracle(group, graph, successors, trial, exhaustive)
        violations.append(_confirmed(group, paths[kind], trial, oracle))
    return sorted(violations, key=lambda each: (each.severity.rank, len(each.path)))


def _oracle(
    group: ViolationGroup, graph: StateGraph, successors: Successors, trial: TrialRun, exhaustive: bool
) -> ShrinkOracle:
    assert graph.initial_id is not None
    return ShrinkOracle(
        group, successors, graph.initial_id, trial.rules, trial.numbers, exhaustive=exhaustive
    )


def _confirmed(
    group: ViolationGroup, path: list[Transition], trial: TrialRun | None, oracle: ShrinkOracle | None
) -> Violation:
    found, count = group.first, len(group.occurrences)
    reproduced = None if trial is None else _reproduce(trial, path, found.kind, oracle)
    if reproduced is None:
        return Violation(
            found.kind,
            found.message,
            found.severity,
            path,
            count,
            error=found.error,
            replayed=trial is not None,
        )
    return Violation(
        found.kind,
        reproduced.message,
        found.severity,
        list(reproduced.transitions),
        count,
        confirmed=True,
        shrunk_from=len(path) if len(path) > len(reproduced.transitions) else None,
        error=found.error,
    )


def _reproduce(
    trial: TrialRun, path: list[Transition], kind: ViolationKind, oracle: ShrinkOracle | None
) -> ReproducedPath | None:
    first = trial.reproduce(trial.numbered(path), kind)
    if first is None:
        return None
    shrunk = shrink(trial, first, kind, oracle)
    again = trial.reproduce(shrunk.path, kind)
    return again if again is not None and again.path == shrunk.path else None


def shortest_paths(log: ViolationLog, graph: StateGraph) -> dict[ViolationKind, list[Transition]]:
    """Return, for each kind, the shortest known path to one of its occurrences."""
    wanted: dict[str, dict[str, list[ViolationKind]]] = {}
    paths: dict[ViolationKind, list[Transition]] = {}
    for kind, group in log.by_kind.items():
        for state_id, action in group.occurrences:
            if state_id is None or action is None:
                paths[kind] = []
            else:
                wanted.setdefault(state_id, {}).setdefault(action, []).append(kind)
    missing = set(log.by_kind) - set(paths)
    if not missing:
        return paths
    for step in graph.walk():
        for action, kinds in wanted.get(step.state_id, {}).items():
            found = [kind for kind in kinds if kind in missing]
            if found and graph.allows(action, step.progress):
                path = [*step.path(), _last(graph, step.state_id, action)]
                for kind in found:
                    paths[kind] = path
                    missing.discard(kind)
        if not missing:
            break
    return paths


def _last(graph: StateGraph, state_id: str, action: str) -> Transition:
    for transition in graph.leaving(state_id):
        if transition.action_name == action:
            return transition
    return Transition(state_id, action, None)  # the action raised
