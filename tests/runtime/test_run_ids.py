"""Which strings may name a run."""

from __future__ import annotations

import pytest

from clew import Engine, Graph
from clew.errors import InputError


def double(a: int) -> int:
    return 2 * a


GRAPH = Graph([double])

BAD = ["", "a\nb", "\x1b[31m", "\x7f", "\x9b31m", "a\u2028b", "\ud800", "x" * 256, 7, b"r"]
GOOD = ["r", "x" * 255, "mit Leerzeichen", "日本", "a/b:c", "😀"]


@pytest.mark.parametrize("run_id", BAD)
def test_an_id_that_could_not_be_printed_is_rejected(run_id: str) -> None:
    engine = Engine(GRAPH)
    with pytest.raises(InputError):
        engine.run({"a": 1}, run_id=run_id)
    assert engine.runs() == []


@pytest.mark.parametrize("run_id", BAD)
def test_forks_and_reruns_follow_the_same_rule(run_id: str) -> None:
    engine = Engine(GRAPH)
    engine.run({"a": 1}, run_id="r")
    with pytest.raises(InputError):
        engine.fork("r", step=0, run_id=run_id)
    with pytest.raises(InputError):
        engine.rerun("r", run_id=run_id)
    assert [row.run_id for row in engine.runs()] == ["r"]


@pytest.mark.parametrize("run_id", GOOD)
def test_any_text_of_one_line_is_an_id(run_id: str) -> None:
    assert Engine(GRAPH).run({"a": 1}, run_id=run_id).run_id == run_id
