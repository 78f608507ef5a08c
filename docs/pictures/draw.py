"""Draw the pictures of the galleries: the graph of each recipe and of each pattern.

``make pictures`` writes ``docs/pictures/recipes`` and ``docs/pictures/patterns``; a test compares them with the code.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from clew import DependencyGraph
from clew.drawing.svg import svg
from clew.explore.reports.state_picture import state_picture

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
RECIPES = {  # recipe: module and name of what to draw
    "agent": ("shopping", "graph"),
    "chat": ("chat", "graph"),
    "check": ("shop", "graph"),
    "documents": ("library", "graph"),
    "explore": ("explore_shop", "agent"),
    "files": ("load", "graph"),
    "models": ("ask", "graph"),
    "service": ("service", "graph"),
    "starter": ("flow", "graph"),
    "testing": ("orders", "orders"),
    "values": ("report", "graph"),
    "workers": ("orders", "graph"),
}


def recipe_picture(name: str) -> str:
    """Return the SVG of a recipe: its graph, its dependency graph, or the states that an exploration finds."""
    module, attribute = RECIPES[name]
    with _loaded(ROOT / "examples/recipes" / name, module) as loaded:
        return _drawn(getattr(loaded, attribute))


def pattern_picture(file: Path) -> str:
    """Return the SVG of a pattern."""
    with _loaded(file.parent, file.stem) as loaded:
        return _drawn(loaded.graph)


def patterns() -> list[Path]:
    """Return the files of the patterns that have something to draw."""
    found = sorted((ROOT / "examples/patterns").glob("*.py"))
    return [file for file in found if "\ngraph = " in file.read_text("utf-8")]


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield every picture and where it belongs."""
    for name in RECIPES:
        yield PICTURES / "recipes" / f"{name}.svg", recipe_picture(name)
    for file in patterns():
        yield PICTURES / "patterns" / f"{file.stem}.svg", pattern_picture(file)


def _drawn(thing: Any) -> str:
    if isinstance(thing, list):
        with DependencyGraph(thing) as values:
            return values.draw("svg")
    if callable(thing):
        thing = thing()
    if hasattr(thing, "explore"):
        drawing = svg(state_picture(thing.explore()).picture)
        for system in thing.world.systems.values():
            system.close()
        return drawing
    return str(thing.draw("svg"))


@contextmanager
def _loaded(folder: Path, name: str) -> Iterator[ModuleType]:
    """Import a module of a folder, in an empty working directory; forget what it imported from there."""
    other, known, before = sys.modules.pop(name, None), set(sys.modules), Path.cwd()
    sys.path.insert(0, str(folder))
    os.environ.setdefault("OPENAI_API_KEY", "not used")
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        try:
            yield importlib.import_module(name)
        finally:
            os.chdir(before)
            sys.path.remove(str(folder))
            for module in set(sys.modules) - known:
                file = getattr(sys.modules[module], "__file__", None)
                if file and Path(file).is_relative_to(folder):
                    del sys.modules[module]
            if other is not None:  # of a program that uses this one
                sys.modules[name] = other


def main() -> None:
    """Write all pictures."""
    for file, drawing in pictures():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawing, "utf-8")
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
