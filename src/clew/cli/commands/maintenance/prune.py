"""``clew prune``: delete old runs."""

from __future__ import annotations

from typing import Annotated, cast

from clew.cli.declarations import flag, option
from clew.cli.options import JsonOption, StoreOption, duration_of, inspector, store_at
from clew.cli.output import CommandError, count, say_json, say_line
from clew.engine.options import Status
from clew.runtime.log.run_rows import STATUSES


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
) -> int:
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
        return 0
    for run_id in deleted:
        say_line(run_id)
    say_line(f"{count(len(deleted), 'run')} {'would be deleted' if dry_run else 'deleted'}")
    return 0
