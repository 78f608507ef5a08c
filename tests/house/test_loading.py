"""What is loaded when: defining graphs does not load what runs them, and every public name can be had."""

from __future__ import annotations

import subprocess
import sys

import clew

PROGRAM = """
import sys, clew
def double(x): return 2 * x
graph = clew.Graph([clew.node(output="y")(double)])
print(*sorted(name for name in sys.modules if name.startswith(("clew.", "asyncio", "sqlite3", "concurrent"))))
"""


def test_defining_a_graph_loads_neither_engine_nor_stores_nor_asyncio() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    parts = {".".join(name.split(".")[:2]) for name in done.stdout.split()}
    assert parts == {"clew.errors", "clew.graph", "clew.graph_warnings", "clew.module_names", "clew.state"}


def test_every_public_name_can_be_had_and_is_listed() -> None:
    for name in clew.__all__:
        assert getattr(clew, name) is not None
        assert name in dir(clew)


def test_parts_can_be_had_from_the_package() -> None:
    program = "import clew; print(clew.explore.check_graph.__name__, clew.testing.VirtualClock.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["check_graph", "VirtualClock"]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(clew, "Enginee")
