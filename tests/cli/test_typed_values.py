"""Values of classes on the command line, and hints that can be copied into a shell and work."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.command import Folder

SHOP = """
from dataclasses import dataclass

from clew import Graph, interrupt, node


@dataclass
class Order:
    title: str


@node(output="size")
def measure(order: Order):
    return len(order.title)


@interrupt(output="order")
def choose(x: int) -> str:
    return "which order?"


@node(output="size")
def at_once(order: Order, twice: bool = False):
    return len(order.title)


graph = Graph([choose, measure])
direct = Graph([at_once])
"""
ORDER = '{"$object": ["shop:Order", {"title": "%s"}]}'
WRONG = '{"$object": ["shop:Basket", {}]}'


@pytest.fixture
def shop(folder: Folder) -> Folder:
    (folder.path / "shop.py").write_text(SHOP)
    return folder


def listed(folder: Folder) -> None:
    (folder.path / "pyproject.toml").write_text('[tool.clew]\ngraphs = ["shop:graph", "shop:direct"]\n')


@pytest.mark.parametrize("is_listed", [False, True])
def test_values_of_classes_are_read_when_the_graph_is_loaded(shop: Folder, is_listed: bool) -> None:
    graph = [] if is_listed else ["--graph", "shop:direct"]
    if is_listed:
        listed(shop)
    shop.clew("run", "shop:direct", "order=" + ORDER % "abc", "--run-id", "r")
    assert shop.json("fork", "r", "--step", "0", "order=" + ORDER % "abcd", *graph)["values"]["size"] == 4
    assert shop.json("rerun", "r", "order=" + ORDER % "abcde", *graph)["values"]["size"] == 5
    (shop.path / "values.json").write_text('{"order": %s}' % (ORDER % "abcdef"))
    assert shop.json("rerun", "r", "--values", "values.json", *graph)["values"]["size"] == 6


@pytest.mark.parametrize("is_listed", [False, True])
def test_answers_of_classes_are_read_when_the_graph_is_loaded(shop: Folder, is_listed: bool) -> None:
    graph = [] if is_listed else ["--graph", "shop:graph"]
    if is_listed:
        listed(shop)
    shop.clew("run", "shop:graph", "x=1", "--run-id", "r")
    assert shop.json("resume", "r", "--answer", ORDER % "abc", *graph)["values"]["size"] == 3
    shop.clew("run", "shop:graph", "x=1", "--run-id", "s")
    (shop.path / "answers.json").write_text('{"choose#0": %s}' % (ORDER % "abcd"))
    assert shop.json("resume", "s", "--answers", "answers.json", *graph)["values"]["size"] == 4


def test_wrong_values_are_a_wrong_command(shop: Folder) -> None:
    shop.clew("run", "shop:graph", "x=1", "--run-id", "r")
    for words in (
        ["run", "shop:direct", "order=" + WRONG],
        ["fork", "r", "--graph", "shop:graph", "order=" + WRONG],
        ["rerun", "r", "--graph", "shop:graph", "x=" + WRONG],
        ["resume", "r", "--graph", "shop:graph", "--answer", WRONG],
    ):
        assert "shop:Basket" in shop.clew(*words, code=2).stderr
    assert [row["status"] for row in shop.json("runs")] == ["waiting"]


def suggested(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if "clew resume" in line)
    return shlex.split(line[line.index("clew resume") + 5 :])


@pytest.mark.parametrize("store", [[], ["--store", "my runs.db"]])
def test_the_suggested_answer_works(shop: Folder, store: list[str]) -> None:
    words = suggested(shop.clew("run", "shop:graph", "x=1", "--run-id", "r", *store).stdout)
    assert "--graph" in words
    words[words.index("JSON")] = ORDER % "abc"
    assert shop.json(*words)["values"]["size"] == 3


def test_the_suggested_answer_of_a_listed_graph_is_short(shop: Folder) -> None:
    listed(shop)
    assert suggested(shop.clew("run", "shop:graph", "x=1", "--run-id", "r").stdout) == [
        "resume",
        "r",
        "--answer",
        "JSON",
    ]


def test_a_suggested_fork_names_the_graph_too(shop: Folder) -> None:
    shop.clew("run", "shop:graph", "x=1", "--run-id", "r")
    forked = shop.clew("fork", "r", "--graph", "shop:graph", "--run-id", "f").stdout
    words = suggested(forked)
    words[words.index("JSON")] = ORDER % "abc"
    assert shop.json(*words)["values"]["size"] == 3


def test_a_run_that_is_there_is_imported_into_another_store(shop: Folder) -> None:
    shop.clew("run", "shop:graph", "x=1", "--run-id", "r")
    shop.clew("export", "r", "-o", "r.json")
    error = shop.clew("import", "r.json", code=2).stderr
    assert "--run-id" not in error
    assert "--store" in error
    shop.clew("import", "r.json", "--store", "other.db")


def test_instances_are_printed_with_their_fields(shop: Folder) -> None:
    order = "order=" + ORDER % "abc"
    assert 'Order(title="abc")' in shop.clew("run", "shop:direct", order, "--run-id", "r").stdout
    again = ("resume", "r", "--graph", "shop:direct")
    assert 'Order(title="abc")' in shop.clew(*again).stdout
    assert shop.json(*again)["values"]["order"] == {"$object": ["shop:Order", {"title": "abc"}]}
    assert 'order=Order(title="abc")' in shop.clew("show", "r").stdout
    assert 'Order(title="abc")' in shop.clew("show", "r", "--step", "1").stdout


def test_a_long_error_is_one_short_row(shop: Folder) -> None:
    (shop.path / "broken.py").write_text(
        "from clew import Graph\n"
        "def read(x):\n    raise ValueError('no ' * 2000 + '\\nmore')\n"
        "graph = Graph([read])\n"
    )
    shop.clew("run", "broken:graph", "x=1", "--run-id", "r", code=1)
    (row,) = [line for line in shop.clew("runs").stdout.splitlines() if line.startswith("r ")]
    assert "ValueError: no no" in row
    assert len(row) < 260
    assert len(shop.json("runs")[0]["error"]["message"]) > 5000
