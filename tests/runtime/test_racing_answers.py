"""Two people answer one question: one of them wins, the other is told, and no answer reaches the next question."""

from __future__ import annotations

import pytest

from clew import Engine, Graph, Worker, interrupt
from clew.errors import RunStateError
from clew.runtime import messages
from clew.stores import Store
from tests.store_fixtures import every_store as every_store


@interrupt(output="small")
def ask_small(order: str) -> str:
    return f"pay 10 for {order}?"


@interrupt(output="large")
def ask_large(small: bool) -> str:
    return "pay 10,000,000?"


GRAPH = Graph([ask_small, ask_large], name="payments")


def _waiting(store: Store) -> Engine:
    engine = Engine(GRAPH, store=store)
    engine.submit({"order": "tea"}, run_id="r")
    Worker(GRAPH, store=store).run(until_idle=True)
    return engine


def test_the_second_of_two_answers_is_refused(every_store: Store) -> None:
    engine = _waiting(every_store)
    engine.answer("r", True)
    engine.answer("r", True)  # the same sender again
    with pytest.raises(RunStateError):
        engine.answer("r", False)
    Worker(GRAPH, store=every_store).run(until_idle=True)
    result = engine.result("r")
    assert result["small"] is True
    assert [asked.path for asked in result.questions] == ["ask_large#0"]


def test_a_late_answer_does_not_reach_the_next_question(
    every_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _waiting(every_store)

    def be_slow() -> str:
        monkeypatch.undo()
        engine.answer("r", True)
        Worker(GRAPH, store=every_store).run(until_idle=True)
        return "somebody"

    monkeypatch.setattr(messages, "this_user", be_slow)  # between the check and the sending
    engine.answer("r", True)
    Worker(GRAPH, store=every_store).run(until_idle=True)
    result = engine.result("r")
    assert result["small"] is True
    assert [asked.path for asked in result.questions] == ["ask_large#0"]
