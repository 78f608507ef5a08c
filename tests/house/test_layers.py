"""Imports in ``src`` only point to a lower layer, and siblings on one level do not know each other.

Every import statement counts: at the top of a module, inside a function, under ``TYPE_CHECKING``.
``clew`` itself (the public names) stands above the layers that it re-exports, and below the parts that are
written against the public names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

# Lowest first. A new module or package of clew gets its place here.
LEVELS = (
    {"errors", "error_text"},
    {"state"},
    {"graph", "stores"},
    {"engine", "incremental"},
    {"runtime"},
    {"explore", "observe"},
    {"clew"},
    {"clew_nl2sql"},
    {"cli", "web", "demo_durable"},
    {"testing", "pytest_plugin", "demo", "__main__"},
)
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}

# The one exception: a graph runs itself, also when it is called as a node of another (what as_node makes), so
# these functions import the runtime when they are called.
EXCEPTIONS = {("clew/graph/graph.py", function, "runtime") for function in ("run", "arun", "as_node")}


def part_of(module: str) -> str | None:
    """The part of the map that a module is in: ``clew.state.codec`` is in ``state``; None if not ours."""
    top, *rest = module.split(".")
    if top == "clew":
        return rest[0] if rest else "clew"
    return top if top in LEVEL else None


def imported(statement: ast.stmt, package: str) -> Iterator[str]:
    """The modules that an import statement names, relative ones resolved against their package."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        parents = package.split(".")[: -(statement.level - 1) or None] if statement.level else []
        module = ".".join([*parents, *filter(None, [statement.module])])
        # `from clew import errors` names a module, `from clew import Graph` a public name.
        yield from (
            f"clew.{a.name}" if module == "clew" and a.name in LEVEL else module for a in statement.names
        )


def imports(
    tree: ast.AST, package: str, functions: tuple[str, ...] = ()
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Line, imported module, and the functions around it, for every import below a node of the tree."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from ((child.lineno, module, functions) for module in imported(child, package))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(child, package, (*functions, child.name))
        else:
            yield from imports(child, package, functions)


def violations(src: Path) -> Iterator[str]:
    for file in sorted([*src.glob("clew/**/*.py"), *src.glob("clew_nl2sql/**/*.py")]):
        name = file.relative_to(src).as_posix()
        package = ".".join(file.relative_to(src).parent.parts)
        own = part_of(package if file.name == "__init__.py" else f"{package}.{file.stem}")
        if own not in LEVEL:
            yield f"{name}: {own} has no place in LEVELS"
            continue
        for line, module, functions in imports(ast.parse(file.read_text("utf-8")), package):
            other = part_of(module)
            if other is None or other == own or any((name, f, other) in EXCEPTIONS for f in functions):
                continue
            if LEVEL.get(other, len(LEVELS)) >= LEVEL[own]:
                yield f"{name}:{line}: {own} may not import {module}"


def test_imports_point_to_lower_layers() -> None:
    assert list(violations(SRC)) == []


def test_the_application_uses_public_names_only() -> None:
    deep = [
        f"{file.relative_to(SRC)}:{line}: {module}"
        for file in sorted(SRC.glob("clew_nl2sql/**/*.py"))
        for line, module, _ in imports(
            ast.parse(file.read_text("utf-8")), ".".join(file.relative_to(SRC).parent.parts)
        )
        if module.startswith("clew.") and module.count(".") > 1
    ]
    assert deep == []


@pytest.mark.parametrize(
    "file, source, found",
    [
        ("clew/state/a.py", "import clew.graph", 1),
        ("clew/state/a.py", "from clew import Graph", 1),
        ("clew/state/a.py", "from ..graph import node", 1),
        ("clew/state/a.py", "from .codec import encode\nfrom clew import errors\nimport json", 0),
        ("clew/graph/a.py", "from clew.stores import MemoryStore", 1),
        ("clew/engine/a.py", "def f():\n    from clew.runtime import Engine", 1),
        ("clew/engine/a.py", "if TYPE_CHECKING:\n    from clew.runtime import Engine", 1),
        (
            "clew/graph/graph.py",
            "class Graph:\n    def run(self):\n        from clew.runtime import Engine",
            0,
        ),
        (
            "clew/graph/graph.py",
            "class Graph:\n    def draw(self):\n        from clew.runtime import Engine",
            1,
        ),
        ("clew/cli/a.py", "from clew import Graph\nfrom clew.runtime import Engine\nimport clew_nl2sql", 0),
        ("clew/attic.py", "", 1),
    ],
)
def test_the_check_sees(tmp_path: Path, file: str, source: str, found: int) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(source)
    assert len(list(violations(tmp_path))) == found
