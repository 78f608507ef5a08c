"""Commands of other distributions.

A distribution adds a command through an entry point of the group ``clew.commands``. Its name is the command's name, its
value a function that takes the typer application and registers the command::

    [project.entry-points."clew.commands"]
    ask = "clew_nl2sql.command:register"

Clew's own commands load no plugin, so none can break or slow them. All others, and the help, load every plugin; one
that fails is a line of warning, and the others are loaded. A plugin cannot replace a command.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import typer

from clew.cli.output import CommandError, note
from clew.display import inline
from clew.error_text import line_of

GROUP = "clew.commands"
DISTRIBUTIONS = {"ask": "clew-nl2sql"}  # commands that are documented with Clew, and where they are


def load_plugins(app: typer.Typer) -> None:
    """Register the commands of all plugins that are not registered yet."""
    for plugin in sorted(entry_points(group=GROUP)):
        if plugin.name in command_names(app):
            continue
        try:
            register: Callable[[typer.Typer], object] = plugin.load()
            register(app)
        except Exception as error:
            note(f"the command {plugin.name!r} ({plugin.value}) cannot be loaded: {inline(line_of(error))}")


def command_names(app: typer.Typer) -> set[str]:
    """Return the names of all commands that are registered."""
    return {str(command.name) for command in app.registered_commands}


def missing(name: str) -> CommandError | None:
    """Return an error that says how to install a command; None if no known distribution has it."""
    if name not in DISTRIBUTIONS:
        return None
    return CommandError(f"the command {name!r} is not installed", f"pip install {DISTRIBUTIONS[name]}")
