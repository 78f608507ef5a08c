"""``clew resubmit``: put runs back into a queue."""

from __future__ import annotations

from typing import Annotated

from clew.cli.declarations import option
from clew.cli.options import GraphOption, JsonOption, StoreOption, engine_of, store_at
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow

_STOPPED = ("queued", "running", "paused", "failed", "cancelled")


@selecting
def resubmit(
    chosen: RunFilter,
    runs: RunsArgument = None,
    dry_run: DryRunOption = False,
    queue: Annotated[
        str | None, option("--queue", "NAME", "Queue to put the runs into. [default: the queue they were in]")
    ] = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put failed, cancelled or paused runs back into a queue.

    \b
    Examples:
      clew resubmit RUN
      clew resubmit --status failed --attribute tenant=acme --queue low

    A worker continues them where they stopped. Completed and waiting runs are skipped.
    """
    with store_at(store) as opened:

        def resubmitted(row: RunRow) -> str:
            engine_of(opened, row, graph).resubmit(row.run_id, queue=queue)
            return "resubmitted"

        rows = chosen_runs(opened, runs, chosen)
        return change_runs(
            rows, resubmitted, "resubmitted", dry_run=dry_run, as_json=as_json, allowed=_STOPPED
        )
