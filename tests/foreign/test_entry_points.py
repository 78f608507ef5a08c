"""A shop that starts as a script and is continued by the command line, as a module, or by another script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FLOW = """
import sys
from dataclasses import dataclass

from clew import Context, Engine, Graph, interrupt, node


class OutOfStock(Exception):
    def __init__(self, item):
        super().__init__(item)
        self.item = item


@dataclass
class Order:
    item: str


def reserve(item):
    raise OutOfStock(item)


@node(output="order")
def read(text: str) -> Order:
    return Order(text)


@node(output="left")
def check(order: Order, ctx: Context):
    try:
        ctx.record("reserve", reserve, order.item)
    except OutOfStock as error:
        ctx.interrupt(f"No {error.item}. Wait?")
        return error.item


@node(output="receipt")
def buy(order: Order, left: str):
    return f"{type(order) is Order} {order.item} {left}"


graph = Graph([read, check, buy], name="shop")


def main():
    verb, run_id = sys.argv[1:]
    with Engine(graph, store="runs.db") as engine:
        if verb == "run":
            print(engine.run({"text": "tea"}, run_id=run_id).questions[0].question)
        else:
            print(engine.resume(run_id, answer=True)["receipt"])


if __name__ == "__main__":
    main()
"""

# How to start the program, in a folder with shop.py, other.py, and the package app.
ENTRIES = {
    "script": ("shop.py",),
    "module": ("-m", "shop"),
    "imported": ("other.py",),
}
PACKAGE = {"package": ("-m", "app"), "imported": ("app_script.py",)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(FLOW)
    (tmp_path / "other.py").write_text("import shop\n\nshop.main()\n")
    (tmp_path / "app").mkdir()
    (tmp_path / "app/__init__.py").write_text("")
    (tmp_path / "app/__main__.py").write_text(FLOW)
    (tmp_path / "app_script.py").write_text("from app.__main__ import main\n\nmain()\n")
    return tmp_path


def python(folder: Path, *arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "first, second",
    [
        *(
            (ENTRIES[a], ENTRIES[b])
            for a, b in (("script", "imported"), ("imported", "script"), ("module", "script"))
        ),
        *((PACKAGE[a], PACKAGE[b]) for a, b in (("package", "imported"), ("imported", "package"))),
    ],
    ids=lambda entry: " ".join(entry),
)
def test_every_entry_point_continues_the_run(
    folder: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    assert python(folder, *first, "run", "r").strip() == "No tea. Wait?"
    assert python(folder, *second, "resume", "r").strip() == "True tea tea"


def test_the_command_line_continues_the_run(folder: Path) -> None:
    python(folder, "shop.py", "run", "r")
    clew = (
        "-m",
        "clew",
        "resume",
        "r",
        "--store",
        "runs.db",
        "--graph",
        "shop:graph",
        "--answer",
        "true",
    )
    assert "True tea tea" in python(folder, *clew)
