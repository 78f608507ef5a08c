"""``clew show`` after a wide fan-out counts items, so that values stay visible; ``--json`` keeps everything."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, TypedDict

import pytest

from clew import Engine, Graph, Send, node, route
from clew.cli.commands.show import items_text
from tests.cli.command import Folder


class Found(TypedDict, total=False):
    found: Annotated[list[int], operator.add]
    total: int


@route(targets=["work"])
def fan(count: int = 300) -> list[Send]:
    return [Send("work", {"i": i}) for i in range(count)]


@node(output="found")
def work(i: int) -> list[int]:
    return [i]


@node(output="total")
def add(found: list[int]) -> int:
    return sum(found)


def fanned_out(folder: Path) -> None:
    with Engine(Graph([fan, work, add], state=Found), store=str(folder / "clew.db")) as engine:
        engine.run({}, run_id="r")


def test_values_stay_visible(folder: Folder) -> None:
    fanned_out(folder.path)
    code, shown = folder.in_terminal("show", "r")
    assert code == 0
    lines = shown.splitlines()
    (line,) = [line for line in lines if "work#0" in line]
    assert "×300" in line
    assert "found=[0, 1" in line
    (line,) = [line for line in lines if "add#0" in line]
    assert line.rstrip().endswith("total=44850")


def test_a_step_counts_its_items_and_the_next_ones(folder: Folder) -> None:
    fanned_out(folder.path)
    assert "next: work#0 ×300\n" in folder.clew("show", "r", "--step", "1").stdout
    assert "items: work#0 ×300\n" in folder.clew("show", "r", "--step", "2").stdout


def test_json_keeps_every_item(folder: Folder) -> None:
    fanned_out(folder.path)
    items = folder.json("show", "r")["checkpoints"][2]["clew"]["items"]
    assert items == [f"work#0[{i}]" for i in range(300)]


@pytest.mark.parametrize(
    "items, text",
    [
        ([], ""),
        (["a#0", "b#0"], "a#0 b#0"),
        (["a#0[0]", "a#0[1]", "a#0[2]"], "a#0[0] a#0[1] a#0[2]"),
        (["a#0[0]", "a#0[1]", "a#0[2]", "a#0[3]", "b#0"], "a#0 ×4 b#0"),
        (["sub#0[1]/a#0[0]", "sub#0[1]/a#0[1]"], "sub#0[1]/a#0[0] sub#0[1]/a#0[1]"),
        ([f"node_{i}#0" for i in range(9)], "node_0#0 node_1#0 node_2#0 node_3#0 (and 5 more)"),
        (["x" * 90 + "#0", "b#0"], "x" * 90 + "#0 (and 1 more)"),
    ],
)
def test_items_are_short(items: list[str], text: str) -> None:
    assert items_text(items) == text


def test_a_run_at_work_is_not_called_lost(folder: Folder) -> None:
    """The other case is in tests/foreign: a killed process."""
    told: list[str] = []

    @node(output="b")
    def look(a: int) -> int:
        told.extend(folder.clew(*words).stdout for words in (("runs",), ("show", "r")))
        return a

    with Engine(Graph([look]), store=str(folder.path / "clew.db")) as engine:
        engine.run({"a": 1}, run_id="r")
    assert all("running" in text and "is gone" not in text for text in told)
    assert len(told) == 2
