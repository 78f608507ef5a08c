"""Answers in JSON that a worker refuses: the reason stays with the question, and the run can continue."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from clew import Engine, Graph, SQLiteStore, Worker, interrupt, node
from clew.runtime.messages import answer_run


class Order(TypedDict, total=False):
    item: str
    colour: str
    size: str
    names: dict[int, str]
    done: str


@interrupt(output="colour")
def ask_colour(item: str) -> str:
    return "Which colour?"


@interrupt(output="size")
def ask_size(item: str, colour: str) -> str:
    return "Which size?"


@interrupt(output="names")
def ask_names(item: str) -> str:
    return "Names by number?"


@node(output="done")
def finish(colour: str, size: str, names: dict[int, str]) -> str:
    return f"{colour} {size} {names}"


GRAPH = Graph([ask_colour, ask_size, ask_names, finish], state=Order, name="order")


def test_a_refusal_stays_while_other_questions_are_answered(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    engine = Engine(GRAPH, store=store)

    def send(path: str, answer: object) -> dict[str, str]:
        """Answer a question as the page does, and let a worker take the run; return the errors of its questions."""
        answer_run(engine._opener, "r", path, answer, by="a person", is_json=True)
        Worker(GRAPH, store=store, slots=1).run(until_idle=True)
        return {question.path: question.error for question in engine.result("r").questions}

    engine.submit({"item": "lamp"}, run_id="r")
    Worker(GRAPH, store=store, slots=1).run(until_idle=True)
    refusal = send("ask_names#0", {"first": "Ann"})["ask_names#0"]
    assert refusal
    assert send("ask_colour#0", "red") == {"ask_names#0": refusal, "ask_size#0": ""}
    again = send("ask_names#0", {"second": "Ann"})
    assert again.keys() == {"ask_names#0", "ask_size#0"}
    assert again["ask_names#0"]
    assert send("ask_size#0", "large").keys() == {"ask_names#0"}
    assert send("ask_names#0", {"2": "Ann"}) == {}
    assert engine.result("r")["done"] == "red large {2: 'Ann'}"
    store.close()
