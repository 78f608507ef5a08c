"""Values on a command line: ``NAME=JSON``, and files of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from clew.cli.output import CommandError
from clew.errors import DecodeError
from clew.state import from_tree

ValuesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=JSON]...", help="Values; what is no JSON is taken as text.", show_default=False
    ),
]
ValuesFile = Annotated[
    str | None,
    typer.Option("--values", metavar="FILE", help="Values as a JSON object; - is standard input."),
]


def read_json(text: str, where: str) -> Any:
    """A value from JSON; what cannot be anything else is text: ``hello`` is ``"hello"``."""
    try:
        tree = json.loads(text)
    except ValueError as error:
        if text[:1] in tuple('{["'):
            raise CommandError(
                f"{where} is no JSON: {error}", "quote it for the shell: NAME='{\"a\": 1}'"
            ) from None
        return text
    return _built(tree, where)


def _built(tree: Any, where: str) -> Any:
    try:
        return from_tree(tree)
    except DecodeError as error:
        what, _, hint = str(error).rpartition("; ")
        raise CommandError(f"{where}: {what or hint}", hint if what else "see `clew show --json`") from error


def read_file(path: str) -> Any:
    """The JSON in a file, or on standard input if it is ``-``."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        return json.loads(text)
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read: {error.strerror}", "give the name of a file with JSON"
        ) from error
    except ValueError as error:
        raise CommandError(f"{path} holds no JSON: {error}", "give the name of a file with JSON") from error
    except RecursionError as error:
        raise CommandError(
            f"{path} holds JSON that is nested too deeply to be read", "give a file with fewer levels"
        ) from error


def read_object(path: str) -> dict[str, Any]:
    """The values in a file: an object of names and values."""
    found = read_file(path)
    if not isinstance(found, dict):
        raise CommandError(f"{path} holds no object", 'write values as {"name": value, ...}')
    return {name: _built(tree, name) for name, tree in found.items()}


def read_values(pairs: Sequence[str] | None, file: str | None = None) -> dict[str, Any]:
    """Values from a file, then from ``NAME=JSON`` pairs, which win. Call it when the graph is loaded, which registers
    the classes that values may be of."""
    values = read_object(file) if file is not None else {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(f"{pair!r} is no value", "write NAME=JSON, like count=3 or query='\"hello\"'")
        values[name] = read_json(text, name)
    return values
