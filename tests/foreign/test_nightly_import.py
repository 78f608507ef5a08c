"""A nightly import of 500 files, 5 of them bad, as a script: it is killed in the middle, and somebody continues it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.posix

SCRIPT = """
import csv
import json
import operator
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, TypedDict

from clew import Engine, Graph, Send, node, route


class Import(TypedDict, total=False):
    files: list[str]
    rows: Annotated[list[dict], operator.add]
    loaded: int
    report: str


@route(targets=["extract"])
def each_file(files):
    return [Send("extract", {"file": file}) for file in files]


def bad_file(error, file):
    return [{"file": file, "error": type(error).__name__}]


@node(output="rows", rescue=bad_file)
def extract(file):
    with open("read.log", "a") as log:
        log.write(f"{file}\\n")
    if file == os.environ.get("DIE_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"file": file, "amount": json.loads(Path(file).read_text())["amount"]}]


@node(output="loaded")
def load(rows):
    good = [row for row in rows if "error" not in row]
    with open("out.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, ["file", "amount"])
        writer.writeheader()
        writer.writerows(good)
    return len(good)


@node(output="report")
def report(rows, loaded):
    bad = [f"{row['file']} {row['error']}" for row in rows if "error" in row]
    return "; ".join([f"{loaded} of {len(rows)}", *bad])


graph = Graph([each_file, extract, load, report], state=Import, name="import")


if __name__ == "__main__":
    verb, run_id, folder = sys.argv[1:]
    with Engine(graph, store="import.db") as engine:
        if verb == "run":
            files = sorted(str(path) for path in Path(folder).glob("*.json"))
            result = engine.run({"files": files}, run_id=run_id, progress=True)
        else:
            result = engine.resume(run_id, progress=True)
        print(result["report"])
        print(len(result.failures), all(failure.rescued for failure in result.failures))
"""

BAD = {7: "{broken", 107: '["a list"]', 207: '{"amonut": 3}', 307: "", 407: "\x00"}
REPORT = (
    "495 of 500; in/007.json JSONDecodeError; in/107.json TypeError; in/207.json KeyError; "
    "in/307.json JSONDecodeError; in/407.json JSONDecodeError"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nightly.py").write_text(SCRIPT)
    (tmp_path / "empty").mkdir()
    (tmp_path / "in").mkdir()
    for number in range(500):
        (tmp_path / f"in/{number:03}.json").write_text(BAD.get(number, json.dumps({"amount": number})))
    return tmp_path


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
    )


def test_a_killed_import_is_continued(folder: Path) -> None:
    assert (
        python(folder, "nightly.py", "run", "monday", "in", DIE_AT="in/250.json").returncode
        == -signal.SIGKILL
    )

    again = python(folder, "nightly.py", "run", "monday", "in")  # the usual first idea
    assert (
        "already exists; choose another run_id, or continue it with engine.resume('monday')" in again.stderr
    )
    for words in (("runs",), ("show", "monday")):
        listed = python(folder, "-m", "clew", *words, "--store", "import.db").stdout
        assert "its process is gone; continue it with: clew resume monday --store import.db" in listed

    done = python(folder, "nightly.py", "resume", "monday", "-")
    assert (done.returncode, done.stderr) == (0, "")  # no terminal: the progress shows nothing
    assert done.stdout.splitlines() == [REPORT, "5 True"]

    read = Counter((folder / "read.log").read_text().splitlines())
    assert len(read) == 500
    assert set(read.values()) <= {1, 2}  # twice: what was in flight
    assert sum(read.values()) < 500 + 50
    with open(folder / "out.csv", newline="") as out:
        amounts = [int(row["amount"]) for row in csv.DictReader(out)]
    assert amounts == [number for number in range(500) if number not in BAD]


def test_a_night_without_files_has_a_report(folder: Path) -> None:
    done = python(folder, "nightly.py", "run", "sunday", "empty")
    assert done.stdout.splitlines() == ["0 of 0", "0 True"], done.stderr


def test_the_wrong_run_is_not_continued(folder: Path) -> None:
    python(folder, "nightly.py", "run", "sunday", "empty")
    wrong = python(folder, "nightly.py", "resume", "sonday", "-")
    assert "run 'sonday' does not exist; did you mean 'sunday'?" in wrong.stderr
