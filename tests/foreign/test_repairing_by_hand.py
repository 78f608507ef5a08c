"""A nightly import fails in one of many files; somebody repairs it by hand, without losing or repeating the rest."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, TypedDict

import pytest

from clew import END, Engine, Graph, Overwrite, Send, SQLiteStore, ifelse, node, route
from clew.errors import GraphWarning, InputError

READ: list[str] = []


class Night(TypedDict, total=False):
    files: list[str]
    rows: Annotated[list[str], operator.add]
    report: str


@route(targets=["load"])
def each(files):
    return [Send("load", {"file": file}) for file in files]


@node(output="rows")
def load(file):
    READ.append(file)
    if file == "broken.csv":
        raise ValueError("line 7 has no date")
    return [file.removesuffix(".csv")]


@node(output="report", after="load")
def report(rows):
    return "+".join(rows)


IMPORT = Graph([each, load, report], state=Night, name="import")


@pytest.fixture
def store(tmp_path: Path):
    READ.clear()
    opened = SQLiteStore(tmp_path / "nights.db")
    yield opened
    opened.close()


def test_the_missing_row_is_typed_in(store: SQLiteStore) -> None:
    engine = Engine(IMPORT, store=store)
    files = ["a.csv", "broken.csv", "b.csv", "c.csv"]
    assert engine.run({"files": files}, run_id="monday", check=False).status == "failed"
    assert engine.update("monday", {"rows": ["typed"]}, as_node="load")["rows"] == ["a", "typed", "b", "c"]
    assert engine.resume("monday")["report"] == "a+typed+b+c"
    assert sorted(READ) == sorted(files)
    assert engine.replay("monday").ok


def test_a_rerun_with_other_rows_says_that_it_replaces(store: SQLiteStore) -> None:
    engine = Engine(IMPORT, store=store)
    engine.run({"files": ["a.csv"], "rows": ["old"]}, run_id="monday")
    with pytest.warns(GraphWarning, match="rows"):
        assert engine.rerun("monday", values={"rows": ["new"]})["report"] == "new+a"
    assert engine.rerun("monday", values={"rows": Overwrite(["new"])})["report"] == "new+a"
    assert engine.rerun("monday", values={"rows": ["old", "new"]})["report"] == "old+new+a"


@node(output="draft")
def write(topic):
    READ.append(f"write {topic}")
    return f"about {topic}"


@ifelse(when_true="polish", when_false=END)
def good(draft):
    return True


@node(output="text")
def polish(draft):
    return draft.capitalize()


WRITER = Graph([write, good, polish], name="writer")
LETTER = Graph([WRITER.as_node("writer", inputs=("topic",), outputs=("text",))], name="letter")


def test_a_draft_inside_a_subgraph_is_edited(store: SQLiteStore) -> None:
    engine = Engine(LETTER, store=store)
    assert engine.run({"topic": "tea"}, run_id="letter", stop_before=["writer/polish"]).status == "paused"
    with pytest.raises(InputError, match="writer/write"):
        engine.update("letter", {"draft": "x"}, as_node="writer/wriet")
    assert engine.update("letter", {"draft": "about coffee"}, as_node="writer/write").status == "paused"
    assert engine.resume("letter", stop_before=[])["text"] == "About coffee"
    assert READ == ["write tea"]
    assert [point.by_hand for point in engine.history("letter", path="writer#0")][3:4] == [True]
    assert engine.replay("letter").ok
