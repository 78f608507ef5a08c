"""Check Clew's own engine: durable runs on a store whose operations can all fail.

The graphs have recorded calls, retries, a fan-out, a subgraph, a loop and a question. Every order, every crash and
every failing operation is tried. Each run must end like the uninterrupted one, with the same digest, and must not
repeat a recorded call. `test_drivers` explores the drivers.
"""

from __future__ import annotations

import operator
from itertools import count
from typing import Annotated, TypedDict

import pytest

from clew import END, Context, Graph, RetryPolicy, Send, interrupt, node, route
from clew.engine.machine import Machine
from clew.errors import RunStateError
from clew.explore import Check
from clew.explore.systems import MemoryStorage
from clew.runtime import opener
from clew.runtime.calls.context import RunContext
from clew.runtime.calls.recorder import ItemCalls
from clew.runtime.log.run_log import RunLog
from tests.explore.checking.page import counts, rows, says

GUARANTEES = [
    "schedule_independent",
    "resume_equivalent",
    "exactly_once_effects",
    "stable_idempotency_key",
    "terminates",
]


def twelve() -> Graph:
    """Three branches of three nodes between a start and a join: twelve items."""

    def part(name: str, reads: str, writes: str) -> object:
        made: dict[str, object] = {}
        exec(f"def {name}({reads}): return [{reads}]", made)
        return node(output=writes)(made[name])

    nodes = [part("start", "x", "s")]
    for b in "abc":
        nodes += [
            part(f"{b}1", "s", f"{b}1v"),
            part(f"{b}2", f"{b}1v", f"{b}2v"),
            part(f"{b}3", f"{b}2v", f"{b}3v"),
        ]
    return Graph([*nodes, part("join", "a3v, b3v, c3v", "j"), part("end", "j", "e")])


def test_twelve_items_and_one_fault() -> None:
    result = Check(twelve(), {"x": 1}, GUARANTEES).run()
    assert result.ok, str(result)
    assert (result.states, result.transitions) == (135, 193)
    assert says("135 states and 193 transitions")


@pytest.mark.parametrize(
    "many, max_faults, numbers",
    [
        (9, 1, (177, 220)),
        pytest.param(25, 1, (1081, 1204), marks=pytest.mark.slow),
        pytest.param(6, 2, (4480, 12009), marks=pytest.mark.slow),
    ],
)
def test_items_that_wait_for_nobody(many: int, max_faults: int, numbers: tuple[int, int]) -> None:
    graph = Graph([node(output=f"v{i}", name=f"n{i}")(lambda x: x) for i in range(many)])
    result = Check(graph, {"x": 1}, GUARANTEES, max_faults=max_faults).run()
    assert result.ok, str(result)
    assert (result.states, result.transitions) == numbers
    assert says(f"have {result.states:,} states and {result.transitions:,} transitions")


