"""Rerun: use again what a recorded run computed, wherever inputs and code are the same.

The old run is retraced with the outcomes that it recorded: each of its items is found with what it saw, and keyed by
that and by its node's code. An item of the new run with the same key gets the old outcome, and its record says that it
was cached; everything else is called. Equal keys are used in the order of the old run, each once, so a node that gave
three answers to one question gives them again.

What saw something else than it would see today is not used: a node whose code, inputs or bound values have changed;
whatever is inside a subgraph that begins with something else; anything at all where a reducer has changed.
"""

from __future__ import annotations

from collections import deque

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program
from clew.engine.records import Outcome, Start
from clew.graph import Graph
from clew.runtime.calls.cache import key_of
from clew.runtime.calls.recorder import same
from clew.runtime.log.fingerprints import changed_parts
from clew.runtime.log.run_log import RunLog
from clew.runtime.settings import Settings
from clew.state.stored_object import holds_stored


class ResultReuse:
    """The outcomes of a recorded run, by what they depend on."""

    def __init__(self, log: RunLog, program: Program, graph: Graph, settings: Settings) -> None:
        self._outcomes: dict[str, deque[Outcome]] = {}
        self._log = log
        self._foreign: set[str] = set()  # frames that begin with something else today
        self._changed = changed_parts(log.row, graph)
        if not self._changed.has_other_reducers:
            self._retrace(program, settings)

    def _retrace(self, program: Program, settings: Settings) -> None:
        log = self._log
        options = Options(
            seed=log.row.seed,
            max_steps=settings.max_steps,
            on_error="continue",  # a recorded failure is taken over like any outcome
            on_conflict=settings.on_conflict,
        )
        machine = Machine.restore(
            program, log.start, options, PriorWork(attempts=log.attempts, retraced=log.steps_by_place())
        )
        outcomes = log.outcomes()
        while (item := machine.take()) is not None:
            for record in machine.outbox:
                if isinstance(record, Start) and not self._begins_alike(record):
                    self._foreign.add(record.prefix)
            machine.outbox.clear()
            outcome = outcomes.get(item.path)
            if outcome is None:
                continue
            # what was stored of a class that has changed is made again
            is_built = not holds_stored(outcome.update.values())
            if outcome.error is None and is_built and self._is_unchanged(item):
                key = key_of(item, with_context=True)
                if key is not None:
                    self._outcomes.setdefault(key, deque()).append(outcome)
            machine.adopt(item, outcome)

    def _begins_alike(self, start: Start) -> bool:
        known = self._log.frames.get(start.prefix)
        return known is not None and same(dict(known[0].values), dict(start.values))

    def _is_unchanged(self, item: Item) -> bool:
        if self._foreign and any(item.path.startswith(prefix) for prefix in self._foreign):
            return False
        nodes = "/".join(part.partition("#")[0] for part in item.path.split("/"))
        if nodes in self._changed.code or any(
            nodes == part or nodes.startswith(f"{part}/") for part in self._changed.wiring
        ):
            return False
        return not self._changed.bound or not self._reads_changed(item)

    def _reads_changed(self, item: Item) -> bool:
        """Whether the item, or one around it, reads a bound value that is another now."""
        here: Item | None = item
        while here is not None:
            if not self._changed.bound.isdisjoint(here.node.inputs):
                return True
            here = here.frame.owner
        return False

    def find(self, item: Item) -> Outcome | None:
        """An outcome for this item, if the old run has one."""
        key = key_of(item, with_context=True)
        found = self._outcomes.get(key) if key is not None else None
        return found.popleft() if found else None
