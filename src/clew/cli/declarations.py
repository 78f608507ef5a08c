"""Short forms of typer's declarations, for options and arguments that are declared where they are used."""

from __future__ import annotations

from typing import Any

import typer


def option(name: str, metavar: str, help: str, **more: Any) -> Any:
    """Declare an option with a value."""
    return typer.Option(name, metavar=metavar, help=help, **more)


def flag(name: str, help: str, **more: Any) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, **more)
