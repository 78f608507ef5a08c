"""Programs that work also pass type checkers, and those that do not fail there too (``typed_uses.py``)."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import clew
import clew.explore
import clew.testing
import clew_nl2sql
from clew.graph.node import make_node
from clew.graph.node_options import OPTIONS, NodeOptions
from clew.runtime.settings import EngineOptions, ScheduleOptions, Settings
from tests.house.test_speech import repository_files

ROOT = Path(__file__).resolve().parents[2]
USES = Path(__file__).with_name("typed_uses.py")
SOURCES = [str(Path(package.__file__ or "").parents[1]) for package in (clew, clew_nl2sql)]


@pytest.mark.parametrize("package", ["src/clew", "nl2sql/src/clew_nl2sql"])
def test_the_packages_say_that_they_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def expected(checker: str) -> dict[int, set[str]]:
    """What the marks of the file say that a checker reports, by line."""
    found = {}
    for number, line in enumerate(USES.read_text("utf-8").splitlines(), 1):
        mark = re.search(rf"# .*\b{checker}: ([\w, -]+)", line)
        if mark:
            found[number] = set(mark[1].split(", "))
    return found


def test_mypy_reports_the_wrong_lines_and_no_others(tmp_path: Path) -> None:
    cache = ROOT / ".mypy_cache" / "typed_uses"  # beside that of `make lint`, which has other options
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache)]
    env = {**os.environ, "MYPYPATH": os.pathsep.join(SOURCES)}
    done = subprocess.run(
        [*command, str(USES)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    told: dict[int, set[str]] = defaultdict(set)
    for line, code in re.findall(r"typed_uses\.py:(\d+): error: .*\[(.+)\]", done.stdout):
        told[int(line)].add(code)
    assert told == expected("mypy"), done.stdout + done.stderr


def test_pyright_reports_the_wrong_lines_and_no_others(tmp_path: Path) -> None:
    settings = {
        "typeCheckingMode": "standard",  # as pyright checks by default
        "pythonVersion": "3.11",
        "include": [str(USES)],
        "extraPaths": SOURCES,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    checker = Path(sys.executable).with_name("basedpyright")
    if not checker.exists():
        pytest.skip("basedpyright is not installed beside this Python")
    done = subprocess.run(
        [str(checker), "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
    )
    told: dict[int, set[str]] = defaultdict(set)
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            told[each["range"]["start"]["line"] + 1].add(each.get("rule", each["message"]))
    assert told == expected("pyright"), done.stdout


def test_only_files_that_are_checked_silence_the_checker() -> None:
    """mypy reads the two packages alone. Elsewhere a silenced line would silence nothing."""
    mark = "# type: " + "ignore"
    names = [str(file.relative_to(ROOT)) for file in repository_files() if file.suffix == ".py"]
    unchecked = [name for name in names if not name.startswith(("src/", "nl2sql/src/"))]
    assert [name for name in unchecked if mark in (ROOT / name).read_text("utf-8")] == []


def test_the_typed_options_are_the_options() -> None:
    typed = {name for options in (EngineOptions, ScheduleOptions) for name in options.__annotations__}
    assert typed == set(Settings.__struct_fields__)
    assert set(OPTIONS) == NodeOptions.__optional_keys__
    assert set(OPTIONS) < inspect.signature(make_node).parameters.keys()


VALUES = {"Graph.bind", "Graph.run", "Graph.arun", "Node.__call__"}
"""These take names that only the user's program knows."""


def public_functions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for package in (clew, clew.explore, clew.testing, clew_nl2sql):
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isclass(thing):
                for own, method in vars(thing).items():
                    if inspect.isfunction(method) and (own in ("__init__", "__call__") or own[0] != "_"):
                        found[f"{name}.{own}"] = method
            elif inspect.isfunction(thing):
                found[name] = thing
    return found


def test_no_public_function_hides_its_options() -> None:
    hidden = {
        name
        for name, function in public_functions().items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD and parameter.annotation == "Any"
    }
    assert hidden == VALUES
