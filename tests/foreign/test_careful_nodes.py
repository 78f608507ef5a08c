"""Nodes that catch every exception around their calls: a cancelled run is resumed without a wrong result."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.errors import RunCancelledError
from clew.explore import check_graph


def careful(how: str, started: threading.Event, go_on: threading.Event) -> Graph:
    def work(k):
        started.set()
        go_on.wait(60)
        return k * 10

    inner = Graph([node(output="b", name="work")(work)], name="inner")

    @node(output="report")
    def collect(ks, ctx: Context):
        found = []
        for k in ks:
            try:
                found.append(ctx.run(inner, {"k": k})["b"] if how == "child" else ctx.record("work", work, k))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    @node(output="saved")
    def save(report):
        return report

    return Graph([collect, save])


@pytest.mark.parametrize("how", ["child", "recorded call"])
@pytest.mark.parametrize("end", ["cancel", "close"])
def test_a_report_is_not_saved_half(tmp_path: Path, how: str, end: str) -> None:
    started, go_on = threading.Event(), threading.Event()
    graph = careful(how, started, go_on)
    engine = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"))
    handle = engine.start({"ks": [1, 2]}, run_id="r")
    assert started.wait(60)
    if end == "cancel":
        handle.cancel()
        go_on.set()
        with pytest.raises(RunCancelledError):
            handle.result()
    else:
        closing = threading.Thread(target=engine.close)
        closing.start()
        while not engine._live["r"].cancelled:
            time.sleep(0.001)
        go_on.set()
        closing.join()
    again = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"))
    assert again.result("r").get("saved") is None
    assert again.resume("r")["saved"] == [10, 20]


def test_a_graph_with_children_is_checked() -> None:
    """From the page about child runs: what the node does itself is recorded, so a crash anywhere repeats nothing."""

    @node(output="paid")
    def pay(amount, ctx: Context):
        return ctx.record("pay", lambda amount, key: amount, amount, key=ctx.idempotency_key)

    payment = Graph([pay], name="payment")

    @node(output="sum")
    def settle(amounts, ctx: Context):
        return sum(ctx.run(payment, {"amount": amount})["paid"] for amount in amounts)

    result = check_graph(Graph([settle]), {"amounts": [1, 2]}, progress=False)
    assert result.ok, str(result)
    assert any("settle#0!1/pay#0" in str(action) for action in result.explored.transitions)
