"""``clew new``: copy a recipe into a folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

from clew.cli.declarations import argument
from clew.cli.options import JsonOption
from clew.cli.output import say, say_json, say_table
from clew.cli.recipes import Recipe, all_recipes, copy_recipe, find_recipe


def new(
    recipe: Annotated[str | None, argument("RECIPE", "Recipe to copy. [default: list them]")] = None,
    folder: Annotated[
        Path | None, argument("FOLDER", "Folder to create. [default: the name of the recipe]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a recipe, a project that runs, into a new folder.

    \b
    Examples:
      clew new
      clew new agent
      clew new agent my-agent

    The folder must not exist yet, or be empty.
    """
    if recipe is None:
        _list(all_recipes(), as_json=as_json)
        return
    found = find_recipe(recipe)
    target = folder if folder is not None else Path(found.name)
    copy_recipe(found, target)
    if as_json:
        say_json({"recipe": found.name, "folder": os.fspath(target), "files": list(found.files)})
        return
    say(f"copied the recipe {found.name!r} to {target}: {', '.join(found.files)}")
    say("next:")
    for line in (
        f"cd {shlex.quote(os.fspath(target))}",
        "pip install -r requirements.txt",
        found.first_command,
    ):
        say(f"  {line}")
    say("README.md says what it does and what to change")


def _list(recipes: list[Recipe], *, as_json: bool) -> None:
    if as_json:
        say_json(
            [
                {"recipe": each.name, "description": each.description, "files": list(each.files)}
                for each in recipes
            ]
        )
        return
    say_table(
        ("recipe", "what it is"),
        [(each.name, each.description.partition(". ")[0].rstrip(".")) for each in recipes],
    )
    say("copy one with: clew new RECIPE")
