"""A changed constant or helper of a module is noticed by the cache, by rerun and by resume, in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

FILES = {
    "bot/__init__.py": "",
    "bot/prompts.py": 'SYSTEM = "Be brief."\n',
    "bot/words.py": "def tidy(text):\n    return text.strip()\n",
    "bot/flow.py": """
        from pathlib import Path
        from clew import Cache, Engine, Graph, node
        from bot import prompts
        from bot.words import tidy

        def note(what):
            with Path("calls").open("a") as file:
                file.write(what + " ")

        @node(output="answer", cache=CACHED)
        def ask(question):
            note("ask")
            return prompts.SYSTEM + tidy(question)

        @node(output="size", cache=CACHED)
        def measure(question):
            note("measure")
            return len(question)

        @node(output="end")
        def finish(answer, size):
            note("finish")
            if Path("broken").exists():
                raise ValueError("broken")
            return answer

        engine = Engine(Graph([ask, measure, finish]), store="runs.db")
    """,
}


class Project:
    """A package on the disk, whose files change between processes."""

    def __init__(self, folder: Path, *, is_cached: bool) -> None:
        self.folder = folder
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(textwrap.dedent(text).replace("CACHED", str(is_cached)))

    def change(self, file: str, old: str, new: str) -> None:
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new))

    def run(self, verb: str) -> dict[str, Any]:
        """Call the engine in a process of its own; return the nodes that were called, the value and the warnings."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        script = f"""
import json, warnings
from bot.flow import engine
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = engine.{verb}
print(json.dumps([result.status, result.values.get("end"), [str(w.message) for w in caught]]))
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        status, end, warned = json.loads(done.stdout)
        called = sorted(calls.read_text().split()) if calls.exists() else []
        return {"status": status, "end": end, "called": called, "warned": warned}


RUN = "run({'question': ' why '}, run_id=%r)"
CHANGES = [
    pytest.param("bot/prompts.py", "brief", "kind", "Be kind.why", id="constant"),
    pytest.param("bot/words.py", "text.strip()", "text.strip().upper()", "Be brief.WHY", id="helper"),
]


@pytest.mark.parametrize("file, old, new, end", CHANGES)
def test_the_cache_notices(file: str, old: str, new: str, end: str, tmp_path: Path) -> None:
    project = Project(tmp_path, is_cached=True)
    assert project.run(RUN % "a")["called"] == ["ask", "finish", "measure"]
    assert project.run(RUN % "b")["called"] == ["finish"]
    project.change(file, old, new)
    changed = project.run(RUN % "c")
    assert (changed["called"], changed["end"]) == (["ask", "finish"], end)
    project.change(file, new, old)
    assert project.run(RUN % "d")["called"] == ["finish"]  # the old result is still there


@pytest.mark.parametrize("file, old, new, end", CHANGES)
def test_a_rerun_notices(file: str, old: str, new: str, end: str, tmp_path: Path) -> None:
    project = Project(tmp_path, is_cached=False)
    project.run(RUN % "a")
    assert project.run("rerun('a')")["called"] == []
    project.change(file, old, new)
    changed = project.run("rerun('a')")
    assert (changed["called"], changed["end"]) == (["ask", "finish"], end)


@pytest.mark.parametrize("file, old, new, end", CHANGES)
def test_a_resume_warns(file: str, old: str, new: str, end: str, tmp_path: Path) -> None:
    project = Project(tmp_path, is_cached=False)
    (tmp_path / "broken").touch()
    assert project.run("run({'question': ' why '}, run_id='a', check=False)")["status"] == "failed"
    project.change(file, old, new)
    (tmp_path / "broken").unlink()
    resumed = project.run("resume('a')")
    assert (resumed["status"], resumed["called"], resumed["end"]) == ("completed", ["finish"], "Be brief.why")
    assert [text for text in resumed["warned"] if "'ask'" in text and "'measure'" not in text]


def test_a_project_may_move(tmp_path: Path) -> None:
    project = Project(tmp_path / "here", is_cached=True)
    project.run(RUN % "a")
    (tmp_path / "here").rename(tmp_path / "there")
    project.folder = tmp_path / "there"
    assert project.run(RUN % "b")["called"] == ["finish"]


# -- modules in one folder, without a package -----------------------------------------------------------------

BESIDE = {
    "prompts.py": 'SYSTEM = "Be brief."\n\ndef phrase(question):\n    return SYSTEM + question\n',
    "other/__init__.py": "def shout(text):\n    return text.upper()\n",
    "flow.py": """
        import sys
        import prompts
        import other
        from prompts import phrase
        from clew import Engine, Graph, node

        @node(output="a", cache=True)
        def by_attribute(q):
            return prompts.SYSTEM + q

        @node(output="b", cache=True)
        def by_function(q):
            return phrase(q)

        @node(output="c", cache=True)
        def lazily(q):
            import late
            return late.MARK + q

        @node(output="d", cache=True)
        def elsewhere(q):
            return other.shout(q)

        @node(output="e", cache=True)
        def plain(q):
            return q

        engine = Engine(Graph([by_attribute, by_function, lazily, elsewhere, plain]), store="runs.db")
        if __name__ == "__main__":
            result = eval("engine." + sys.argv[1])
            print(result.metrics.total_nodes_executed, result["a"], result["b"])
            print(engine.graph.describe())
    """,
    "late.py": 'MARK = "!"\n',
}


@pytest.mark.parametrize("start", [["flow.py"], ["-m", "flow"]])
def test_modules_beside_a_script_are_covered(tmp_path: Path, start: list[str]) -> None:
    for name, text in BESIDE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}

    def call(verb: str) -> list[str]:
        command = [sys.executable, *start, verb]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert call("run({'q': '?'}, run_id='r')")[0] == "5 Be brief.? Be brief.?"
    assert call("run({'q': '?'})")[0] == "0 Be brief.? Be brief.?"
    (tmp_path / "prompts.py").write_text(BESIDE["prompts.py"].replace("brief", "kind"))
    assert call("run({'q': '?'})")[0] == "2 Be kind.? Be kind.?"
    rerun = call("rerun('r')")
    assert rerun[0].endswith("Be kind.? Be kind.?")
    (lazily,) = [line for line in rerun if "code hash of lazily" in line]
    assert "late" in lazily
    (elsewhere,) = [line for line in rerun if "code hash of elsewhere" in line]
    assert "other" in elsewhere
    assert not [line for line in rerun if "code hash of by_" in line or "code hash of plain" in line]
