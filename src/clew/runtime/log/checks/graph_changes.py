"""What a resume does with a graph that has changed: check it, fill in new defaults, and record the accepted graph.

They write nothing; the caller stores the record together with the answers of the resume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.engine.program import Program
from clew.engine.working_state import WorkingState
from clew.graph import Graph
from clew.runtime.log.checks.fingerprints import (
    changed_parts,
    conflict_rule,
    is_made_with,
    kept_codes,
    structure_of,
)
from clew.runtime.log.checks.run_checks import check_nodes
from clew.runtime.log.checks.schema_changes import check_can_run, gained, with_defaults
from clew.runtime.log.entries.records import AcceptedChanges, Filled
from clew.runtime.log.frames import graph_at, open_paths
from clew.runtime.log.run_log import RunLog, fill


def check_used_nodes(log: RunLog, own: Program, graph: Graph) -> None:
    """Raise GraphChangedError if the graph lacks a node that the run, made with the program `own`, has used."""
    if not is_made_with(log.row, graph):
        chain = log.chain(own)
        check_nodes(chain.state(chain.last), graph, log.row.run_id, open_paths(log))


def fill_defaults(log: RunLog, own: Program, program: Program) -> Filled:
    """Add the defaults of new schema fields to a resumed run and to its frames; return the values added so far.

    `own` is the program that the run was made with. The graph has the nodes that the run has used. Raises
    GraphChangedError if the run cannot continue because an input is missing.
    """
    graph = program.graph
    if is_made_with(log.row, graph):
        return {}
    chain = log.chain(own)  # recorded steps belong to the graph that the run was made with
    state = chain.state(chain.last)
    filled = {"": gained(graph, state.values)}
    for prefix, (start, steps) in log.frames.items():
        written = {name for step in steps for outcome in step.outcomes for name in outcome.update}
        filled[prefix] = gained(graph_at(graph, prefix), {*start.values, *written})
    filled = {prefix: values for prefix, values in filled.items() if values}
    both = {
        prefix: {**log.filled.get(prefix, {}), **filled.get(prefix, {})} for prefix in {*log.filled, *filled}
    }
    fill(log, both)
    state = with_defaults(state, filled.get("", {}))
    rewired = changed_parts(log.row, graph).wiring
    check_can_run(log.row.run_id, WorkingState.restore(program, state), rewired)
    return both if filled else {}


def accepted_changes(
    log: RunLog,
    filled: Filled,
    graph: Graph,
    on_conflict: str,
    describe: Callable[[Graph], tuple[Any, bytes]] | None,
) -> tuple[list[AcceptedChanges], dict[str, bytes]]:
    """Return a record of the accepted changes, if any, and blobs to store with it.

    `describe` is given if the user accepts the graph; it returns the description of a graph.
    """
    row = log.row
    structure, codes = structure_of(row), dict(row.codes)
    description, content = row.description, b""
    if describe is not None:
        structure, codes = graph.structure_hash, kept_codes(graph, on_conflict)
        description, content = describe(graph)
    elif filled:
        codes = kept_codes(graph, on_conflict)
    elif conflict_rule(codes, "error") != on_conflict:
        codes = {**codes, ":conflict": on_conflict}
    if structure == structure_of(row) and codes == row.codes and not filled:
        return [], {}
    found = AcceptedChanges(log.accepted, structure, codes, description, log.filled)
    return [found], {description: content} if content else {}
