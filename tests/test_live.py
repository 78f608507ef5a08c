"""Live displays: in a terminal and in a notebook, and nothing elsewhere."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew import Context, DependencyGraph, Engine, Graph, interrupt, node, schema
from clew.explore import check_graph
from clew.live import live

ROOT = Path(__file__).resolve().parents[1]
HOSTILE = "<script>alert(1)</script>[bold]\x1b[2J"


class Shown:
    """What a notebook displays."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def display(self, html: str, *, display_id: bool) -> Shown:
        self.pages.append(html)
        return self

    def update(self, html: str) -> None:
        self.pages.append(html)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    shown = Shown()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(
        sys.modules, "IPython.display", SimpleNamespace(HTML=lambda html: html, display=shown.display)
    )
    monkeypatch.setattr("clew.live._PERIOD", 0.0)
    return shown


@node(output="b", name="work")
def work(a: Any, ctx: Context) -> Any:
    ctx.emit("half", a)
    return a


@node(output="c")
async def later(b: Any) -> Any:
    await asyncio.sleep(0)
    return b


@interrupt
def ok(c: Any) -> Any:
    return HOSTILE


def dependencies() -> DependencyGraph:
    graph = DependencyGraph([schema("total", ["a", "b"], lambda inputs, old, names: sum(inputs))])
    graph.set("a", 1)
    graph.set("b", 2)
    return graph


def waiting() -> Engine:
    """Return an engine with a run `r` that has made `b` and asks."""
    engine = Engine(Graph([work, later, ok, answered]))
    assert engine.run({"a": 1}, run_id="r").status == "waiting"
    return engine


@node(output="d")
def answered(ok: Any) -> Any:
    return ok


def completed(thread: str | None = None) -> Engine:
    """Return an engine with the run `r` of a graph."""
    engine = Engine(Graph([work, later]))
    engine.run({"a": 1}, run_id="r", thread=thread)
    return engine


def inner() -> Engine:
    """Return an engine with a run `r` of a graph inside a graph."""
    engine = Engine(Graph([Graph([work]).as_node("inner")]))
    engine.run({"a": 1}, run_id="r")
    return engine


def resumed(engine: Engine) -> Any:
    return engine.resume("r", answer=1, progress=True)["d"]


async def aresumed(engine: Engine) -> Any:
    return (await engine.aresume("r", answer=1, progress=True))["d"]


async def aforked(engine: Engine) -> Any:
    return (await engine.afork("r", values={"a": 2}, step=0, progress=True))["c"]


async def areran(engine: Engine) -> Any:
    return (await engine.arerun("r", values={"a": 2}, progress=True))["c"]


DISPLAYS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Engine(Graph([work])).run({"a": 1}, progress=True)["b"], "work"),
    (lambda: Engine(Graph([work, later])).run({"a": 1}, progress=True)["c"], "later"),
    (lambda: asyncio.run(Engine(Graph([work, later])).arun({"a": 1}, progress=True))["c"], "later"),
    (lambda: Engine(Graph([work])).run({"a": 1}, thread="t", progress=True)["b"], "work"),
    (lambda: asyncio.run(Engine(Graph([work])).arun({"a": 1}, thread="t", progress=True))["b"], "work"),
    (lambda: Graph([work]).run({"a": 1}, progress=True)["b"], "work"),
    (lambda: resumed(waiting()), "answered"),
    (lambda: asyncio.run(aresumed(waiting())), "answered"),
    (lambda: completed().fork("r", values={"a": 2}, step=0, progress=True)["c"], "later"),
    (lambda: asyncio.run(aforked(completed())), "later"),
    (lambda: completed("t").fork("r", values={"a": 2}, step=0, thread="t", progress=True)["c"], "later"),
    (lambda: inner().fork("r", path="inner#0", step=0, values={"a": 2}, progress=True)["b"], "work"),
    (lambda: completed().rerun("r", values={"a": 2}, progress=True)["c"], "later"),
    (lambda: completed().rerun("r", force=["work"], progress=True)["c"], "work"),
    (lambda: asyncio.run(areran(completed())), "later"),
    (lambda: dependencies().pull("total", progress=True), "total"),
    (lambda: asyncio.run(dependencies().apull("total", progress=True)), "total"),
    (lambda: check_graph(Graph([work]), {"a": 1}, faults=(), progress=True).states, "exploring"),
]


@pytest.mark.parametrize("verb, word", DISPLAYS)
def test_a_notebook_shows_it(verb: Callable[[], Any], word: str, notebook: Shown) -> None:
    assert verb()
    assert len(notebook.pages) >= 2
    assert word in notebook.pages[-1]


@pytest.mark.parametrize("verb, word", DISPLAYS)
def test_elsewhere_nothing_is_shown(
    verb: Callable[[], Any], word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert verb()
    assert capfd.readouterr() == ("", "")


def test_a_run_without_progress_shows_nothing(notebook: Shown) -> None:
    Engine(Graph([work])).run({"a": 1})
    assert notebook.pages == []


def test_what_a_run_brings_is_escaped(notebook: Shown) -> None:
    result = Engine(Graph([work, later, ok])).run({"a": HOSTILE}, progress=True)
    assert result.status == "waiting"
    assert not any("<script" in page for page in notebook.pages)
    assert "&lt;script" in notebook.pages[-1]
    assert "asking" in notebook.pages[-1]


def test_a_failure_is_shown_and_the_display_ends(notebook: Shown) -> None:
    @node(output="b")
    def fails(a: int) -> None:
        raise ValueError("no")

    Engine(Graph([fails])).run({"a": 1}, progress=True, check=False)
    assert "ValueError: no" in notebook.pages[-1]


def test_updates_are_limited(notebook: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.live._PERIOD", 1000.0)
    Engine(Graph([work])).run({"a": 1}, progress=True)
    assert len(notebook.pages) == 2  # the first and the last


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_without_rich_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with live(SimpleNamespace(lines=list)) as changed:
        assert changed is None
    assert sys.stderr.getvalue() == ""


PROGRAM = """
from clew import *
@node(output="b")
def work(a): return a + 1
print(Engine(Graph([work])).run({"a": 1}, progress=True)["b"])
"""


@pytest.mark.posix
def test_a_terminal_shows_it_on_standard_error() -> None:
    import pty

    master, slave = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"},
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        try:
            while piece := terminal.read(4096):
                shown += piece
        except OSError:  # Linux raises this when the last writer has closed
            pass
        out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, b"2\n")
    assert b"work" in shown
