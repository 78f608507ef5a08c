"""Runs that wait, on the command line: ``clew signal``, ``clew answer`` and ``clew cancel``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Folder
from tests.cli.commands.test_queue import statuses, until

ORDERS = """
import asyncio
import os
import time
from typing import Any

import msgspec

from clew import Context, Graph, interrupt, node


class Order(msgspec.Struct):
    order: str
    paid: Any = None
    approved: bool = False
    done: str = ""


@node(output="paid")
def pay(order: str, ctx: Context) -> object:
    return ctx.wait_for("paid")


@interrupt(output="approved")
def approve(paid: object) -> str:
    return "ship it?"


@node(output="done")
def ship(paid: object, approved: bool) -> str:
    return f"{paid} {approved}"


graph = Graph([pay, approve, ship], state=Order, name="order")


@node(output="done")
async def hang(order: str) -> str:
    with open("begun", "w"):
        pass
    await asyncio.Event().wait()
    return order


hanging = Graph([hang], name="hanging")


@node(output="done")
def insist(order: str) -> str:
    with open("begun", "w"):
        pass
    while not os.path.exists("enough"):
        time.sleep(0.01)
    return order


insistent = Graph([insist], name="insistent")
"""


@pytest.fixture
def orders(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    (tmp_path / "orders.py").write_text(ORDERS)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.clew]\ngraphs = ["orders:graph", "orders:hanging", "orders:insistent"]\n'
    )
    return folder


def work(folder: Folder) -> dict[str, str]:
    folder.clew("worker", "orders:graph", "--until-idle")
    return statuses(folder)


def test_signals_and_answers_continue_a_run_on_a_worker(orders: Folder) -> None:
    orders.clew("submit", "orders:graph", "order=o", "--run-id", "r")
    assert work(orders) == {"r": "sleeping"}
    said = orders.json("signal", "r", "paid", '{"amount": 3}', "--id", "p1")
    assert said == {"run_id": "r", "signal": "paid", "value": {"amount": 3}}
    orders.clew("signal", "r", "paid", "7", "--id", "p1")  # the same signal again
    assert work(orders) == {"r": "waiting"}
    said = orders.json("answer", "r", "true")
    assert said == {"run_id": "r", "question": None, "answer": True}
    assert work(orders) == {"r": "completed"}
    assert "{'amount': 3} True" in orders.clew("show", "r").stdout


def test_an_answered_run_that_no_worker_can_take_is_named(folder: Folder) -> None:
    folder.clew("run", "flow:asking", "topic=x", "--run-id", "r")
    assert (folder.json("queues")["unserved"], folder.json("doctor")["unserved"]) == ([], [])
    done = folder.clew("answer", "r", "true")
    assert "clew worker flow:asking" in done.stderr
    for found in (folder.json("queues")["unserved"], folder.json("doctor")["unserved"]):
        assert [(each["target"], each["runs"]) for each in found] == [("flow:asking", ["r"])]
    folder.clew("worker", "flow:asking", "--until-idle")
    assert (statuses(folder), folder.json("queues")["unserved"]) == ({"r": "completed"}, [])


def test_an_answer_to_a_run_with_a_worker_has_no_note(orders: Folder) -> None:
    orders.clew("submit", "orders:graph", "order=o", "--run-id", "r")
    orders.clew("signal", "r", "paid")
    worker = orders.start("worker", "orders:graph")
    try:
        until(lambda: statuses(orders) == {"r": "waiting"})
        assert orders.clew("answer", "r", "true").stderr == ""
    finally:
        worker.kill()
        worker.communicate()


def test_a_run_is_cancelled_where_it_is(orders: Folder) -> None:
    orders.clew("submit", "orders:graph", "order=o", "--run-id", "sleeps")
    work(orders)
    orders.clew("submit", "orders:insistent", "order=o", "--run-id", "runs")
    worker = orders.start("worker", "orders:insistent")
    try:
        until(lambda: (orders.path / "begun").exists())
        said = orders.json("cancel", "sleeps", "runs")
        assert said["runs"] == ["sleeps", "runs"]
        # the other process has only been asked: nobody knows yet how its run ends
        assert said["outcomes"] == {"sleeps": "cancelled", "runs": "asked to end"}
        assert "1 run asked to end" in orders.clew("cancel", "runs").stdout
        (orders.path / "enough").touch()
        until(lambda: statuses(orders) == {"sleeps": "cancelled", "runs": "completed"})
    finally:
        worker.kill()
        worker.communicate()


def test_cancelling_can_wait_for_the_end(orders: Folder) -> None:
    orders.clew("submit", "orders:hanging", "order=o", "--run-id", "runs")
    worker = orders.start("worker", "orders:hanging")
    try:
        until(lambda: (orders.path / "begun").exists())
        said = orders.json("cancel", "runs", "--wait", "60")
        assert said["outcomes"] == {"runs": "cancelled"}
        assert statuses(orders) == {"runs": "cancelled"}
        assert "0 runs cancelled" in orders.clew("cancel", "runs", "--wait", "1").stdout
        orders.clew("cancel", "runs", "--wait", "-1", code=2)
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ("signal", "nowhere", "paid"),
        ("signal", "ended", "paid"),
        ("signal", "sleeps", ""),
        ("signal", "sleeps", "paid", "{"),
        ("answer", "nowhere", "true"),
        ("answer", "ended", "true"),
        ("answer", "sleeps", "true"),
        ("answer", "asks", "perhaps"),
        ("answer", "asks", "true", "--question", "nothing#0"),
        ("cancel", "nowhere"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_explained_and_changes_nothing(orders_of_all: Folder, words: tuple[str, ...]) -> None:
    before = statuses(orders_of_all)
    done = orders_of_all.clew(*words, code=2)
    assert done.stderr.startswith("error: ")
    assert "\nhint: " in done.stderr
    assert statuses(orders_of_all) == before


@pytest.fixture(scope="module")
def orders_of_all(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with a run of each kind."""
    path = tmp_path_factory.mktemp("orders")
    folder = Folder(path)
    (path / "orders.py").write_text(ORDERS)
    (path / "pyproject.toml").write_text('[tool.clew]\ngraphs = ["orders:graph"]\n')
    for run_id in ("ended", "asks", "sleeps"):
        folder.clew("submit", "orders:graph", "order=o", "--run-id", run_id)
    for run_id in ("ended", "asks"):
        folder.clew("signal", run_id, "paid")
    work(folder)
    folder.clew("answer", "ended", "true")
    work(folder)
    folder.clew("run", "flow:asking", "topic=x", "--run-id", "alone")
    assert statuses(folder) == {
        "ended": "completed",
        "asks": "waiting",
        "sleeps": "sleeping",
        "alone": "waiting",
    }
    return folder
