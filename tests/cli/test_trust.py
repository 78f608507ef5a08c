"""A store or a document that a stranger wrote: no command imports or calls what it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, SQLiteStore, node
from tests.cli.command import Folder

HOSTILE = "os:system('touch pwned')"


@node(output="answer")
def answer(query: str) -> str:
    return query.upper()


@pytest.fixture
def store(folder: Folder) -> Path:
    """A store whose runs name a command instead of a graph."""
    with Engine(Graph([answer]), store=SQLiteStore(folder.path / "clew.db"), import_string=HOSTILE) as engine:
        engine.run({"query": "hi"}, run_id="r")
        engine.run({"query": "ho"}, run_id="s")
    return folder.path / "clew.db"


@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["show", "r"],
        ["show", "r", "--step", "1"],
        ["why", "r", "answer"],
        ["diff", "r", "s"],
        ["export", "r", "-o", "out.json"],
        ["doctor"],
        ["prune", "--keep", "1"],
    ],
    ids=lambda words: words[0],
)
def test_inspection_needs_no_graph(folder: Folder, store: Path, words: list[str]) -> None:
    folder.clew(*words)
    assert not (folder.path / "pwned").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "r"],
        ["replay", "r"],
        ["fork", "r", "--step", "0"],
        ["rerun", "r"],
    ],
    ids=lambda words: words[0],
)
def test_running_needs_a_graph_of_the_user(folder: Folder, store: Path, words: list[str]) -> None:
    done = folder.clew(*words, code=1 if words[0] == "replay" else 2)
    assert "--graph" in done.stdout + done.stderr
    assert not (folder.path / "pwned").exists()


def test_a_hostile_document_is_imported_as_data(folder: Folder, store: Path) -> None:
    folder.clew("export", "r", "-o", "out.json")
    document: dict[str, Any] = json.loads((folder.path / "out.json").read_text())
    assert HOSTILE in json.dumps(document)
    folder.clew("import", "out.json", "--store", "other.db")
    assert folder.json("runs", "--store", "other.db")[0]["target"] == HOSTILE
    (folder.path / "bare.json").write_text(json.dumps({"clew": {"target": HOSTILE}}))
    folder.clew("import", "bare.json", "--store", "other.db", code=1)
    assert not (folder.path / "pwned").exists()


def test_a_list_next_to_the_store_does_not_count(folder: Folder, store: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mail"
    elsewhere.mkdir()
    (elsewhere / "pyproject.toml").write_text(f'[tool.clew]\ngraphs = ["{HOSTILE}"]\n')
    store.rename(elsewhere / "clew.db")
    folder.clew("resume", "r", "--store", "mail/clew.db", code=2)
    assert not (folder.path / "pwned").exists()


def test_the_graph_may_be_given_or_listed(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi", "--run-id", "r")
    assert folder.json("rerun", "r", "--run-id", "again")["status"] == "completed"
    (folder.path / "pyproject.toml").unlink()
    folder.clew("rerun", "r", code=2)
    assert folder.json("rerun", "r", "--graph", "flow:graph", "--run-id", "more")["status"] == "completed"
