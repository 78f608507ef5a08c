"""A pipeline that answers from documents, as scripts that are edited between runs: what changed is done again, no more.

Each run is a process of its own. It prints a line for everything that costs money.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SETTINGS = """
SIZE = 30
PROMPT = "Answer from these: {hits} The question: {question}"
"""

RAG = """
import operator
import sys
from pathlib import Path
from typing import Annotated, TypedDict

import settings

from clew import Context, Engine, Graph, Send, node, route


class Rag(TypedDict, total=False):
    texts: dict[str, str]
    question: str
    chunks: list[str]
    vectors: Annotated[list[dict], operator.add]
    hits: list[str]
    answer: str


def embedding(text):
    print("embedding")
    return sorted(set(text.lower().split()))


def model(prompt):
    print("model")
    return prompt.upper()


@node(output="chunks")
def split(texts):
    size = settings.SIZE
    return [text[i : i + size] for text in texts.values() for i in range(0, len(text), size)]


@route(targets=["embed"])
def each_chunk(chunks):
    return [Send("embed", {"chunk": chunk}) for chunk in chunks]


@node(output="vectors", cache=True)
def embed(chunk):
    return [{"chunk": chunk, "words": embedding(chunk)}]


@node(output="hits", after="embed")
def retrieve(question, vectors):
    words = set(question.lower().split())
    return sorted(vectors, key=lambda v: (-len(words & set(v["words"])), v["chunk"]))[0]["chunk"].split("\\n")


@node(output="answer")
def answer(question, hits, ctx: Context):
    return ctx.record("model", model, settings.PROMPT.format(hits=hits, question=question))


graph = Graph([split, each_chunk, embed, retrieve, answer], state=Rag, name="rag")


def texts():
    return {path.name: path.read_text() for path in sorted(Path("docs").iterdir())}


if __name__ == "__main__":
    verb, *names = sys.argv[1:]
    with Engine(graph, store="rag.db") as engine:
        if verb == "ask":
            result = engine.run({"texts": texts(), "question": "why do ships float"}, run_id=names[0])
        elif verb == "again":
            result = engine.rerun(names[0], run_id=names[1], progress=True)
        elif verb == "update":
            result = engine.rerun(names[0], values={"texts": texts()}, run_id=names[1], progress=True)
        print("answer:", result["answer"])
"""


class Project:
    """A folder with the scripts, which somebody edits and starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rag.py").write_text(RAG)
        (folder / "settings.py").write_text(SETTINGS)
        (folder / "docs").mkdir()
        (folder / "docs/ships.txt").write_text("Ships float because they displace water. Steel ships, too.")
        (folder / "docs/tea.txt").write_text("Tea is best at 80 degrees.")

    def edit(self, old: str, new: str) -> None:
        file = self.folder / "settings.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # without bytecode: two edits within a second would not be noticed by Python itself
        command = [sys.executable, "-B", "rag.py", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True)

    def paid(self, *arguments: str) -> tuple[Counter[str], str]:
        """Return how often each paid service was called, and the answer."""
        done = self.start(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        *calls, last = done.stdout.splitlines()
        return Counter(calls), last.removeprefix("answer: ")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_only_what_changed_is_paid_for(project: Project) -> None:
    calls, first = project.paid("ask", "q1")
    assert calls == {"embedding": 3, "model": 1}
    assert "SHIPS FLOAT" in first
    assert project.paid("again", "q1", "same") == (Counter(), first)

    project.edit("Answer from these", "In one word, from these")
    calls, short = project.paid("again", "q1", "short")
    assert calls == {"model": 1}
    assert short.startswith("IN ONE WORD")

    project.edit("SIZE = 30", "SIZE = 60")  # three chunks become two; that of the short text is a known one
    calls, _ = project.paid("again", "short", "long chunks")
    assert calls == {"embedding": 1, "model": 1}

    project.edit("SIZE = 60", "SIZE = 30")  # all embeddings are in the store
    calls, back = project.paid("again", "long chunks", "back")
    assert (calls, back) == ({"model": 1}, short)

    (project.folder / "docs/coffee.txt").write_text("Coffee likes 90 degrees.")
    assert project.paid("update", "back", "more") == ({"embedding": 1}, short)


def test_the_usual_mistakes_say_what_to_do(project: Project) -> None:
    project.paid("ask", "ships-1")
    for arguments, advice in (
        (("ask", "ships-1"), "run 'ships-1' already exists; choose another run_id, or continue it with"),
        (("again", "ships1", "x"), "run 'ships1' does not exist; did you mean 'ships-1'?"),
    ):
        done = project.start(*arguments)
        assert done.returncode == 1
        assert advice in done.stderr
    (project.folder / "rag.db").rename(project.folder / "moved.db")
    assert "the store has no runs; check the store= of the engine" in project.start("again", "a", "b").stderr


def test_prompts_in_a_dict_are_named_as_not_covered(project: Project) -> None:
    project.edit('PROMPT = "', 'PROMPTS = {"short": "')
    project.edit('{question}"', '{question}"}')
    program = project.folder / "rag.py"
    program.write_text(program.read_text().replace("settings.PROMPT", 'settings.PROMPTS["short"]'))
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import rag; print(rag.graph.describe())"],
        cwd=project.folder,
        capture_output=True,
        text=True,
    )
    assert "not in the code hash of answer: settings.PROMPTS (dict)" in done.stdout, done.stderr
