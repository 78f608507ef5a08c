"""`clew new`: lists the recipes, copies one, says what to do next, and replaces nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from clew.cli.output import CommandError
from clew.cli.recipes import all_recipes, copy_recipe, find_recipe, read_recipe
from tests.cli.command import Folder


def test_without_a_name_the_recipes_are_listed(folder: Folder) -> None:
    names = [recipe.name for recipe in all_recipes()]
    listed = folder.clew("new").stdout.splitlines()
    assert [line.split()[0] for line in listed[1:-1]] == names
    assert [each["recipe"] for each in folder.json("new")] == names
    assert names[0] == "starter"


def test_a_copy_has_the_files_and_its_first_command_works(folder: Folder) -> None:
    said = folder.clew("new", "starter", "mine").stdout.splitlines()
    copied, original = folder.path / "mine", find_recipe("starter").folder
    assert sorted(path.name for path in copied.iterdir()) == sorted(find_recipe("starter").files)
    assert (copied / "flow.py").read_text() == (original / "flow.py").read_text()
    cd, install, first = (line.strip() for line in said[2:5])
    assert (cd, install) == ("cd mine", "pip install -r requirements.txt")
    folder.path = copied
    assert shlex.split(first)[0] == "clew"
    folder.clew(*shlex.split(first)[1:])
    assert folder.json("show", "first")["run"]["status"] == "completed"


def test_the_folder_is_called_like_the_recipe(folder: Folder) -> None:
    made = folder.json("new", "agent")
    assert made["folder"] == "agent"
    assert (folder.path / "agent" / "shopping.py").is_file()
    assert "shopping.py" in made["files"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_nothing_is_replaced(folder: Folder, kind: str) -> None:
    target = folder.path / "agent"
    if kind == "folder":
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(folder.path / "elsewhere")
    before = sorted(folder.path.rglob("*"))
    error = folder.clew("new", "agent", code=2).stderr
    assert "agent exists" in error
    assert "clew new agent FOLDER" in error
    assert sorted(folder.path.rglob("*")) == before


def test_an_empty_folder_is_filled(folder: Folder) -> None:
    (folder.path / "deep" / "agent").mkdir(parents=True)
    folder.clew("new", "agent", "deep/agent")
    assert (folder.path / "deep" / "agent" / "shopping.py").is_file()


def test_an_unknown_recipe_is_refused(folder: Folder) -> None:
    error = folder.clew("new", "agnet", code=2).stderr
    assert "did you mean 'agent'?" in error
    assert not (folder.path / "agnet").exists()


def test_what_a_run_left_behind_is_not_copied(tmp_path: Path) -> None:
    recipe = find_recipe("starter")
    used = tmp_path / "used"
    copy_recipe(recipe, used)
    (used / "clew.db").write_text("")
    (used / "__pycache__").mkdir()
    again = tmp_path / "again"
    copy_recipe(read_recipe(used), again)
    assert sorted(path.name for path in again.iterdir()) == sorted(recipe.files)
    assert read_recipe(used).files == recipe.files


def test_missing_recipes_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import clew

    monkeypatch.setattr(clew, "__file__", str(tmp_path / "site" / "clew" / "__init__.py"))
    with pytest.raises(CommandError):
        all_recipes()