def recorded() -> tuple[Graph, dict[str, MemoryStorage]]:
    ledger = MemoryStorage()

    def post(name: str, key: str) -> int:
        if key not in ledger.list():
            ledger.put(key, name)
        return len(name)

    @node(output="a", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
    def pay(x: int, ctx: Context) -> int:
        return ctx.record("pay", post, "pay", key=f"{ctx.idempotency_key}/0") + ctx.record(
            "tax", post, "tax", key=f"{ctx.idempotency_key}/1"
        )

    @node(output="b")
    async def ship(x: int, ctx: Context) -> int:
        async def send(key: str) -> int:
            return post("ship", key)

        return await ctx.record("ship", send, key=ctx.idempotency_key)

    @node(output="c")
    def close(a: int, b: int) -> int:
        return a + b

    return Graph([pay, ship, close], name="recorded"), {"ledger": ledger}


def fan_out() -> tuple[Graph, dict[str, MemoryStorage]]:
    class Work(TypedDict, total=False):
        parts: int
        done: Annotated[list[int], operator.add]
        turns: int

    @node(output="step")
    def inner(part: int) -> int:
        return part * 10

    @node(output="done")
    def wrap(step: int) -> list[int]:
        return [step]

    @route(targets=["each"])
    def spread(parts: int) -> list[Send]:
        return [Send("each", {"part": n}) for n in range(parts)]

    @node(output="turns")
    def count(done: list[int], turns: int = 0) -> int:
        return turns + 1

    @route(targets=["count", END])
    def again(turns: int) -> object:
        return "count" if turns < 2 else END

    each = Graph([inner, wrap]).as_node("each", inputs=("part",), outputs=("done",))
    return Graph([spread, each, count, again], state=Work, name="fan-out"), {}


def question() -> tuple[Graph, dict[str, MemoryStorage]]:
    @interrupt(output="ok")
    def approve(x: int) -> str:
        return f"pay {x}?"

    @node(output="price")
    def price(x: int) -> int:
        return x * 2

    @node(output="paid")
    def pay(ok: bool, price: int) -> int:
        return price if ok else 0

    return Graph([approve, price, pay], name="question"), {}


VALUES = {"recorded": {"x": 1}, "fan-out": {"parts": 2}, "question": {"x": 3}}
MADE = {"recorded": recorded, "fan-out": fan_out, "question": question}
ROWS = {  # what the page calls them
    "recorded": "recorded calls, sync and async, with retries",
    "fan-out": "fan-out into subgraphs, and a loop",
    "question": "a question with parallel work, as a model",
}


def check_of(name: str, max_faults: int, faults: set[str]) -> Check:
    graph, systems = MADE[name]()
    options = {"systems": systems, "answers": {"approve": [True]} if name == "question" else None}
    return Check(graph, VALUES[name], GUARANTEES, faults=faults, max_faults=max_faults, **options)


@pytest.mark.parametrize("name", MADE)
def test_one_crash_or_failed_operation(name: str) -> None:
    result = check_of(name, 1, {"crash", "store"}).run()
    assert result.ok, str(result)
    assert counts(result.states, result.transitions) == rows(ROWS[name])[0][0]


@pytest.mark.parametrize("name", [pytest.param("recorded", marks=pytest.mark.slow), "fan-out", "question"])
def test_two_faults_of_any_kind(name: str) -> None:
    result = check_of(name, 2, {"crash", "store", "fail", "timeout"}).run()
    assert result.ok, str(result)
    assert counts(result.states, result.transitions) == rows(ROWS[name])[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_three_faults_of_any_kind(name: str) -> None:
    result = check_of(name, 3, {"crash", "store", "fail", "timeout"}).run()
    assert result.ok, str(result)


def test_every_operation_of_the_store_fails_somewhere() -> None:
    """All that running and resuming ask of it. What an engine asks beyond that is in `test_drivers`."""
    found = set()
    for name in MADE:
        result = check_of(name, 1, {"store"}).run()
        for transition in result.explored.transitions:
            if transition.action_name.startswith("store "):
                how, _, rest = transition.action_name.removeprefix("store ").partition(" in ")
                found.add((how, rest.rpartition(" at ")[2].partition(" ")[0]))
    reads = {"row", "log_end", "find"}
    writes = {"create", "claim", "append", "update"}
    assert found == {("refused", each) for each in reads | writes} | {
        ("unconfirmed", each) for each in writes
    }


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_a_store_that_cannot_be_read_is_no_failure_of_a_node(on_error: str) -> None:
    """As it was once: a body that catches everything went on without its call."""
    bank = MemoryStorage()

    @node(output="paid")
    def pay(x: int, ctx: Context) -> str:
        try:
            ctx.record("pay", bank.put, ctx.idempotency_key, x)
        except Exception:
            return "later"
        return "paid"

    check = Check(
        Graph([pay]),
        {"x": 1},
        GUARANTEES,
        faults={"store"},
        max_faults=2,
        systems={"bank": bank},
        on_error=on_error,
    )
    result = check.run()
    assert result.ok, str(result)


def names_of(name: str, faults: set[str]) -> set[str]:
    return {violation.name for violation in check_of(name, 1, faults).run().violations}


def test_an_engine_that_forgets_recordings_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ItemCalls, "candidates", lambda *_: ())
    assert "exactly_once_effects" in names_of("recorded", {"crash"})


def test_an_engine_that_never_hears_its_answers_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for ever, so there is no end to explore to."""
    monkeypatch.setattr(Machine, "_use_prior_work", lambda self, item: False)
    result = check_of("question", 0, set()).replace(max_steps=50).run()
    assert (result.truncated, result.ok) == (True, False)


def test_an_engine_whose_idempotency_keys_change_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = count()
    monkeypatch.setattr(RunContext, "idempotency_key", property(lambda self: f"key {next(keys)}"))
    assert "stable_idempotency_key" in names_of("recorded", {"crash"})


def test_a_run_that_cannot_be_answered_again_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was once: a run that died right after its answer was kept could neither be answered nor resumed."""
    whole = opener.check_answers

    def check_answers(log: RunLog, single: object, answers: object, graph: Graph) -> object:
        if log.answers and not answers:
            raise RunStateError("it waits for an answer")
        return whole(log, single, answers, graph)

    monkeypatch.setattr(opener, "check_answers", check_answers)
    result = check_of("question", 1, {"crash"}).run()
    assert [violation.name for violation in result.violations] == ["resume"]  # the choice
    assert "raised RunStateError: it waits for an answer" in str(result)
