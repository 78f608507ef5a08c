"""The ``clew`` command: its subcommands, and how it reports their errors."""

from __future__ import annotations

import os
import sys
from copy import copy
from typing import Annotated, Any

import typer

import clew
from clew.cli.commands.check import check
from clew.cli.commands.continued_runs import resume, update
from clew.cli.commands.deletion import delete, prune
from clew.cli.commands.demo import demo
from clew.cli.commands.dependency_graphs import explain, invalidate, pull, set_
from clew.cli.commands.doctor import doctor
from clew.cli.commands.explanations import diff, graph, why
from clew.cli.commands.explore import explore
from clew.cli.commands.lists import runs, thread, threads
from clew.cli.commands.messages import answer, cancel, signal
from clew.cli.commands.new import new
from clew.cli.commands.new_runs import fork, rerun, run
from clew.cli.commands.queues import queues, resubmit, submit, workers
from clew.cli.commands.replay import replay
from clew.cli.commands.serve import serve
from clew.cli.commands.show import show
from clew.cli.commands.transfer import export, import_
from clew.cli.commands.worker import worker
from clew.cli.output import CommandError, remember_option, report_error, show_warnings
from clew.cli.plugins import command_names, load_plugins, missing
from clew.error_text import line_of
from clew.errors import (
    ClewError,
    DefinitionError,
    GraphChangedError,
    InputError,
    InvalidNodeError,
    JournalMismatchError,
    RefusedServiceError,
    RunExistsError,
    RunStateError,
    StoreVersionError,
    SystemSetupError,
    UnknownRunError,
    UnknownValueError,
)

# typer depends on click or contains a copy of it, so the base class of its errors is found through typer
_ClickError: Any = typer.BadParameter.__mro__[2]

USAGE_ERRORS = (
    DefinitionError,
    GraphChangedError,
    InputError,
    JournalMismatchError,
    RefusedServiceError,
    InvalidNodeError,
    RunExistsError,
    RunStateError,
    StoreVersionError,
    SystemSetupError,
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
    help="""Run graphs of Python functions; resume, replay, rewind and fork their runs.

\b
  clew demo                             see a graph at work: killed, resumed, replayed, forked
  clew new                              list projects to copy; `clew new agent` copies one
  clew run flow:graph query='"hello"'   run the graph `graph` of flow.py
  clew runs                             list the runs in the store
  clew show RUN                         show the steps of a run
  clew resume RUN                       continue after a failure, a question or a crash
  clew fork RUN --step 3 query='"ho"'   start a new run from a step, with different values
  clew submit flow:graph query='"hi"'   queue a run for `clew worker flow:graph`

RUN is the id of a run or the beginning of one. The store is a SQLite file or a postgresql:// URL: --store, or
CLEW_STORE, or clew.db in the current directory.""",
)

for command in (
    demo,
    new,
    run,
    submit,
    worker,
    queues,
    workers,
    resubmit,
    signal,
    answer,
    cancel,
    resume,
    replay,
    fork,
    rerun,
    runs,
    show,
    threads,
    thread,
    update,
    why,
    diff,
    export,
    import_,
    delete,
    prune,
    doctor,
    serve,
    graph,
    explore,
    check,
    pull,
    set_,
    invalidate,
    explain,
):
    app.command(command.__name__.rstrip("_"))(command)


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
    """Run one command and return its exit code."""
    show_warnings()
    for option in ("--store", "--graph"):
        remember_option(option, None)
    try:
        _find(_verb(arguments))
        code = typer.main.get_command(_narrowed(arguments)).main(
            arguments, prog_name="clew", standalone_mode=False
        )
        sys.stdout.flush()
        return int(code or 0)
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        report_error("interrupted")
        return 1
    except Exception as error:
        if os.environ.get("CLEW_DEBUG"):
            import traceback

            traceback.print_exc()
        return _report(error, arguments)


def _narrowed(arguments: list[str]) -> typer.Typer:
    """Return the application with only the given command if it comes first: building all of them takes time."""
    chosen = [command for command in app.registered_commands if command.name in arguments[:1]]
    narrowed = copy(app)
    narrowed.registered_commands = chosen or app.registered_commands
    return narrowed


def _report(error: Exception, arguments: list[str]) -> int:
    verb = _verb(arguments)
    is_known = verb in command_names(app)
    usage = f"see `clew {verb} --help`" if is_known else "see `clew --help` for the commands"
    if isinstance(error, CommandError):
        report_error(error.what, error.hint)
        return error.code
    if isinstance(error, _ClickError):
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            report_error(_message(error).replace("\n", " "), usage)
        return 2
    if isinstance(error, USAGE_ERRORS):
        report_error(str(error), usage=usage)
        return 2
    if isinstance(error, ClewError):
        report_error(str(error), usage="check the store with `clew doctor`")
        return 1
    if isinstance(error, OSError):
        report_error(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), usage)
        return 2
    report_error(line_of(error), "unexpected error; set CLEW_DEBUG=1 for a traceback")
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
