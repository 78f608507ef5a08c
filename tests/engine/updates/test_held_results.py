"""Nodes with `requires_idempotency` and not `recordable`: a result counts once its step is committed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, Send, SideEffectPolicy, SQLiteStore, append, interrupt, node, route
from clew.engine.records import FinishedItem
from clew.stores import Store
from clew.testing import Stepper, VirtualClock, random_order
from tests.engine.graphs import MAX_STEPS, RUN, Case, Skipped, cases, play, quietly
from tests.engine.test_against_reference import DENSE, TROUBLED, WIDE, WINDING, check
from tests.reference.generate import Knobs, assembled
from tests.store_fixtures import local_store

LIVE = SideEffectPolicy(requires_idempotency=True)


store = local_store


class Bank:
    """A node that books, and one that asks."""

    def __init__(self, effects: SideEffectPolicy = LIVE, **options: Any) -> None:
        self.keys: list[str] = []
        self.read: list[int] = []

        @node(output="booked", side_effects=effects, **options)
        def book(amount: int, ctx: Context) -> int:
            self.keys.append(ctx.idempotency_key)
            return len(self.keys)

        @node(output="receipt")
        def print_receipt(booked: int) -> int:
            self.read.append(booked)
            return booked

        @interrupt(output="answer")
        def ask(amount: int) -> str:
            return "sure?"

        self.graph = Graph([book, print_receipt, ask])


def test_a_resumed_run_calls_it_again_with_the_same_key(store: Store) -> None:
    bank = Bank()
    engine = Engine(bank.graph, store=store)
    assert engine.run({"amount": 5}, run_id="r").status == "waiting"
    assert len(bank.keys) == 1
    result = engine.resume("r", answer="yes")
    assert (result.status, result["booked"], result["receipt"]) == ("completed", 2, 2)
    assert len(bank.keys) == 2
    assert len(set(bank.keys)) == 1


def test_a_recordable_result_is_answered_from_the_log(store: Store) -> None:
    bank = Bank(SideEffectPolicy(recordable=True, requires_idempotency=True))
    engine = Engine(bank.graph, store=store)
    engine.run({"amount": 5}, run_id="r")
    result = engine.resume("r", answer="yes")
    assert (result["booked"], result["receipt"], len(bank.keys)) == (1, 1, 1)


def test_nothing_builds_on_it_before_its_step_is_committed(store: Store) -> None:
    """Else what was built on it would stay when it is called again and gives something else."""
    bank = Bank()
    engine = Engine(bank.graph, store=store)
    engine.run({"amount": 5}, run_id="r")
    assert bank.read == []
    engine.resume("r", answer="yes")
    assert bank.read == [2]


def test_a_committed_result_is_not_made_again(store: Store) -> None:
    keys: list[str] = []

    @node(output="booked", side_effects=LIVE)
    def book(amount: int, ctx: Context) -> int:
        keys.append(ctx.idempotency_key)
        return len(keys)

    @interrupt(output="answer")
    def ask(booked: int) -> str:
        return "sure?"

    engine = Engine(Graph([book, ask]), store=store)
    engine.run({"amount": 5}, run_id="r")
    result = engine.resume("r", answer="yes")
    assert (result.status, result["booked"], len(keys)) == ("completed", 1, 1)


@pytest.mark.parametrize("policy", ["retry", "fail", "ask"])
def test_a_call_that_is_known_to_have_ended_is_not_ambiguous(tmp_path: Path, policy: Any) -> None:
    bank = Bank()
    engine = Engine(bank.graph, store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous=policy)
    engine.run({"amount": 5}, run_id="r")
    result = engine.resume("r", answer="yes")
    assert (result.status, len(bank.keys)) == ("completed", 2)


def test_it_is_called_again_after_a_failure_beside_it(store: Store) -> None:
    keys: list[str] = []
    fails = [True]

    @node(output="booked", side_effects=LIVE)
    def book(amount: int, ctx: Context) -> int:
        keys.append(ctx.idempotency_key)
        return len(keys)

    @node(output="other")
    def other(amount: int) -> int:
        if fails:
            raise OSError("gone")
        return 1

    engine = Engine(Graph([book, other]), store=store)
    assert engine.run({"amount": 5}, run_id="r", check=False).status == "failed"
    fails.clear()
    assert (engine.resume("r").status, len(keys)) == ("completed", 2)


def test_a_subgraph_fails_though_a_result_is_held_in_it() -> None:
    @node(output="booked", side_effects=LIVE)
    def book(amount: int) -> int:
        return amount

    @node(output="other")
    def other(amount: int) -> int:
        raise OSError("gone")

    inner = Graph([book, other], name="inner")
    result = Graph([inner.as_node()]).run({"amount": 1}, check=False)
    assert (result.status, type(result.error)) == ("failed", OSError)


def test_writes_to_the_database_are_made_once(tmp_path: Path) -> None:
    calls = []

    @node(output="booked", side_effects=LIVE)
    def book(amount: int, ctx: Context) -> int:
        calls.append(1)
        with ctx.transaction() as db:
            db.execute("insert into bookings values (?)", (amount,))
        return amount

    @interrupt(output="answer")
    def ask(amount: int) -> str:
        return "sure?"

    path = tmp_path / "runs.db"
    engine = Engine(Graph([book, ask]), store=SQLiteStore(path))
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table bookings (amount)")
    engine.run({"amount": 5}, run_id="r")
    assert engine.resume("r", answer="yes").status == "completed"
    engine.close()
    with closing(sqlite3.connect(path)) as db:
        assert (list(db.execute("select amount from bookings")), len(calls)) == ([(5,)], 2)


def test_the_items_of_a_fan_out_take_effect_together() -> None:
    class Booked(TypedDict, total=False):
        amounts: list[int]
        booked: Annotated[list[int], append]
        slow: int

    @route(targets=["book"])
    def scatter(amounts: list[int]) -> list[Send]:
        return [Send("book", {"amount": amount}) for amount in amounts]

    @node(output="booked", side_effects=LIVE)
    def book(amount: int) -> int:
        return amount

    @node(output="slow", after="scatter")
    def slow(amounts: list[int]) -> int:
        return 1

    graph = Graph([scatter, book, slow], state=Booked)
    stepper = Stepper(graph, {"amounts": [1, 2, 3]}, run_id="r")
    stepper.complete("scatter#0")
    for path in ("book#0[1]", "book#0[0]"):
        stepper.complete(path)
    assert stepper.engine.state("r").step == 1
    stepper.complete("slow#0")
    stepper.complete("book#0[2]")
    result = stepper.finish()
    assert (result.status, result["booked"], result.last_step) == ("completed", [1, 2, 3], 2)


def live(case: Case) -> tuple[Graph, set[str]]:
    """The same graph, of which some nodes require idempotency."""
    random, model = Random(case.seed), case.model
    built, chosen = [], set()
    for part in case.graph.nodes.values():
        if part.subgraph is None and random.random() < 0.4:
            part = replace(part, side_effects=LIVE)
            chosen.add(part.name)
        built.append(part)
    return quietly(lambda: assembled(model, built)), chosen


@pytest.mark.parametrize(
    "kind", [TROUBLED, WINDING, DENSE, WIDE], ids=["troubled", "winding", "dense", "wide"]
)
def test_the_chain_is_what_it_was_in_any_order(kind: Knobs) -> None:
    counts: Counter[str] = Counter()
    for case in cases(range(60), kind):
        graph, chosen = live(case)
        engine = Engine(graph, max_steps=MAX_STEPS, on_error=case.on_error, clock=VirtualClock(), seed=0)
        try:
            played = play(engine, case.given, random_order(case.seed), case.seed % 4 or None)
        except Skipped:
            continue
        check(case, played)
        finished = {
            entry.outcome.node for entry in engine.store.entries(RUN) if isinstance(entry, FinishedItem)
        }
        assert not finished & chosen
        counts["graphs"] += 1
        counts["finished"] += len(finished)
    assert counts["graphs"] > 30, counts
    assert counts["finished"] > 10, counts
