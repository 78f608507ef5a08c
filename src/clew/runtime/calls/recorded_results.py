"""The results of a recorded run, each with what it was computed from.

Everything comes from the log: values from its initial states and steps, digests of code and of bound values from the
fingerprints of the run, and the graph is that of the run. So an item read here what it read in the run, also if graph
and code have changed since. The user's code is not called: neither nodes nor reducers nor the functions of subgraphs.

Each frame is read by itself, from its recorded start. A bound value of an enclosing graph is found as the run found it:
a subgraph node passes it on by name, unless it has a ``transform_input``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.engine.edits import is_by_hand
from clew.engine.frame import NO_LIMIT, Batch, Frame, Item, OpenStep
from clew.engine.history.chain import Chain, apply_step
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program, program_of
from clew.engine.records import Outcome
from clew.engine.stops import place_of
from clew.engine.working_state import WorkingState
from clew.graph import Graph
from clew.runtime.log.frames import graph_at
from clew.runtime.log.run_log import RunLog, start_state
from clew.state import GraphState


class RecordedResults:
    """The results of a run and of its subgraphs. `program` is that of the run, made with its own graph."""

    def __init__(self, log: RunLog, program: Program) -> None:
        self._log = log
        self._root = program
        self._graphs: dict[str, Graph] = {}  # by place

    def __iter__(self) -> Iterator[tuple[Item, Outcome]]:
        """Yield items with their outcomes. The values of an item have to be read before the next one is taken."""
        log = self._log
        yield from self._frame("", self._root, log.start, log.steps)
        for prefix, (start, steps) in log.frames.items():
            program = program_of(self._graph(prefix), start.given)
            yield from self._frame(prefix, program, start_state(start, log.row.seed), steps)

    def _frame(
        self, prefix: str, program: Program, start: GraphState, steps: Any
    ) -> Iterator[tuple[Item, Outcome]]:
        log, working = self._log, WorkingState.restore(program, start)
        frame = Frame(program, working, step=start.step, prefix=prefix, order=(), owner=None)
        for step in steps:
            batches: dict[str, Batch] = {}
            for outcome in () if is_by_hand(step.outcomes) else step.outcomes:
                if _is_result(outcome, program):
                    if outcome.node not in batches:
                        open_step = OpenStep(frame, step.number, working)
                        batches[outcome.node] = Batch(open_step, program.index[outcome.node])
                    yield from _item(batches[outcome.node], outcome)
            apply_step(working, step, log.on_conflict)
        chain = Chain(program, start, steps, seed=log.row.seed, on_conflict=log.on_conflict)
        yield from self._finished(prefix, program, chain)

    def _finished(self, prefix: str, program: Program, chain: Chain) -> Iterator[tuple[Item, Outcome]]:
        """Yield the items whose step was not committed."""
        log = self._log
        if not any(path.rpartition("/")[0] == prefix[:-1] for path in log.finished):
            return
        options = Options(
            seed=log.row.seed,
            max_steps=NO_LIMIT,
            on_error="continue",  # recorded failures are adopted like other outcomes
            on_conflict=log.on_conflict,
        )
        machine = Machine.restore(program, chain.state(chain.last), options, PriorWork(log.finished))
        machine.root.prefix = prefix
        machine.preview()
        for open_step in machine.root.open_steps:
            for batch in open_step.batches.values():
                for outcome in batch.outcomes:
                    if outcome is not None and _is_result(outcome, program):
                        yield from _item(batch, outcome)

    def code(self, item: Item) -> str | None:
        """Return the hash of the code of an item's node."""
        return self._log.row.codes.get(place_of(item.frame.prefix) + item.node.name)

    def rules(self, item: Item) -> dict[str, str]:
        """Return how the outputs of an item were validated, by name."""
        place, codes = place_of(item.frame.prefix), self._log.row.codes
        return {name: codes[f"{place}%{name}"] for name in item.node.outputs if f"{place}%{name}" in codes}

    def bound(self, item: Item, name: str) -> str | None:
        """Return the digest of a bound value that an item read; None if nothing of this name was bound."""
        return self._bound_at(place_of(item.frame.prefix), name)

    def _bound_at(self, place: str, name: str) -> str | None:
        codes = self._log.row.codes
        while (found := codes.get(f"{place}={name}")) is None and place:
            around, _, owner = place[:-1].rpartition("/")
            place = f"{around}/" if around else ""
            node = graph_at(self._root.graph, place).nodes[owner]
            assert node.subgraph is not None
            sources = [p.source for p in node.params if p.kind == "value" and p.name == name]
            if node.subgraph.transform_input is not None or not sources:
                return None
            name = sources[0]
        return found

    def _graph(self, prefix: str) -> Graph:
        """Return the graph of a frame, with the names that were bound outside; their values are not known."""
        place = place_of(prefix)
        found = self._graphs.get(place)
        if found is None:
            found = graph_at(self._root.graph, prefix)
            names = {name for node in found.nodes.values() for name in node.inputs} - found.bound.keys()
            outer = {name: None for name in names if self._bound_at(place, name) is not None}
            found = self._graphs[place] = found.bind(**outer) if outer else found
        return found


def _is_result(outcome: Outcome, program: Program) -> bool:
    """Return whether a function of a node returned this outcome."""
    if outcome.error is not None or outcome.rescued:
        return False
    return program.graph.nodes[outcome.node].subgraph is None


def _item(batch: Batch, outcome: Outcome) -> Iterator[tuple[Item, Outcome]]:
    index = max(outcome.index, 0)
    if index < len(batch.payloads):
        yield Item(batch, index), outcome
