"""The commands that maintain a store: ``export``, ``import`` and ``prune``."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated

import typer

from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import CommandError, count, say_json, say_line
from clew.cli.run_output import row_json
from clew.cli.values import read_file
from clew.errors import CheckpointError, RunExistsError
from clew.runtime.log.run_rows import STATUSES
from clew.runtime.review.retention import prune as prune_store


def export(
    run: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write. [default: standard output]"),
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", help="Export only the last checkpoint. The log is always complete.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a run as one JSON document.

    \b
    Examples:
      clew export flow-1a2b3c -o run.json
      clew export flow-1a2b3c | jq '.checkpoints[-1].state'

    The document has the checkpoints of the run and its log, which `clew import` reads.
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        document = inspector(opened).export_run(row.run_id, latest=latest)
    if output is None:
        say_json(document)
        return 0
    output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    about = {"run_id": row.run_id, "file": str(output), "checkpoints": len(document["checkpoints"])}
    if as_json:
        say_json(about)
    else:
        say_line(
            f"exported run {row.run_id} to {output}: {count(len(document['checkpoints']), 'checkpoint')}"
        )
    return 0


def import_run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help='File written by `clew export` ("-" for standard input).')
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Import a run written by `clew export`.

    \b
    Examples:
      clew import run.json --store other.db

    Modified files are rejected.
    """
    document = read_file(file)
    if not isinstance(document, dict):
        raise CommandError(f"{file} is not an exported run", "create one with: clew export RUN -o FILE")
    with store_at(store, create=True) as opened:
        try:
            row = inspector(opened).import_run(document)
        except CheckpointError as error:
            what, _, hint = str(error).rpartition("; ")
            raise CommandError(what or hint, hint if what else "export it again", code=1) from error
        except RunExistsError as error:
            raise CommandError(
                str(error).partition("; ")[0],
                "import it into another store with --store FILE, or first delete the run in this one: "
                "Engine(store=...).delete(run_id)",
            ) from error
        if as_json:
            say_json(row_json(opened, opened.row(row.run_id)))
        else:
            say_line(f"imported run {row.run_id}: {row.status}")
    return 0


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def prune(
    keep: Annotated[int | None, typer.Option("--keep", metavar="N", help="Keep the N newest runs.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Delete only runs unchanged for this time: 90s, 15m, 12h, 30d or 8w.",
        ),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", metavar="STATUS", help=f"Delete only runs with this status: {', '.join(STATUSES)}."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the runs that would be deleted, and delete nothing.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete old runs.

    \b
    Examples:
      clew prune --keep 100
      clew prune --older-than 30d --status failed --dry-run

    Running, waiting and paused runs are kept unless you select them with --status. Parents of remaining forks are
    always kept.
    """
    if keep is None and older_than is None and status is None:
        raise CommandError(
            "prune needs a selection",
            "give --keep N, --older-than TIME or --status STATUS",
        )
    with store_at(store) as opened:
        deleted = prune_store(
            opened,
            keep=keep,
            older_than=_seconds(older_than),
            status=status,
            dry_run=dry_run,
            now=time.time(),
        )
    if as_json:
        say_json({"deleted": deleted, "dry_run": dry_run})
        return 0
    for run_id in deleted:
        say_line(run_id)
    say_line(f"{count(len(deleted), 'run')} {'would be deleted' if dry_run else 'deleted'}")
    return 0


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if found is None:
        raise CommandError(
            f"{text!r} is not a time", "give a number and a unit, such as 90s, 15m, 12h, 30d or 8w"
        )
    return float(found[1]) * _UNITS[found[2]]
