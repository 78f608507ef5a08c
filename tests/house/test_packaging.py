"""What is installed: one package, the core dependencies, and metadata that is true."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import immutables
import msgspec
import pytest

from tests.posix import needs_posix

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NL2SQL: dict[str, Any] = tomllib.loads((ROOT / "nl2sql/pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of Clew."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    if importlib.util.find_spec("hatchling") is not None:
        command.append("--no-build-isolation")
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"the wheel cannot be built here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_one_package_and_the_core_dependencies(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        info = f"clew-{PROJECT['version']}.dist-info"
        metadata = Parser().parsestr(content.read(f"{info}/METADATA").decode())
    assert {name.partition("/")[0] for name in names} == {"clew", info}
    assert "clew/py.typed" in names
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {re.match(r"[\w-]+", line)[0] for line in required} == {"immutables", "msgspec"}
    assert metadata["Author"] == "The Clew authors"


PROGRAM = """
import sys
sys.path[:0] = [{wheel!r}, {parts!r}]
from clew import Engine, Graph, interrupt, node

@node(output="b")
def up(a):
    return a + 1

@interrupt
def ok(b):
    return "ok?"

with Engine(Graph([up, ok]), store="runs.db") as engine:
    engine.run({{"a": 1}}, run_id="r", progress=True)
    assert engine.resume("r", answer=True)["b"] == 2
    assert "svg" in engine.graph._repr_html_()
others = {{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names
print(*sorted(name for name in others if not name.startswith("_")))
"""


def test_an_installed_wheel_works_with_the_core_dependencies_alone(wheel: Path, tmp_path: Path) -> None:
    target, parts = tmp_path / "installed", tmp_path / "parts"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(target)
    parts.mkdir()
    for package in (immutables, msgspec):
        (parts / package.__name__).symlink_to(Path(str(package.__file__)).parent, target_is_directory=True)
    program = PROGRAM.format(wheel=str(target), parts=str(parts))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["clew", "immutables", "msgspec"]


def test_an_installed_wheel_copies_recipes(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(target)
        assert not [name for name in content.namelist() if "__pycache__" in name or name.endswith(".db")]
    program = f"import sys; sys.path.insert(0, {str(target)!r}); from clew.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "new", "agent"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    source = ROOT / "examples/recipes/agent"
    for name in ("README.md", "shopping.py", "test_shopping.py", ".gitignore"):
        assert (tmp_path / "agent" / name).read_bytes() == (source / name).read_bytes()


def test_an_installed_wheel_shows_the_demo(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as content:
        content.extractall(target)
    program = f"import sys; sys.path.insert(0, {str(target)!r}); from clew.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo", "--quick"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "/compare?a=story&b=loud-story" in done.stdout
    assert (tmp_path / "clew-demo.db").is_file()


@pytest.mark.parametrize("project", [PROJECT, NL2SQL], ids=["clew", "nl2sql"])
def test_the_classifiers_name_what_is_tested(project: dict[str, Any]) -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    tested = re.search(r"python: \[(.*)\]", workflow)
    assert tested is not None
    named = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert named == re.findall(r"[\d.]+", tested[1])
    systems = [c for c in project["classifiers"] if c.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert re.findall(r"runs-on: (.*)", workflow) == ["ubuntu-latest"]
    assert project["authors"] == [{"name": "The Clew authors"}]


def test_the_guard_of_queries_is_bound_to_tested_versions_of_its_parser() -> None:
    (bound,) = [line for line in NL2SQL["dependencies"] if line.startswith("sqlglot")]
    assert re.search(r"<\d+", bound)


# -- tests that need POSIX


@pytest.mark.parametrize(
    "file, expected",
    [
        ("tests/crash/test_kills.py", True),
        ("tests/explore/test_progress.py", True),
        ("tests/explore/search/test_killed.py", True),  # by a module that it imports
        ("tests/graph/test_graph.py", False),
        ("tests/test_live.py", False),  # it marks one test
        ("tests/house/no_such_file.py", False),
    ],
)
def test_modules_that_need_posix_are_known(file: str, expected: bool) -> None:
    assert needs_posix(ROOT / file) is expected


def test_tests_that_need_posix_are_marked() -> None:
    files = ["tests/explore/test_progress.py", "tests/test_live.py", "tests/graph/test_names.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "posix",
    ]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    found = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert found == set(files[:2]), done.stdout + done.stderr
