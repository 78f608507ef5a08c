"""From what was seen to what is reported: the shortest path of each kind, shrunk, and done once more.

The shortest path known to any sight of a kind is found in the graph; that need not be the path on which it was seen
first. It is rehearsed in the world. If it shows the violation it is shrunk, and the result is rehearsed once more
before it is reported as confirmed. If it does not, the violation is reported as it was seen, and not confirmed: the
world or a check depends on more than what is rolled back.
"""

from __future__ import annotations

from clew.explore.model.state_graph import StateGraph
from clew.explore.model.states import Transition
from clew.explore.model.violations import Violation, ViolationGroup, ViolationKind, ViolationLog
from clew.explore.search.shrink_oracle import Leads, ShrinkOracle, leads_of
from clew.explore.search.shrinker import ReproducedPath, TrialRun, shrink


def settle(
    findings: ViolationLog, graph: StateGraph, rehearsal: TrialRun | None, *, everything: bool = False
) -> list[Violation]:
    """The violations of all kinds, the most serious first, shorter paths first. Without rehearsal: as seen.

    `everything` says that each action was tried wherever it is possible.
    """
    paths = shortest_paths(findings, graph)
    leads = leads_of(graph, rehearsal.numbers) if rehearsal is not None and paths else {}
    violations = []
    for kind, found in findings.by_kind.items():
        foresight = None if rehearsal is None else _foresight(found, graph, leads, rehearsal, everything)
        violations.append(_settled(found, paths[kind], rehearsal, foresight))
    return sorted(violations, key=lambda each: (each.severity.rank, len(each.path)))


def _foresight(
    found: ViolationGroup, graph: StateGraph, leads: Leads, rehearsal: TrialRun, everything: bool
) -> ShrinkOracle:
    assert graph.initial_id is not None
    return ShrinkOracle(
        found, leads, graph.initial_id, rehearsal.rules, rehearsal.numbers, everything=everything
    )


def _settled(
    found: ViolationGroup, path: list[Transition], rehearsal: TrialRun | None, foresight: ShrinkOracle | None
) -> Violation:
    kind = found.kind
    if rehearsal is None:
        return Violation(kind, found.message, found.severity, path, found.count, error=found.error)
    first = rehearsal.shows(rehearsal.numbered(path), kind)
    shown: ReproducedPath | None = None
    if first is not None:
        shrunk = shrink(rehearsal, first, kind, foresight)
        shown = rehearsal.shows(shrunk.path, kind)
        if shown is not None and shown.path != shrunk.path:
            shown = None
    if shown is None:
        return Violation(kind, found.message, found.severity, path, found.count, error=found.error)
    return Violation(
        kind,
        shown.message,
        found.severity,
        list(shown.transitions),
        found.count,
        confirmed=True,
        shrunk_from=len(path) if len(path) > len(shown.transitions) else None,
        error=found.error,
    )


def shortest_paths(findings: ViolationLog, graph: StateGraph) -> dict[ViolationKind, list[Transition]]:
    """For each kind, the shortest path known to any place where it was seen."""
    wanted: dict[str, dict[str, list[ViolationKind]]] = {}
    paths: dict[ViolationKind, list[Transition]] = {}
    for kind, found in findings.by_kind.items():
        for state_id, action in found.occurrences:
            if state_id is None or action is None:
                paths[kind] = []
            else:
                wanted.setdefault(state_id, {}).setdefault(action, []).append(kind)
    missing = set(findings.by_kind) - set(paths)
    if not missing:
        return paths
    for step in graph.walk():
        for action, kinds in wanted.get(step.state_id, {}).items():
            due = [kind for kind in kinds if kind in missing]
            if due and graph.allows(action, step.progress):
                path = [*step.path(), _last(graph, step.state_id, action)]
                for kind in due:
                    paths[kind] = path
                    missing.discard(kind)
        if not missing:
            break
    return paths


def _last(graph: StateGraph, state_id: str, action: str) -> Transition:
    for transition in graph.leaving(state_id):
        if transition.action_name == action:
            return transition
    return Transition(state_id, action, None)  # it raised
