"""Somebody changes a workflow between two runs, in places other than the code of its nodes, and reruns it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from clew import Engine, Graph, MemoryStore, SQLiteStore, node

# -- prices in cents, then in euros ------------------------------------------------------------------------------


@node(output="price")
def double(amount):
    return 2 * amount


@node(output="label")
def show(price):
    return f"the price is {price}"


def shop(divisor: int) -> Graph:
    inner = Graph([double], name="inner")
    leave = inner.as_node(
        outputs=("price",), transform_output=lambda state: {"price": state["price"] / divisor}
    )
    return Graph([leave, show], name="shop")


@pytest.mark.parametrize("is_durable", [False, True])
def test_the_label_shows_the_new_price(is_durable: bool, tmp_path: Path) -> None:
    store: Any = SQLiteStore(tmp_path / "shop.db") if is_durable else MemoryStore()
    Engine(shop(1), store=store).run({"amount": 300}, run_id="cents")
    euros = Engine(shop(100), store=store)
    again, fresh = euros.rerun("cents", run_id="euros"), euros.run({"amount": 300})
    assert again["label"] == fresh["label"] == "the price is 6.0"
    assert again.state.digest == fresh.state.digest
    assert euros.replay("euros").ok
    store.close()


# -- any two versions of a workflow ------------------------------------------------------------------------------


def steps(name: str, factor: int) -> Any:
    return node(eval(f"lambda x, k=1: (x * {factor} + k) % 97"), name=name, output=name)


def any_workflow(choice: random.Random) -> Graph:
    """Return a workflow of three parts in a row. Every detail is chosen anew."""
    nodes: list[Any] = []
    source = "x"
    for place in range(3):
        inner = Graph(
            [steps("a", choice.randint(2, 3)), steps("b", choice.randint(2, 3))], name=f"part{place}"
        )
        if choice.random() < 0.5:
            inner = inner.bind(k=choice.randint(1, 2))
        options: dict[str, Any] = {}
        if choice.random() < 0.3:
            more = choice.randint(0, 1)
            options["transform_output"] = eval(f"lambda state: {{'a': state['a'] + {more}, 'b': state['b']}}")
            options["outputs"] = ("a", "b")
        if choice.random() < 0.3:
            options["transform_input"] = eval(f"lambda seen: {{'x': seen['x'] + {choice.randint(0, 1)}}}")
            options["inputs"] = ("x",)
        kept, other = choice.sample(["a", "b"], 2)
        part = inner.as_node(**options)
        renamed = {"x": source, **({"k": f"k{place}"} if "k" in part.inputs else {})}
        renamed = {old: new for old, new in renamed.items() if old != new}
        nodes.append(part.rename(inputs=renamed, outputs={kept: f"v{place}", other: f"w{place}"}))
        source = choice.choice([f"v{place}", f"w{place}"])
    nodes.append(node(lambda x: ("end", x), name="end", output="end").rename(inputs={"x": source}))
    return Graph(nodes[: choice.randint(3, 4)])


@pytest.mark.parametrize("seed", range(60))
def test_a_rerun_is_what_a_fresh_run_is(seed: int) -> None:
    choice = random.Random(seed)
    first, second = any_workflow(choice), any_workflow(choice)
    store = MemoryStore()
    Engine(first, store=store).run({"x": 1}, run_id="first")
    engine = Engine(second, store=store)
    again, fresh = engine.rerun("first"), engine.run({"x": 1})
    assert dict(again.values) == dict(fresh.values)
    assert again.state.digest == fresh.state.digest
    unchanged = engine.rerun(again.run_id)
    assert unchanged.metrics.total_nodes_executed == 3  # the subgraphs themselves
    assert unchanged.state.digest == fresh.state.digest
