"""``clew delete``: delete runs."""

from __future__ import annotations

from clew import Engine
from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow


@selecting
def delete(
    chosen: RunFilter,
    runs: RunsArgument = None,
    dry_run: DryRunOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete runs and their children.

    \b
    Examples:
      clew delete RUN
      clew delete --status completed --before 2030-01-31T00:00:00Z --dry-run

    Runs that are executing, and runs that have a fork, are not deleted.
    """
    with store_at(store) as opened:
        engine = Engine(store=opened)

        def deleted(row: RunRow) -> str:
            engine.delete(row.run_id)
            return "deleted"

        rows = chosen_runs(opened, runs, chosen)
        return change_runs(rows, deleted, "deleted", dry_run=dry_run, as_json=as_json)
