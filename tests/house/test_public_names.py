"""The public API is exactly what is declared here: a name comes or goes by an edit of this list."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import clew

ROOT = Path(__file__).resolve().parents[2]

# Edit here, and in CHANGELOG.md, when the public API changes.
PUBLIC = {
    # errors: the root; the rest is in clew.errors
    "ClewError",
    # state
    "GraphState",
    "NodeExecution",
    "Overwrite",
    "StoredObject",
    "append",
    "merge",
    "register_type",
    "result_of",
    # graph
    "Command",
    "Context",
    "END",
    "Graph",
    "Node",
    "NodePolicy",
    "RetryPolicy",
    "Send",
    "SideEffectPolicy",
    "all_of",
    "ifelse",
    "interrupt",
    "node",
    "route",
    # runs
    "Cache",
    "Checkpoint",
    "Engine",
    "Event",
    "MemoryStore",
    "PostgresStore",
    "ReplayReport",
    "RunHandle",
    "RunResult",
    "SQLiteStore",
    "SchedulerMetrics",
    "SchedulerState",
    "Worker",
    # dependency graphs
    "DependencyGraph",
    "Unchanged",
    "schema",
}

PACKAGES = sorted(
    ".".join(file.parent.relative_to(ROOT / "src").parts)
    for file in (ROOT / "src").glob("clew/*/**/__init__.py")
    if not any(part.startswith("_") for part in file.parent.relative_to(ROOT / "src").parts)
)


def test_all_is_the_declared_list_in_sorted_order() -> None:
    assert list(clew.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_name_is_importable(name: str) -> None:
    assert getattr(clew, name) is not None


def test_nothing_else_is_visible() -> None:
    submodules = {module.name for module in pkgutil.iter_modules(clew.__path__)}
    # pytest rewrites the asserts of a package that brings a plugin, and leaves names with @ behind
    visible = {name for name in dir(clew) if not name.startswith(("_", "@"))}
    visible.discard("annotations")  # left behind by the import from __future__
    assert visible - submodules - PUBLIC == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_package_declares_its_names(package: str) -> None:
    module = importlib.import_module(package)
    has_only_docstring = len(ast.parse(Path(str(module.__file__)).read_text("utf-8")).body) == 1
    assert has_only_docstring or hasattr(module, "__all__"), f"{package} has no __all__"
    assert [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)] == []


def test_every_class_has_its_own_name() -> None:
    """Two classes of one name confuse readers. Specifications name `GraphState` and `Checkpoint` twice."""
    names: dict[str, list[str]] = {}
    for package in (ROOT / "src", ROOT / "nl2sql" / "src"):
        for file in sorted(package.rglob("*.py")):
            for part in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(part, ast.ClassDef):
                    names.setdefault(part.name, []).append(file.relative_to(ROOT).as_posix())
    twice = {name: files for name, files in names.items() if len(files) > 1}
    assert set(twice) == {"GraphState", "Checkpoint"}, twice
