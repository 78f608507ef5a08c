"""The recipes: project folders that come with Clew, and that `clew new` copies.

- A recipe is a folder with a README.md. Its heading is the title, the paragraph below it the description, and the
  first command after ``## Run it`` the one to try first.
- A wheel contains the folders next to this package. In a checkout they are in ``examples/recipes``.
- A copy never replaces anything: the target must not exist, or be an empty folder.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import clew
from clew.cli.output import CommandError
from clew.graph.names import nearest

MADE = shutil.ignore_patterns("__pycache__", ".pytest_cache", "*.db", "*.db-*", "*.bak")


@dataclass(frozen=True)
class Recipe:
    """A recipe: its name, the folder to copy, and what its README says."""

    name: str
    folder: Path
    title: str
    description: str
    first_command: str
    files: tuple[str, ...]


def examples_folder(name: str) -> Path:
    """Return a folder of examples: `recipes` or `demo`."""
    package = Path(clew.__file__).parent
    installed, checkout = package / name, package.parents[1] / "examples" / name
    folder = installed if installed.is_dir() else checkout
    if not folder.is_dir():
        raise CommandError(
            f"the folder {name!r} is missing: neither {installed} nor {checkout} exists",
            "install Clew again from its wheel",
            code=1,
        )
    return folder


def all_recipes() -> list[Recipe]:
    """Return the recipes by name; the starter comes first."""
    found = [read_recipe(file.parent) for file in examples_folder("recipes").glob("*/README.md")]
    return sorted(found, key=lambda recipe: (recipe.name != "starter", recipe.name))


def read_recipe(folder: Path) -> Recipe:
    """Read what the README of a recipe says."""
    text = (folder / "README.md").read_text("utf-8")
    title, _, rest = text.removeprefix("# ").partition("\n")
    command = re.search(r"^\$ (.+)$", rest.partition("## Run it")[2], re.MULTILINE)
    ignored = MADE(str(folder), [path.name for path in folder.iterdir()])
    return Recipe(
        name=folder.name,
        folder=folder,
        title=title.strip(),
        description=" ".join(rest.partition("\n## ")[0].split()),
        first_command=command[1] if command else "",
        files=tuple(sorted(path.name for path in folder.iterdir() if path.name not in ignored)),
    )


def find_recipe(name: str) -> Recipe:
    recipes = {recipe.name: recipe for recipe in all_recipes()}
    if name not in recipes:
        raise CommandError(f"unknown recipe {name!r}", f"{nearest(name, recipes)} `clew new` describes them")
    return recipes[name]


def copy_recipe(recipe: Recipe, target: Path) -> None:
    """Copy the folder of a recipe; refuse a target that has something in it."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise CommandError(
            f"{target} exists and is not a folder", f"name another one: clew new {recipe.name} FOLDER"
        )
    if target.is_dir() and any(target.iterdir()):
        raise CommandError(
            f"{target} exists and is not empty", f"name another folder: clew new {recipe.name} FOLDER"
        )
    shutil.copytree(recipe.folder, target, ignore=MADE, dirs_exist_ok=True)
