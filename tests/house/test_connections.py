"""Tests close their connections: Python 3.13 blames whichever test is running when one is collected."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.stores import PostgresStore
from tests.connections import stores_left_open

ROOT = Path(__file__).parents[2]


def unclosed(source: str) -> Iterator[int]:
    """Yield the lines of functions that open a connection in a `with`, which only commits, and do not close it."""
    if "sqlite3.connect(" not in source:
        return  # as in most modules, and parsing takes long
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for block in ast.walk(function):
            for item in block.items if isinstance(block, ast.With) else ():
                if ast.unparse(item.context_expr).startswith("sqlite3.connect("):
                    name = "" if item.optional_vars is None else ast.unparse(item.optional_vars)
                    if not name or f"{name}.close()" not in ast.unparse(function):
                        yield item.context_expr.lineno


def test_the_rule_finds_a_connection() -> None:
    assert list(unclosed("def f():\n  with sqlite3.connect(path) as db:\n    pass")) == [2]
    assert not list(unclosed("def f():\n  with sqlite3.connect(path) as db:\n    pass\n  db.close()"))


@pytest.mark.parametrize("folder", ["tests", "nl2sql/tests"])
def test_connections_are_closed(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in unclosed(path.read_text())
    ]
    assert not found


def test_a_store_that_a_test_leaves_open_is_found(open_postgres: Callable[[], PostgresStore]) -> None:
    kept = {"store": open_postgres()}
    assert len(stores_left_open()) == 1  # as after each test; this closes it
    assert not stores_left_open()
    kept["store"].close()
