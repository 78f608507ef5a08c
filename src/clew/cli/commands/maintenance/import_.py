"""``clew import``: import a run from a JSON file."""

from __future__ import annotations

from typing import Annotated

from clew.cli.commands.inspection.runs import row_json
from clew.cli.declarations import argument
from clew.cli.options import JsonOption, StoreOption, inspector, store_at
from clew.cli.output import CommandError, say_json, say_line
from clew.cli.values import read_file
from clew.errors import CheckpointError, RunExistsError


def import_(
    file: Annotated[str, argument("FILE", 'File written by `clew export` ("-" for standard input).')],
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
                "`clew delete RUN`",
            ) from error
        if as_json:
            say_json(row_json(opened, opened.row(row.run_id)))
        else:
            say_line(f"imported run {row.run_id}: {row.status}")
    return 0
