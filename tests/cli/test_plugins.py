"""Commands of other distributions: entry points of the group ``clew.commands``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Folder

GREET = """
def register(app):
    @app.command("greet")
    def greet(name: str) -> int:
        print("hello", name)
        return 3
"""


@pytest.fixture
def install(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH with two distributions: one that works, and one whose module cannot be imported."""
    place = tmp_path / "site"
    for name, module, points in (
        ("greet", GREET, "greet = greet_plugin:register\nruns = greet_plugin:register"),
        ("broken", "raise RuntimeError('no luck\\nat all')", "broken = broken_plugin:register"),
    ):
        metadata = place / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[clew.commands]\n{points}\n")
        (place / f"{name}_plugin.py").write_text(module)
    return place


def path_with(place: Path) -> str:
    """The path of this process, which may name Clew's sources, and a folder before it."""
    return ":".join([str(place), *filter(None, sys.path)])


def test_a_plugin_adds_a_command(folder: Folder, install: Path) -> None:
    done = folder.clew("greet", "Ann", code=3, PYTHONPATH=path_with(install))
    assert done.stdout == "hello Ann\n"
    assert "\n  greet" in folder.clew("--help", PYTHONPATH=path_with(install)).stdout


def test_a_broken_plugin_is_one_line_of_warning(folder: Folder, install: Path) -> None:
    for words, code in ((("--help",), 0), (("greet", "Ann"), 3)):
        warning = folder.clew(*words, code=code, PYTHONPATH=path_with(install)).stderr
        assert warning.count("\n") == 1
        assert warning.startswith("note: ")
        assert "'broken'" in warning


def test_commands_of_clew_load_no_plugin_and_cannot_be_replaced(folder: Folder, install: Path) -> None:
    folder.clew("run", "flow:graph", "query=a", "--run-id", "mine", PYTHONPATH=path_with(install))
    done = folder.clew("runs", PYTHONPATH=path_with(install))
    assert "mine" in done.stdout
    assert done.stderr == ""


WITHOUT_PLUGINS = """
import sys, clew.cli.plugins
clew.cli.plugins.entry_points = lambda **_: []
from clew.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "words, hint", [(["ask", "How many?"], "pip install clew-nl2sql"), (["tell"], "clew --help")]
)
def test_a_command_that_is_not_installed_says_how_to_get_it(words: list[str], hint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PLUGINS, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    error, what_to_do = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert what_to_do.startswith("hint: ")
    assert hint in what_to_do
