"""Which graph a recorded run may be run with: the caller's, or one that the project lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew import Graph
from clew.errors import DefinitionError, InputError
from clew.runtime.project import graph_for, listed_graphs
from clew.stores import RunRow


def double(a: int) -> int:
    return 2 * a


GRAPH = Graph([double])


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Loader:
    """Loads graphs by name, and notes which."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, name: str) -> Graph:
        self.loaded.append(name)
        return GRAPH


def write(folder: Path, graphs: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.clew]\ngraphs = {graphs}\n")


def test_what_the_caller_names_is_loaded(folder: Path) -> None:
    load = Loader()
    assert graph_for(RunRow("r", target="evil:make()"), "shop:graph", load=load) == (GRAPH, "shop:graph")
    assert load.loaded == ["shop:graph"]


def test_a_recorded_name_is_never_loaded(folder: Path) -> None:
    load = Loader()
    with pytest.raises(InputError) as caught:
        graph_for(RunRow("r", target="os:system('true')"), load=load)
    assert "--graph" in str(caught.value)
    assert load.loaded == []


def test_a_recorded_name_that_the_project_lists_is_loaded(folder: Path) -> None:
    write(folder, '["shop:graph", "shop:make(\'staging\')"]')
    load = Loader()
    assert graph_for(RunRow("r", target="shop:make('staging')"), load=load)[1] == "shop:make('staging')"
    assert load.loaded == ["shop:make('staging')"]
    with pytest.raises(InputError):
        graph_for(RunRow("r", target="shop:make('production')"), load=load)


def test_a_run_without_a_name_is_matched_by_its_structure(folder: Path) -> None:
    write(folder, '["shop:graph"]')
    assert graph_for(RunRow("r", structure=GRAPH.structure_hash), load=Loader())[1] == "shop:graph"
    with pytest.raises(InputError):
        graph_for(RunRow("r", structure="other"), load=Loader())
    with pytest.raises(InputError):
        graph_for(RunRow("r"), load=Loader())


def test_only_the_working_directory_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, '["shop:graph"]')
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder / "inner")
    assert listed_graphs() == ()


@pytest.mark.parametrize("graphs", ['"shop:graph"', "[1]", "{}", "3"])
def test_a_list_that_is_not_one_is_an_error(folder: Path, graphs: str) -> None:
    write(folder, graphs)
    with pytest.raises(DefinitionError):
        listed_graphs()


@pytest.mark.parametrize("text", ["", "tool = 1", "[tool]\nclew = 1", "[project]\nname='x'"])
def test_a_project_without_a_list_lists_nothing(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)
    try:
        assert listed_graphs() == ()
    except DefinitionError:
        assert "clew = 1" in text


def test_a_project_that_cannot_be_read_is_an_error(folder: Path) -> None:
    (folder / "pyproject.toml").write_bytes(b"\xff = [")
    with pytest.raises(DefinitionError):
        listed_graphs()
