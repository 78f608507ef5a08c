"""Graphs whose runs wait, fail or ask inside a subgraph, and one whose question has no answer."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from clew import Context, Graph, node

HOUR = 3_600.0


@node(output="rested")
def nap(tea: str, ctx: Context) -> bool:
    ctx.sleep(HOUR)
    return True


napping = Graph([nap], name="napping")


@node(output="paid")
def pay(bill: str, ctx: Context) -> Any:
    return ctx.wait_for("payment")


paying = Graph([pay], name="paying")


@node(output="clean")
def tidy(text: str) -> str:
    return text.strip()


@node(output="checked")
def check(clean: str, ctx: Context) -> bool:
    return ctx.interrupt(f"Is {clean!r} right?", type=bool)


@node(output="checked")
def break_down(clean: str) -> bool:
    raise ValueError(clean)


@node(output="sent")
def send(checked: bool) -> bool:
    return checked


asking = Graph([Graph([tidy, check], name="review").as_node(name="review"), send], name="asking")
breaking = Graph([Graph([tidy, break_down], name="review").as_node(name="review"), send], name="breaking")


@node(output=("aggregator_response", "answer_synthesizer_response"))
def give_up(user_query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    said = {"answer": "This could not be answered.", "partial": True}
    return {"columns": [], "rows": [], "notes": [], "sql": ""}, said


unanswered = Graph([give_up], name="nl2sql")


class Line(msgspec.Struct):
    amount: int


class Basket(TypedDict):
    name: str
    gifts: NotRequired[list[str]]


@node(output="line")
def ask_line(order: str, ctx: Context) -> Any:
    return ctx.interrupt(f"Which line of {order}?", type=Line | Literal["none"])


@node(output="basket")
def ask_basket(order: str, ctx: Context) -> Any:
    return ctx.interrupt(f"What is in {order}?", type=Basket)


lines = Graph([ask_line], name="lines")
baskets = Graph([ask_basket], name="a-graph-" + "with-a-very-long-name-" * 5)
