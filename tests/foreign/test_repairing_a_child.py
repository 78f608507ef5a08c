"""A person looks into a child run that asks or has failed, repairs a copy, and gives its result to the outer run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, interrupt, node
from clew.errors import InputError, RunStateError


@node(output="found")
def search(topic):
    return f"found {topic}"


@interrupt(output="approved")
def approve(found):
    return f"Use {found}?"


@node(output="text")
def write(found, approved):
    if approved == "never":
        raise ValueError("not approved")
    return f"{found}, {approved}"


chapter = Graph([search, approve, write], name="chapter")


@node(output="report")
def report(topic, ctx: Context):
    return ctx.run(chapter, {"topic": topic})["text"]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_repaired_copy_of_a_child_is_the_result_of_its_node(store: Any, has_failed: bool) -> None:
    outer, inner = Engine(Graph([report]), store=store), Engine(chapter, store=store)
    waiting = outer.run({"topic": "tea"}, run_id="r")
    assert waiting.questions[0].path == "report#0!0/approve#0"
    if has_failed:
        with pytest.raises(ValueError, match="not approved"):
            outer.resume("r", answer="never")

    (child,) = (row.run_id for row in outer.runs(children=True) if row.child_of == "r")
    with pytest.raises(InputError):
        outer.update("r", {"approved": "yes"}, as_node="report#0!0/approve")
    for engine in (outer, inner):
        with pytest.raises(RunStateError):
            engine.update(child, {"approved": "yes"}, as_node="approve")

    inner.fork("r", path="report#0!0", step=1, run_id="copy")
    inner.update("copy", {"approved": "by hand"}, as_node="approve")
    repaired = inner.resume("copy")
    assert repaired["text"] == "found tea, by hand"
    outer.update("r", {"report": repaired["text"]}, as_node="report")
    assert outer.resume("r")["report"] == "found tea, by hand"
    assert outer.result("r").status == "completed"
    assert outer.replay("r").ok
    assert [checkpoint.by_hand for checkpoint in outer.history("r")][-1]
    store.close()
