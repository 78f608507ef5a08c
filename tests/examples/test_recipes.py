"""Every recipe does what its README says, in a copy that `clew new` made, and its page shows the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli.recipes import Recipe, all_recipes, copy_recipe
from clew.runtime.project import listed_graphs
from tests.docs.console import run_console
from tests.docs.markdown import read_blocks
from tests.docs.model_server import model_server

ROOT = Path(__file__).resolve().parents[2]
RECIPES = all_recipes()
PAGES = [page for page in sorted(ROOT.glob("docs/recipes/*.md")) if page.stem != "index"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_readme_is_right(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / recipe.name
    copy_recipe(recipe, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the recipes need none, and it starts faster
    readme = copy / "README.md"
    sessions = [block for block in read_blocks(readme.read_text("utf-8")) if block.language == "console"]
    assert sessions
    with model_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        for session in sessions:
            run_console(session, readme)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_is_a_complete_project(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"README.md", "requirements.txt", ".gitignore"} <= set(recipe.files)
    assert any(name.startswith("test_") for name in recipe.files)
    assert recipe.description.endswith(".")
    assert recipe.first_command
    readme = (recipe.folder / "README.md").read_text("utf-8")
    assert "## Run it" in readme
    assert "## Change it" in readme
    monkeypatch.chdir(recipe.folder)
    for graph in listed_graphs():
        assert (recipe.folder / f"{graph.partition(':')[0]}.py").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_the_files_of_its_recipe(page: Path) -> None:
    folder = ROOT / "examples" / "recipes" / page.stem
    text = page.read_text("utf-8")
    assert f"`clew new {page.stem}`" in text
    shown = {block.file: block.code for block in read_blocks(text) if block.file}
    for name, code in shown.items():
        assert (folder / name).read_text("utf-8") == code, name


def test_the_readme_of_the_project_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    pages = [*PAGES, *(ROOT / f"docs/how-to/{name}.md" for name in ("notebooks", "changing-code"))]
    assert [page.name for page in pages if f"({page.relative_to(ROOT).as_posix()})" not in readme] == []
