"""``clew cancel``: end runs that have not ended."""

from __future__ import annotations

import time
from typing import Annotated

from clew import Engine
from clew.cli.declarations import option
from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow, Store
from clew.stores.queue import FINAL

_ASKED = "asked to end"
_LOOK = 0.1  # seconds between two checks of a run
_OPEN = ("queued", "running", "sleeping", "waiting", "paused")


@selecting
def cancel(
    chosen: RunFilter,
    runs: RunsArgument = None,
    wait: Annotated[
        float,
        option(
            "--wait",
            "SECONDS",
            "Wait for runs that other processes execute until they have ended, at most this long.",
            min=0.0,
        ),
    ] = 0.0,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Cancel runs that have not ended.

    \b
    Examples:
      clew cancel RUN
      clew cancel RUN --wait 10
      clew cancel --status queued --attribute tenant=acme --dry-run

    A run that another process executes receives a message and is reported as "asked to end". It ends soon after; a sync
    node finishes first. With --wait, the command reports the status that the run has then. Runs that have already
    ended are skipped. A cancelled run can be resumed.
    """
    with store_at(store) as opened:
        engine = Engine(store=opened)

        def cancelled(row: RunRow) -> str:
            if not engine.handle(row.run_id).cancel():
                return ""
            return _outcome(opened, row.run_id)

        def finish(outcomes: dict[str, str]) -> None:
            until = time.monotonic() + wait
            for run_id, outcome in outcomes.items():
                while outcome == _ASKED and time.monotonic() < until:
                    time.sleep(_LOOK)
                    outcome = outcomes[run_id] = _outcome(opened, run_id)

        rows = chosen_runs(opened, runs, chosen)
        return change_runs(
            rows, cancelled, "cancelled", dry_run=dry_run, as_json=as_json, allowed=_OPEN, finish=finish
        )


def _outcome(store: Store, run_id: str) -> str:
    """Return what a cancellation has done to a run so far."""
    status = store.row(run_id).status
    return status if status in FINAL else _ASKED
