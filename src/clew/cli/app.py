"""The command as a whole: its verbs, and what happens when one of them cannot do its work."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import clew
from clew.cli.commands import (
    check,
    diff,
    doctor,
    explain,
    explore,
    export,
    fork,
    graph,
    import_,
    invalidate,
    prune,
    pull,
    replay,
    rerun,
    resume,
    run,
    runs,
    set_,
    show,
    why,
)
from clew.cli.output import CommandError, complain, remember_option, show_warnings
from clew.cli.plugins import command_names, load_plugins, missing
from clew.error_text import line_of
from clew.errors import (
    ClewError,
    DefinitionError,
    GraphChangedError,
    InputError,
    InvalidNodeError,
    JournalMismatchError,
    RunExistsError,
    RunStateError,
    StoreVersionError,
    UnknownRunError,
    UnknownValueError,
)

# typer may bring click with it, or have it inside: click's own root of errors is reached by what typer exports
_ClickError: Any = typer.BadParameter.__mro__[2]

WRONG_COMMAND = (
    DefinitionError,
    GraphChangedError,
    InputError,
    JournalMismatchError,
    InvalidNodeError,
    RunExistsError,
    RunStateError,
    StoreVersionError,
    UnknownRunError,
    UnknownValueError,
)

app = typer.Typer(
    name="clew",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Graphs of Python functions whose runs survive, replay, rewind and fork.

\b
  clew run flow:graph query='"hello"'   run the graph `graph` of flow.py
  clew runs                             what there is
  clew show RUN                         what it did, step by step
  clew resume RUN                       go on after a failure, a question or a crash
  clew fork RUN --step 3 query='"ho"'   go on from a step, with other values

A RUN is a run's id, or the beginning of one. The store is --store, or CLEW_STORE, or clew.db in this folder: a file
(SQLite), or postgresql://... (PostgreSQL).""",
)

for verb in (
    run,
    resume,
    replay,
    fork,
    rerun,
    runs,
    show,
    why,
    diff,
    export,
    import_,
    prune,
    doctor,
    graph,
    explore,
    check,
    pull,
    set_,
    invalidate,
    explain,
):
    verb.register(app)


def _version(value: bool) -> None:
    if value:
        print(f"clew {clew.__version__}")
        raise typer.Exit


@app.callback()
def _clew(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def run_command(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    show_warnings()
    for option in ("--store", "--graph"):
        remember_option(option, None)
    try:
        _find(_verb(arguments))
        code = typer.main.get_command(app).main(arguments, prog_name="clew", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:  # whoever reads has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return 1
    except Exception as error:
        if os.environ.get("CLEW_DEBUG"):
            import traceback

            traceback.print_exc()
        return _told(error, arguments)


def _told(error: Exception, arguments: list[str]) -> int:
    verb = _verb(arguments)
    is_known = verb in command_names(app)
    usage = f"`clew {verb} --help` says how it is used" if is_known else "`clew --help` lists the verbs"
    if isinstance(error, CommandError):
        complain(error.what, error.hint)
        return error.code
    if isinstance(error, _ClickError):
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            complain(_message(error).replace("\n", " "), usage)
        return 2
    if isinstance(error, ClewError):
        complain(
            str(error),
            usage=usage if isinstance(error, WRONG_COMMAND) else "`clew doctor` looks at the store",
        )
        return 2 if isinstance(error, WRONG_COMMAND) else 1
    if isinstance(error, OSError):
        complain(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), usage)
        return 2
    complain(line_of(error), "this is not foreseen; CLEW_DEBUG=1 shows where it happened")
    return 1


def _message(error: Any) -> str:
    text = str(error.format_message())
    return text[:1].lower() + text[1:].rstrip(".")


def _verb(arguments: list[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def _find(verb: str) -> None:
    """Load the plugins, unless a command is Clew's own; refuse one whose distribution is not installed."""
    if verb in command_names(app):
        return
    load_plugins(app)
    error = missing(verb)
    if error is not None and verb not in command_names(app):
        raise error
