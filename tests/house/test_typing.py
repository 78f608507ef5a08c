"""Programs that work also pass a strict type checker, and those that do not fail there too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import clew

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from dataclasses import dataclass
from typing import TypedDict

import msgspec
from pydantic import BaseModel

from clew import END, Context, Engine, Graph, GraphState, ifelse, interrupt, node, route
from clew.testing import Stepper, run_in_order, random_order


class Dict(TypedDict):
    x: int


@dataclass
class Data:
    x: int


class Model(BaseModel):
    x: int


class Struct(msgspec.Struct):
    x: int


@node(output="y")
def plus(x: int, ctx: Context) -> int:
    return x + 1


@node
async def later(x: int) -> int:
    return x


@route(targets=["plus", END])
def gate(y: int) -> str:
    return "plus"


@ifelse(when_true="plus", when_false=END)
def small(y: int) -> bool:
    return y < 3


@interrupt
def asked(y: int) -> str:
    return "?"


@interrupt(output="ok")
def approved(y: int) -> str:
    return "?"


graph = Graph([plus], state=Data)
engine = Engine(graph)
mapping: Dict = {"x": 1}
for given in (mapping, {"x": 1}, Data(1), GraphState({"x": 1})):
    engine.run(given)
engine.run(mapping)
engine.run(Data(1), run_id="a")
engine.run(Model(x=1))
engine.run(Struct(x=1))
engine.run(GraphState({"x": 1}))
engine.stream(Data(1))
graph.run(Struct(x=1))
graph.run(x=1)
Stepper(graph, Data(1))
run_in_order(graph, Model(x=1), choose=random_order(1))
approved.func(1).upper()
asked.func(1).upper()
later.func(1).close()
plus(1, "no context")  # wrong: arg-type
engine.run(5)  # wrong: arg-type
engine.run("x")  # wrong: arg-type
engine.run([("x", 1)])  # wrong: arg-type
route(5)  # wrong: call-overload
"""


@pytest.mark.parametrize("package", ["src/clew", "nl2sql/src/clew_nl2sql"])
def test_the_packages_say_that_they_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_what_works_is_well_typed_and_what_does_not_is_not(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--no-incremental",
        "program.py",
    ]
    path = os.pathsep.join([str(Path(clew.__file__).parents[1])])
    found = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    told = {
        int(line): code for line, code in re.findall(r"program.py:(\d+): error: .*\[(.+)\]", found.stdout)
    }
    lines = enumerate(PROGRAM.splitlines(), 1)
    meant = {n: code for n, line in lines for code in re.findall(r"# wrong: (.+)", line)}
    assert told == meant, found.stdout + found.stderr
