"""The steps of a run after its last committed one: what ran ahead of a step that is still open."""

from __future__ import annotations

from clew.engine.history.provisional_steps import ProvisionalStep, provisional_steps
from clew.errors import ClewError
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import RunLog


def planned_steps(run: StoredRun, log: RunLog) -> list[ProvisionalStep]:
    """Return the steps that are planned after the last state; none if the graph cannot be read."""
    try:
        chain = log.chain(run.program(log.start))
        return provisional_steps(chain.program, chain.state(chain.last), log.finished, log.on_conflict)
    except ClewError:
        return []


def steps_ahead(run: StoredRun) -> list[ProvisionalStep]:
    """Return the steps after the last committed one, up to the last one of which an item has finished."""
    if run.row.status in ("completed", "compensated"):
        return []
    log = run.log()
    if not log.finished:
        return []
    planned = planned_steps(run, log)
    while planned and log.finished.keys().isdisjoint(planned[-1].paths):
        planned.pop()
    return planned
