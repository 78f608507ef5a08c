"""Update a run by hand: claim it, commit one step with the values of the caller, and leave it paused.

The step, and the records of what it withdraws, are written in one append (``clew.engine.edits`` has the rules). Before
that, the run is marked as running. So after a crash, it can be resumed like any other killed run, with the step or
without it.

A path such as ``sub/tool`` names a node in an open subgraph. In this case, the step belongs to the chain of that
subgraph.
"""

from __future__ import annotations

from typing import Any

import msgspec

from clew.engine import edits
from clew.engine.history.chain import Chain
from clew.engine.machine import Machine
from clew.engine.options import Options
from clew.engine.program import Program
from clew.engine.records import Retry, Step, Withdrawn
from clew.engine.stops import path_of_node
from clew.engine.updates.merge import MergeFailure
from clew.engine.working_state import WorkingState
from clew.errors import InputError, RunStateError
from clew.graph import Graph
from clew.runtime.log.entries.records import ResumeRecord
from clew.runtime.log.frames import graph_at, open_frame, work_inside
from clew.runtime.log.persons import this_user
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import RunLog
from clew.runtime.opener import RunOpener


def update_run(opener: RunOpener, run_id: str, values: Any, as_node: Any, decision: Any, owner: str) -> None:
    """Commit a step by hand to a run that is not running; `as_node` is the path of a node, or the node itself."""
    as_node = None if as_node is None else path_of_node(as_node, "as_node")
    program = opener.program  # raises without a graph, before the run is claimed
    fence, owner = opener.claim(run_id, owner)
    has_begun = False
    try:
        run = opener.runs.open(run_id)
        row, log = run.row, run.log()
        opener.check_structure(log.row)
        records = _records(opener, run, log, program(log.start), values, as_node, decision)
        if row.status == "failed":  # exceptions that were recorded until now no longer count
            now = opener.settings.clock.time()
            records.append(ResumeRecord(log.resumption + 1, now, this_user()))
        now = opener.settings.clock.time()
        opener.repository.begin(run_id, fence, now)
        has_begun = True
        writer = opener.repository.writer(log, fence, "sync")
        writer.write(records)
        writer.close()
        opener.repository.close(run_id, fence, "paused", now, ())
    except Exception:
        if has_begun:
            opener.give_up(run_id, owner)
        else:
            opener.release(run_id, fence, owner)
        raise
    except BaseException:
        opener.give_up(run_id, owner)
        raise


class _Place(msgspec.Struct):
    """The frame that gets the step: the run itself, or an open subgraph."""

    machine: Machine  # at the end of the log, with prior work applied; the frame is its root
    chain: Chain
    program: Program
    prefix: str = ""
    epoch: tuple[int, ...] = ()


def _records(
    opener: RunOpener,
    run: StoredRun,
    log: RunLog,
    program: Program,
    values: Any,
    as_node: str | None,
    decision: Any,
) -> list[Any]:
    """Return the records of the step, and of what it withdraws."""
    own, now = run.program(log.start), opener.settings.clock.time()
    place = _Place(opener.machine_at(log, own, now=program), log.chain(own), program)
    if isinstance(as_node, str) and "/" in as_node:
        place, as_node = _inside(log, program.graph, as_node, place.machine.options)
    machine, chain, prefix = place.machine, place.chain, place.prefix
    machine.preview()
    if machine.root.step >= machine.options.max_steps:
        raise RunStateError(f"run {log.row.run_id!r} has reached max_steps; raise max_steps to update it")
    after = WorkingState.restore(place.program, chain.state(chain.last))
    number = chain.last + 1
    outcome = edits.outcome_by_hand(after, number, values, as_node, decision, now)
    outcomes = edits.with_finished(machine, outcome)
    try:
        deltas = after.apply(outcomes, on_conflict=log.on_conflict)
    except MergeFailure as failure:
        raise InputError(
            f"update: the reducer of {failure.value!r} rejects the value: {failure.error}"
        ) from failure.error
    later = edits.withdrawn_nodes(machine, after, outcomes)
    gone, begun = machine.forget(machine.root, later)
    asked = [path[len(prefix) :] for path in log.asked if path.startswith(prefix)]
    withdrawn = [_item_of(path) for path in asked if _is_withdrawn(path, later)]
    paths = dict.fromkeys([*(each.path for each in gone), *withdrawn])
    records: list[Any] = [Withdrawn(prefix + path, place.epoch) for path in paths]
    records.append(Step(prefix, number, outcomes, place.epoch, deltas))
    committed = {each.path for each in outcomes}
    reason = InputError(f"discarded by step {number}, a manual update")
    records += [
        Retry(None, prefix + path, attempt + 1, 0.0, reason, epoch=place.epoch)
        for path, attempt in begun.items()
        if path not in committed
    ]
    return records


def _inside(log: RunLog, graph: Graph, path: str, options: Options) -> tuple[_Place, str]:
    """Return the open subgraph that contains a node by path, and the name of the node."""
    prefix, name = open_frame(log, graph, path)
    chain = log.inner_chain(graph_at(graph, prefix), prefix)
    machine = Machine.restore(chain.program, chain.state(chain.last), options, work_inside(log, prefix))
    return _Place(machine, chain, chain.program, prefix, log.frames[prefix][0].epoch), name


def _item_of(path: str) -> str:
    """Return the item of the frame itself that contains the question at a path."""
    return path.partition("/")[0].partition("!")[0]


def _is_withdrawn(path: str, later: dict[str, int]) -> bool:
    name, _, rest = _item_of(path).partition("#")
    return name in later and int(rest.partition("[")[0]) >= later[name]
