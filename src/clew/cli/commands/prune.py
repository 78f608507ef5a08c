"""``clew prune``: delete old runs."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer

from clew.cli.options import JsonOption, StoreOption, store_at
from clew.cli.output import CommandError, count, say_json, say_line
from clew.runtime.log.run_rows import STATUSES
from clew.runtime.review.retention import prune as prune_store

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("prune")(prune)


def prune(
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", help="Keep the N newest.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only those unchanged for 90s, 15m, 12h, 30d, 8w."),
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help=f"Only those: {', '.join(STATUSES)}.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete old runs.

    \b
    Examples:
      clew prune --keep 100
      clew prune --older-than 30d --status failed --dry-run

    Those that are running or waiting stay unless --status asks for them, and so do parents of forks that stay.
    """
    if keep is None and older_than is None and status is None:
        raise CommandError(
            "prune deletes runs, and was not told which",
            "give --keep N, --older-than TIME or --status STATUS",
        )
    with store_at(store) as opened:
        gone = prune_store(
            opened,
            keep=keep,
            older_than=_seconds(older_than),
            status=status,
            dry_run=dry_run,
            now=time.time(),
        )
    if as_json:
        say_json({"deleted": gone, "dry_run": dry_run})
        return 0
    for run_id in gone:
        say_line(run_id)
    say_line(f"{count(len(gone), 'run')} {'would be deleted' if dry_run else 'deleted'}")
    return 0


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if found is None:
        raise CommandError(f"{text!r} is no time", "give a number and a unit: 90s, 15m, 12h, 30d, 8w")
    return float(found[1]) * _UNITS[found[2]]
