"""Labels: names of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import InputError
from clew.stores import Store


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    store: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    engine = Engine(Graph([node(lambda a: a + 1, name="n", output="b")]), store=store)
    engine.run({"a": 1}, run_id="r")
    return engine


def test_a_step_may_have_several(engine: Engine) -> None:
    engine.label_checkpoint("r", "one", step=1)
    found = engine.label_checkpoint("r", "another", step=1)
    assert found.labels == ("another", "one")
    assert [each.labels for each in engine.history("r")] == [(), ("another", "one")]
    assert [engine.state("r", step=label).step for label in found.labels] == [1, 1]


def test_the_specifications_field_has_the_first_of_them(engine: Engine) -> None:
    engine.label_checkpoint("r", "one", step=1)
    assert engine.label_checkpoint("r", "two", step=1).label == "one"
    assert engine.history("r")[0].label is None


def test_an_export_has_them_all(engine: Engine) -> None:
    engine.label_checkpoint("r", "one", step=1)
    engine.label_checkpoint("r", "two", step=1)
    document = engine.export_run("r")
    shown = document["checkpoints"][1]
    assert (shown["label"], shown["clew"]["labels"]) == ("one", ["one", "two"])
    other = Engine(engine.graph)
    other.import_run(document)
    assert other.history("r")[1].labels == ("one", "two")


@pytest.mark.parametrize("label", [None, 5, "", "half \ud800"])
def test_a_label_is_text(engine: Engine, label: Any) -> None:
    with pytest.raises(InputError, match="a label must be a string"):
        engine.label_checkpoint("r", label)
    assert engine.history("r")[1].labels == ()


@pytest.mark.parametrize("step", [True, 1.5, b"one"])
def test_a_step_is_a_number_or_a_label(engine: Engine, step: Any) -> None:
    with pytest.raises(InputError, match="expected a step number or a label"):
        engine.state("r", step=step)
