"""Imports only point to a lower layer, and units on one layer do not import each other.

A unit is a folder, or a module directly inside a folder that has subfolders. Every import statement counts: at the top
of a module, inside a function, under ``TYPE_CHECKING``. A name that is imported from a package counts as an import of
the module that defines it. ``__init__`` files only re-export, and do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "nl2sql/src")
COMMAND = "clew_nl2sql.command"  # a part of the command line, in another distribution

# Lowest first. A new module or package of clew gets its place here.
LAYERS = """
module_names loggers held_interrupts
errors error_text
graph_warnings error_links
state
display json_schema
live
graph stores/protocol stores/timer stores/lease_clock stores/encoded_codes
drawing stores/messages stores/inherited_docs
stores/kv stores/sql_rows
stores/results stores/queue
stores/pages
stores/memory stores/sqlite stores/postgres stores/conformance
stores/factory
engine incremental
runtime/process runtime/reporting runtime/loader runtime/run_ids
runtime/settings
runtime/log
runtime/result runtime/calls runtime/project runtime/ownership runtime/run_pages runtime/children/inner_graphs
runtime/remote
runtime/drivers runtime/review runtime/executors
runtime/opener runtime/children/deep_children
runtime/derived_runs
runtime/children/inside runtime/updates runtime/children/ended_children runtime/messages
runtime/inspection
runtime/late_answers runtime/children/child_runs runtime/review/replays
runtime/execution runtime/turns/threads runtime/turns/turn_lines
runtime/turns/turn_calls
runtime/handles runtime/submission runtime/stored_runs
runtime/engine runtime/workers
runtime/graph_runs
runtime/review/regression
observe explore/spill explore/process_mark explore/progress
explore/model
explore/search explore/reports
explore/systems/version_tokens explore/systems/interrupts explore/systems/tables
explore/systems/delta_tree explore/systems/replay
explore/systems/files explore/systems/http explore/systems/memory explore/systems/redis explore/systems/sqlite \
explore/systems/postgres
explore/agent
explore/checking explore/api
views
clew
web
cli/output cli/declarations
cli/plugins
cli/values cli/options cli/observing cli/recipes
cli/run_output cli/selection cli/kept_checks
cli/commands
cli/app
cli
__main__ testing pytest_plugin clew_nl2sql/errors clew_nl2sql/planner/catalog clew_nl2sql/planner/plan \
clew_nl2sql/planner/linear_model clew_nl2sql/planner/words
clew_nl2sql/timezones clew_nl2sql/planner/catalog_cache clew_nl2sql/planner/query
clew_nl2sql/planner/linking
clew_nl2sql/planner/deciding
clew_nl2sql/planner/building
clew_nl2sql/planner/ranking
clew_nl2sql/planner/judging
clew_nl2sql/planner/asking
clew_nl2sql/planner
clew_nl2sql
clew_nl2sql/command
"""
LEVEL = {unit: level for level, line in enumerate(LAYERS.split("\n")) for unit in line.split()}

# Methods of a facade that import upwards when they are called: a graph runs itself and draws itself. The types of
# these methods are imported for type checkers alone.
EXCEPTIONS = {
    ("clew.graph.graph", function, unit)
    for function, unit in (
        ("run", "runtime/graph_runs"),
        ("arun", "runtime/graph_runs"),
        ("as_node", "runtime/engine"),
        ("draw", "drawing"),
        ("TYPE_CHECKING", "runtime/result"),
        ("TYPE_CHECKING", "runtime/settings"),
    )
} | {("clew.state.graph_state", function, "display") for function in ("__repr__", "_repr_html_")}
EXCEPTIONS.add(("clew.graph.context", "TYPE_CHECKING", "runtime/result"))  # what `ctx.run` returns


class Tree:
    """The modules below some folders, and what each package re-exports."""

    def __init__(self, *sources: Path) -> None:
        self.files: dict[str, Path] = {}
        self.exports: dict[str, dict[str, str]] = {}
        found = [(src, file) for src in sources for file in sorted(src.rglob("*.py"))]
        for src, file in found:
            name = ".".join(file.relative_to(src).with_suffix("").parts)
            if file.name != "__init__.py":
                self.files[name] = file
                continue
            package = name.removesuffix(".__init__")
            self.exports[package] = {
                alias.asname or alias.name: statement.module
                for statement in ast.walk(ast.parse(file.read_text("utf-8")))
                if isinstance(statement, ast.ImportFrom) and statement.module
                for alias in statement.names
            }

    def defining(self, module: str, name: str) -> str:
        """The module that ``from module import name`` takes the name from."""
        if f"{module}.{name}" in self.files or f"{module}.{name}" in self.exports:
            return f"{module}.{name}"
        if module != "clew" and name in self.exports.get(module, ()):
            return self.defining(self.exports[module][name], name)
        return module


def unit_of(module: str) -> str | None:
    """The unit that a module is in: ``clew.state.values.codec`` is in ``state``; None if it is not ours."""
    top, *rest = module.split(".")
    if top not in ("clew", "clew_nl2sql"):
        return None
    parts = [top, *rest] if top != "clew" or not rest else rest
    prefixes = ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in LEVEL), "/".join(parts))


def imports(
    tree: ast.AST, package: str, functions: tuple[str, ...] = ()
) -> Iterator[tuple[int, str, str, tuple[str, ...]]]:
    """Line, module, imported name, and the functions (or TYPE_CHECKING) around it, for every import below a node."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import):
            yield from ((child.lineno, alias.name, "", functions) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            parents = package.split(".")[: -(child.level - 1) or None] if child.level else []
            module = ".".join([*parents, *filter(None, [child.module])])
            yield from ((child.lineno, module, alias.name, functions) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(child, package, (*functions, child.name))
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name):
            yield from imports(child, package, (*functions, child.test.id))
        else:
            yield from imports(child, package, functions)


def violations(*sources: Path) -> Iterator[str]:
    tree = Tree(*sources)
    for module, file in tree.files.items():
        own = unit_of(module)
        if own not in LEVEL:
            yield f"{module}: {own} has no place in LAYERS"
            continue
        for line, source, name, functions in imports(
            ast.parse(file.read_text("utf-8")), module.rpartition(".")[0]
        ):
            other = unit_of(tree.defining(source, name) if name else source)
            if other is None or other == own or any((module, f, other) in EXCEPTIONS for f in functions):
                continue
            if LEVEL.get(other, len(LEVEL)) >= LEVEL[own]:
                yield f"{module}:{line}: {own} may not import {other}"


def test_imports_point_to_lower_layers() -> None:
    assert list(violations(*SOURCES)) == []


def test_the_application_uses_public_names_only() -> None:
    deep = [
        f"{own}:{line}: {module}"
        for own, file in Tree(ROOT / "nl2sql/src").files.items()
        for line, module, _, _ in imports(ast.parse(file.read_text("utf-8")), own.rpartition(".")[0])
        if module.startswith("clew.") and module.count(".") > 1
        if not (own == COMMAND and module.startswith("clew.cli."))
    ]
    assert deep == []


@pytest.mark.parametrize(
    "file, source, found",
    [
        ("clew/state/a.py", "import clew.graph", 1),
        ("clew/state/a.py", "from clew import Graph", 1),
        ("clew/state/a.py", "from ..graph import node", 1),
        ("clew/state/a.py", "from .codec import encode\nfrom clew.errors import ClewError\nimport json", 0),
        ("clew/graph/a.py", "from clew.stores.memory.store import MemoryStore", 1),
        ("clew/engine/a.py", "def f():\n    from clew.runtime.engine import Engine", 1),
        ("clew/engine/a.py", "if TYPE_CHECKING:\n    from clew.runtime.engine import Engine", 1),
        ("clew/runtime/log/a.py", "from clew.runtime.calls.recorder import Recorder", 1),
        ("clew/runtime/calls/a.py", "from clew.runtime.log.entries.records import KINDS", 0),
        ("clew/runtime/drivers/a.py", "from clew.runtime.review.replay import ReplayReport", 1),
        (
            "clew/graph/graph.py",
            "class Graph:\n    def run(self):\n        from clew.runtime.graph_runs import engine_of",
            0,
        ),
        (
            "clew/graph/graph.py",
            "class Graph:\n    def select(self):\n        from clew.runtime.engine import Engine",
            1,
        ),
        ("clew/cli/commands/a.py", "from clew import Graph\nfrom clew.cli.output import say", 0),
        ("clew/cli/commands/a.py", "import clew_nl2sql", 1),
        (
            "clew_nl2sql/command.py",
            "from clew.cli.output import say\nfrom clew_nl2sql.pipeline import Pipeline",
            0,
        ),
        ("clew_nl2sql/pipeline.py", "from clew_nl2sql.command import ask", 1),
        ("clew_nl2sql/planner/words/a.py", "from clew_nl2sql.planner.linking.joins import b", 1),
        ("clew_nl2sql/planner/linking/a.py", "from clew_nl2sql.planner.words.tokens import b", 0),
        ("clew/cellar.py", "", 1),
    ],
)
def test_the_check_sees(tmp_path: Path, file: str, source: str, found: int) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(source)
    assert len(list(violations(tmp_path))) == found
