"""Input values on the command line: ``NAME=JSON`` pairs and JSON files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from clew.cli.declarations import argument, option
from clew.cli.output import CommandError
from clew.errors import DecodeError
from clew.state import from_tree

ValuesArgument = Annotated[
    list[str] | None,
    argument(
        "NAME=JSON",
        "Values. Anything that is not valid JSON is treated as a string.",
        show_default=False,
    ),
]
ValuesFile = Annotated[
    str | None, option("--values", "FILE", 'Read values from a JSON file ("-" for standard input).')
]


def read_json(text: str, where: str) -> Any:
    """Return a value from JSON. Text that cannot be JSON is a string: ``hello`` is ``"hello"``."""
    try:
        tree = json.loads(text)
    except RecursionError:
        raise CommandError(
            f"{where} is nested too deeply", "give it as a file with --values, or flatten it"
        ) from None
    except ValueError as error:
        if text[:1] in tuple('{["'):
            raise CommandError(
                f"{where} is not valid JSON: {error}", "quote it for the shell, as in '{\"a\": 1}'"
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
    """Return the JSON data in a file, or on standard input for ``-``."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        return json.loads(text.removeprefix("\ufeff"))  # a byte order mark, which some editors write
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read: {error.strerror}", "check the name of the file"
        ) from error
    except ValueError as error:
        raise CommandError(f"{path} is not valid JSON: {error}", "give a JSON file") from error
    except RecursionError as error:
        raise CommandError(f"{path} is nested too deeply", "give a JSON file with fewer levels") from error


def read_object(path: str) -> dict[str, Any]:
    """Return the values in a file with a JSON object."""
    found = read_file(path)
    if not isinstance(found, dict):
        raise CommandError(f"{path} does not contain a JSON object", 'write values as {"name": value, ...}')
    return {name: _built(tree, name) for name, tree in found.items()}


def read_values(pairs: Sequence[str] | None, file: str | None = None) -> dict[str, Any]:
    """Return the values from a file and from ``NAME=JSON`` pairs, which take precedence.

    Load the graph first: that registers the classes of values.
    """
    values = read_object(file) if file is not None else {}
    for pair in pairs or ():
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise CommandError(
                f"{pair!r} is not an input value", "write NAME=JSON, such as count=3 or query='\"hello\"'"
            )
        values[name] = read_json(text, name)
    return values
