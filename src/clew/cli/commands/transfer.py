"""Commands that move a run to another store: ``clew export`` and ``clew import``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clew.cli.commands.lists import row_json
from clew.cli.declarations import argument, flag
from clew.cli.options import JsonOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import CommandError, count, say_json, say_line
from clew.cli.values import read_file
from clew.errors import CheckpointError, RunExistsError


def export(
    run: RunArgument,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write. [default: standard output]"),
    ] = None,
    latest: Annotated[
        bool, flag("--latest", "Export only the last checkpoint. The log is always complete.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
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
        return
    try:
        output.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise CommandError(
            f"{output} cannot be written: {error.strerror}", "give another file with --output"
        ) from error
    about = {"run_id": row.run_id, "file": str(output), "checkpoints": len(document["checkpoints"])}
    if as_json:
        say_json(about)
    else:
        say_line(
            f"exported run {row.run_id} to {output}: {count(len(document['checkpoints']), 'checkpoint')}"
        )


def import_(
    file: Annotated[str, argument("FILE", 'File written by `clew export` ("-" for standard input).')],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
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
                "`clew delete RUN`",
            ) from error
        if as_json:
            say_json(row_json(opened, opened.row(row.run_id)))
        else:
            say_line(f"imported run {row.run_id}: {row.status}")
