"""Why an item ran, waits, or is about to run: its reasons, and theirs, back to the start of the run.

The reasons are read from the chain (`clew.engine.history.reasons`), also those of an item without a committed step: it
is asked what would have woken it after the last step. Reasons that say the same are one, with a count; of several
versions of one value, the last writer is given, with the number of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clew.engine.history.reasons import Explainer, Reason, RunLineage
from clew.engine.records import Step
from clew.error_text import encodable
from clew.errors import InputError, UnknownRunError
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.run_log import lineage_of
from clew.state import position_of
from clew.views.run.inside import inner_chains, is_mapped
from clew.views.run.states import RunStates
from clew.views.run.stored_steps import planned_steps, steps_ahead, steps_of
from clew.views.run.timeline import open_items

Json = dict[str, Any]

DEEPEST = 8
_MOST_ITEMS = 60
_WINDOW = 2_000  # steps of a long run that are read
_ORDER = ("selected", "sent", "changed", "edited", "outside", "control", "given", "start")
"""Which reason leads the thread: what selected an item says more than what it read."""


def why_json(
    runs: RunReader,
    states: RunStates,
    run_id: str,
    item: str,
    node: str,
    value: str,
    *,
    step: int | None = None,
    depth: int = DEEPEST,
) -> Json:
    """Explain an item, the last run of a node, or the last write of a value. `step` is that of the item, if it is
    known: a long run is then read around it."""
    if sum(map(bool, (item, node, value))) != 1:
        raise InputError("why needs one of item, node and value")
    run = runs.open(run_id)
    if "/" in item:
        return _inside(runs, states, run, item, depth)
    lineage = _lineage(runs, states, run, step)
    explainer = Explainer(run.program(lineage.start), lineage)
    unfinished = {each["path"]: each for each in open_items(run)}
    if not item:
        item = _found(lineage, unfinished, node, value)
    if not item:
        return _by_no_node(lineage, value)
    found = _explained(explainer, unfinished, item, depth)
    if found[item]["state"] == "next" and not _is_planned(run, unfinished, item):
        raise UnknownRunError(f"run {run_id!r} has no item {item!r}; see its items")
    return {"item": encodable(item), "items": found, "thread": _thread(found, item)}


def _is_planned(run: StoredRun, unfinished: Iterable[str], item: str) -> bool:
    """Return whether an item without an outcome is open, contains one that is, or comes next."""
    if any(path == item or path.startswith(f"{item}/") for path in unfinished):
        return True
    return any(item in step.paths for step in planned_steps(run, run.log()))


def _inside(runs: RunReader, states: RunStates, run: StoredRun, item: str, depth: int) -> Json:
    """Explain an item of a subgraph, and then the item that the subgraph belongs to."""
    outer, _, inner = item.rpartition("/")
    chain = next((each for each in inner_chains(run, outer) if each.prefix == f"{outer}/"), None)
    if chain is None:
        raise UnknownRunError(f"run {run.row.run_id!r} has no subgraph at {outer!r}")
    unfinished = {each["path"]: each for each in open_items(run)}
    found = _explained(chain.explainer(run), unfinished, inner, depth, chain.prefix)
    thread = _thread(found, item)
    if is_mapped(run.graph, outer):  # its item has a chain for each element
        outer = outer.rpartition("[")[0]
    around = why_json(runs, states, run.row.run_id, outer, "", "", depth=depth)
    return {
        "item": encodable(item),
        "items": {**around["items"], **found},
        "thread": [*thread, *around["thread"]],
    }


def _lineage(runs: RunReader, states: RunStates, run: StoredRun, step: int | None) -> RunLineage:
    """Return the steps before an item: of the run and its parents, or of a long run the last ones."""
    begin, end = states.range(run)
    at = end if step is None else min(step, end)
    if end - begin <= _WINDOW:
        log = run.whole()
        found = lineage_of(log, lambda parent: runs.open(parent).whole())
    else:
        first = max(begin, at - _WINDOW)
        start = states.graph_state(run, first)
        steps = list(steps_of(run, first + 1, at))
        found = RunLineage(start, steps, [(first, position_of(start).touched)])
    if at < end:
        return found
    ahead = [Step("", each.number, each.outcomes) for each in steps_ahead(run)]
    return msgspec.structs.replace(found, steps=[*found.steps, *ahead]) if ahead else found


def _explained(
    explainer: Explainer, states: dict[str, Json], item: str, depth: int, prefix: str = ""
) -> dict[str, Json]:
    """Return the explanations of an item and of what led to it, by path. `prefix` is that of the subgraph."""
    found: dict[str, Json] = {}
    pending = [(item, depth)]
    while pending and len(found) < _MOST_ITEMS:
        inner, left = pending.pop(0)
        path = prefix + inner
        if path in found:
            continue
        known = states.get(path, {})
        explained = explainer.explain(inner, None if prefix else known.get("step"))
        if explained is None:
            if inner == item:
                raise UnknownRunError(f"the run has no item {path!r}; see its items")
            continue
        step, outcome, reasons = explained
        grouped = _grouped(reasons)
        if left > 0:
            pending += [(each["path"], left - 1) for each in grouped if each["path"]]
        for each in grouped:
            each["path"] = each["path"] and prefix + each["path"]
        state = "done" if outcome is not None else known.get("state", "next")
        found[path] = {
            "path": encodable(path),
            "node": encodable(inner.partition("#")[0]),
            "step": step,
            "state": state,
            "cached": outcome is not None and outcome.cached,
            "by_hand": outcome is not None and outcome.by_hand,
            "text": _text(inner, step, state),
            "reasons": grouped,
        }
    return found


def _text(path: str, step: int | None, state: str) -> str:
    node = encodable(path.partition("#")[0])
    if state == "done":
        return f"{node} ran in step {step}"
    what = {
        "asks": "asks",
        "running": "runs",
        "retrying": "is tried again",
        "sleeping": "sleeps",
        "failed": "failed",
    }
    return f"{node} {what.get(state, 'runs next')}"


def _found(lineage: RunLineage, states: dict[str, Json], node: str, value: str) -> str:
    """Return the item that a node ran last, or that wrote a value last; "" if no node wrote it."""
    for path, each in states.items():
        if node and each["node"] == node and each["state"] != "next":
            return path
    for step in reversed(lineage.steps):
        for outcome in reversed(step.outcomes):
            if (node and outcome.node == node) or (value and value in outcome.update):
                return outcome.path
    for path, each in states.items():
        if node and each["node"] == node:
            return path
    if node:
        raise UnknownRunError(f"node {node!r} has not run")
    if not lineage.start.has(value):
        raise UnknownRunError(f"no node has written {value!r}")
    return ""


def _by_no_node(lineage: RunLineage, value: str) -> Json:
    reason = Reason("given", lineage.start.step, value=value)
    return {"item": None, "items": {}, "thread": [], "reasons": [_reason(reason, 1, 0)]}


def _grouped(reasons: Iterable[Reason]) -> list[Json]:
    """Return reasons as JSON: those of one batch are one, and so are the versions of one value."""
    groups: dict[tuple[Any, ...], list[Reason]] = {}
    for reason in reasons:
        batch = reason.path[: reason.path.rindex("[")] if reason.path.endswith("]") else reason.path
        groups.setdefault((reason.kind, reason.step, batch, reason.value, *reason.instead_of), []).append(
            reason
        )
    newest: dict[tuple[str, str], tuple[Reason, int, int]] = {}
    for group in groups.values():
        last = group[-1]
        key = (last.kind, last.value or last.path.partition("#")[0])
        earlier = 0 if key not in newest else newest[key][2] + 1
        newest[key] = (last, len(group), earlier)
    found = [_reason(*each) for each in newest.values()]
    found.sort(key=lambda each: (_ORDER.index(each["kind"]), -each["step"]))
    return found


def _reason(reason: Reason, items: int, earlier: int) -> Json:
    return {
        "kind": reason.kind,
        "step": reason.step,
        "path": encodable(reason.path) or None,
        "value": encodable(reason.value) or None,
        "version": reason.version or None,
        "times": reason.times,
        "items": items,
        "earlier": earlier,
        "instead_of": [encodable(name) for name in reason.instead_of],
        "text": encodable(reason.text(items)),
    }


def _thread(found: dict[str, Json], item: str) -> list[str]:
    """Return the main path back to the start: from each item to the first of its reasons that has one."""
    path, thread = item, list[str]()
    while path in found and path not in thread:
        thread.append(encodable(path))
        path = next((each["path"] for each in found[path]["reasons"] if each["path"]), "")
    if path and path not in thread:
        thread.append(encodable(path))
    return thread
