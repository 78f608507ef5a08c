"""Arguments and results that are the same for all verbs of an engine."""

from __future__ import annotations

from typing import Any

import pytest

from clew import Engine, Graph, node
from clew.errors import DefinitionError, InputError
from clew.runtime.log.checkpoints import History


@node(output="y")
def double(x: int) -> int:
    return 2 * x


def test_the_history_inside_a_run_is_a_history() -> None:
    engine = Engine(Graph([Graph([double], name="sub")]))
    engine.run({"x": 1}, run_id="r")
    inside = engine.history("r", path="sub#0")
    assert type(inside) is type(engine.history("r")) is History
    assert [each.step_id for each in inside] == [0, 1]


@pytest.mark.parametrize("older_than", ["30d", "5", True, [3], float("nan")])
def test_an_age_that_is_no_number_is_rejected(older_than: Any) -> None:
    with pytest.raises(DefinitionError, match="older_than"):
        Engine(Graph([double])).prune(older_than=older_than)


def test_an_update_takes_the_node_itself() -> None:
    engine = Engine(Graph([double]))
    engine.run({"x": 1}, run_id="r")
    assert engine.update("r", {"y": 5}, as_node=double)["y"] == 5
    with pytest.raises(InputError, match="as_node"):
        engine.update("r", {"y": 5}, as_node=3)
