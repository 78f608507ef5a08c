"""Commands that delete runs: ``clew delete`` and ``clew prune``."""

from __future__ import annotations

from typing import Annotated, cast

from clew import Engine
from clew.cli.declarations import flag, option
from clew.cli.options import JsonOption, StoreOption, duration_of, inspector, store_at
from clew.cli.output import CommandError, count, say_json, say_line
from clew.cli.selection import DryRunOption, RunsArgument, change_runs, chosen_runs, selecting
from clew.engine.options import Status
from clew.runtime.log.run_rows import STATUSES
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


def prune(
    keep: Annotated[int | None, option("--keep", "N", "Keep the N newest runs.")] = None,
    older_than: Annotated[
        str | None,
        option("--older-than", "TIME", "Delete only runs unchanged for this time: 90s, 15m, 12h, 30d or 8w."),
    ] = None,
    status: Annotated[
        str | None, option("--status", "STATUS", f"Delete only runs with this status: {', '.join(STATUSES)}.")
    ] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Print the runs that would be deleted, and delete nothing.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete old runs.

    \b
    Examples:
      clew prune --keep 100
      clew prune --older-than 30d --status failed --dry-run

    Runs that have not ended are kept unless you select them with --status. Parents of remaining forks and the
    last run of each thread are always kept.
    """
    if keep is None and older_than is None and status is None:
        raise CommandError("prune needs a selection", "give --keep N, --older-than TIME or --status STATUS")
    age = None if older_than is None else duration_of(older_than, "--older-than")
    with store_at(store) as opened:
        deleted = inspector(opened).prune(
            keep=keep, older_than=age, status=cast(Status | None, status), dry_run=dry_run
        )
    if as_json:
        say_json({"deleted": deleted, "dry_run": dry_run})
        return
    for run_id in deleted:
        say_line(run_id)
    say_line(f"{count(len(deleted), 'run')} {'would be deleted' if dry_run else 'deleted'}")
