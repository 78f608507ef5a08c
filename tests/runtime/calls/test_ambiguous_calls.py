"""A call in flight at a crash: made again, or refused, or cleared up by a person, as `on_ambiguous` says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SideEffectPolicy, SQLiteStore, node
from clew.errors import AmbiguousCallError, DefinitionError
from tests.runtime.killed import as_if_killed

QUESTION = (
    "node 'pay' at pay#0, call 0 ('charge') started and has no recorded result, so it may or may not have been made; "
    "answer 'retry' to repeat it, or give its response"
)


class Shop:
    """A graph with one call; the first time, what a crash during that call would leave is put aside."""

    def __init__(self, file: Path, *, is_async: bool = False, retry: Any = None) -> None:
        self.file = file
        self.charged: list[str] = []
        self.left: list[SQLiteStore] = []
        shop = self

        def charge(key: str) -> str:
            shop.charged.append(key)
            if len(shop.charged) == 1:
                shop.left.append(as_if_killed(shop.file))
            return f"receipt {len(shop.charged)}"

        async def acharge(key: str) -> str:
            return charge(key)

        if is_async:

            @node(output="receipt", retry=retry)
            async def pay(amount: int, ctx: Context) -> str:
                return await ctx.record("charge", acharge, ctx.idempotency_key)
        else:

            @node(output="receipt", retry=retry)
            def pay(amount: int, ctx: Context) -> str:
                return ctx.record("charge", charge, ctx.idempotency_key)

        self.graph = Graph([pay])

    def crash(self, policy: str) -> Engine:
        """Run until the crash; the engine of the process that comes after."""
        Engine(self.graph, store=SQLiteStore(self.file), on_ambiguous=policy).run({"amount": 5}, run_id="r")
        return Engine(self.graph, store=self.left[0], on_ambiguous=policy)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "runs.db")


def test_retry_makes_it_again_with_the_same_idempotency_key(shop: Shop) -> None:
    engine = shop.crash("retry")
    assert engine.resume("r")["receipt"] == "receipt 2"
    assert shop.charged[0] == shop.charged[1]


def test_fail_fails_the_item_and_makes_no_call(shop: Shop) -> None:
    result = shop.crash("fail").resume("r", check=False)
    assert (type(result.error), len(shop.charged)) == (AmbiguousCallError, 1)
    assert "node 'pay' at pay#0, call 0 ('charge')" in str(result.error)


def test_fail_is_not_retried(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "runs.db", retry=RetryPolicy(max_attempts=5, base_delay=1e-9))
    assert shop.crash("fail").resume("r", check=False).metrics.total_retries == 0


def test_after_fail_somebody_may_decide_to_retry(shop: Shop) -> None:
    engine = shop.crash("fail")
    engine.resume("r", check=False)
    assert Engine(shop.graph, store=engine.store, on_ambiguous="retry").resume("r")["receipt"] == "receipt 2"


@pytest.mark.parametrize("is_async", [False, True])
def test_ask_asks(tmp_path: Path, is_async: bool) -> None:
    shop = Shop(tmp_path / "runs.db", is_async=is_async)
    result = shop.crash("ask").resume("r")
    assert (result.status, len(shop.charged)) == ("waiting", 1)
    assert [(question.path, question.question) for question in result.questions] == [("pay#0!0", QUESTION)]


@pytest.mark.parametrize("is_async", [False, True])
def test_the_answer_may_be_the_response(tmp_path: Path, is_async: bool) -> None:
    shop = Shop(tmp_path / "runs.db", is_async=is_async)
    engine = shop.crash("ask")
    engine.resume("r")
    assert engine.resume("r", answer="receipt 1")["receipt"] == "receipt 1"
    assert len(shop.charged) == 1


def test_a_response_that_was_given_is_a_recording_like_any(shop: Shop) -> None:
    engine = shop.crash("ask")
    engine.resume("r")
    engine.resume("r", answer="receipt 1")
    assert engine.replay("r")


def test_the_answer_may_be_to_retry(shop: Shop) -> None:
    engine = shop.crash("ask")
    engine.resume("r")
    assert engine.resume("r", answer="retry")["receipt"] == "receipt 2"


def test_a_retry_that_crashes_too_is_asked_about_again(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "runs.db")
    engine = shop.crash("ask")
    engine.resume("r")
    shop.file, before = engine.store.path, shop.charged.copy()
    shop.charged.clear()
    engine.resume("r", answer="retry")
    result = Engine(shop.graph, store=shop.left[1], on_ambiguous="ask").resume("r")
    assert (result.status, result.questions[0].number, len(before)) == ("waiting", 1, 1)


def test_the_items_own_questions_are_not_mixed_up_with_it(tmp_path: Path) -> None:
    file, left, charged = tmp_path / "runs.db", [], []

    def charge() -> str:
        charged.append(1)
        if not left:
            left.append(as_if_killed(file))
        return "receipt"

    @node(output="said")
    def pay(amount: int, ctx: Context) -> str:
        ctx.record("charge", charge)
        return f"{ctx.interrupt('Gift?')}, {ctx.interrupt('Wrap?')}"

    graph = Graph([pay])
    Engine(graph, store=SQLiteStore(file), on_ambiguous="ask").run({"amount": 5}, run_id="r")
    engine = Engine(graph, store=left[0], on_ambiguous="ask")
    engine.resume("r")
    engine.resume("r", answer="receipt")
    engine.resume("r", answer="yes")
    assert engine.resume("r", answer="no")["said"] == "yes, no"


def test_a_call_that_returned_or_raised_is_in_no_doubt(tmp_path: Path) -> None:
    answers: list[Any] = [ConnectionError("down"), "receipt"]

    def charge() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @node(output="receipt", retry=RetryPolicy(max_attempts=2, base_delay=1e-9))
    def pay(amount: int, ctx: Context) -> Any:
        return ctx.record("charge", charge)

    engine = Engine(Graph([pay]), store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail")
    assert engine.run({"amount": 5})["receipt"] == "receipt"


def test_a_call_that_was_cancelled_at_its_timeout_is_in_doubt(tmp_path: Path) -> None:
    charged: list[int] = []

    async def charge() -> None:
        charged.append(1)
        await asyncio.Event().wait()

    @node(output="receipt", timeout=2.0, retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    async def pay(amount: int, ctx: Context) -> None:
        await ctx.record("charge", charge)

    engine = Engine(Graph([pay]), store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail")
    assert isinstance(engine.run({"amount": 5}, check=False).error, AmbiguousCallError)
    assert len(charged) == 1


def test_asking_the_time_is_in_no_doubt(tmp_path: Path) -> None:
    @node(output="when")
    def look(a: int, ctx: Context) -> str:
        return ctx.now().isoformat()

    engine = Engine(Graph([look]), store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail")
    engine.run({"a": 1}, run_id="r")
    assert [entry.kind for entry in engine.store.entries("r")] == ["call", "step"]


def test_retry_writes_no_intents(tmp_path: Path) -> None:
    @node(output="b")
    def act(a: int, ctx: Context) -> int:
        return ctx.record("call", lambda: a)

    engine = Engine(Graph([act]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"a": 1}, run_id="r")
    assert [entry.kind for entry in engine.store.entries("r")] == ["call", "step"]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_the_intent_is_durable_before_the_call(tmp_path: Path, durability: str) -> None:
    file, found = tmp_path / "runs.db", []

    @node(output="b")
    def act(a: int, ctx: Context) -> Any:
        return ctx.record("call", lambda: found.append(as_if_killed(file).find("r", "intent", "act#0")))

    engine = Engine(Graph([act]), store=SQLiteStore(file), durability=durability, on_ambiguous="fail")
    engine.run({"a": 1}, run_id="r")
    assert len(found[0]) == 1


def test_there_is_no_other_policy() -> None:
    with pytest.raises(DefinitionError, match="on_ambiguous must be 'retry' or 'fail' or 'ask'"):
        Engine(Graph([node(lambda a: a, name="n", output="b")]), on_ambiguous="guess")


# -- several calls at once -----------------------------------------------------------------------------------------


class Several:
    """Two calls at once; what a crash during both would leave is put aside."""

    def __init__(self, file: Path) -> None:
        self.made: list[int] = []
        self.left: list[SQLiteStore] = []
        self.begun: set[int] = set()
        several = self

        async def call(number: int) -> int:
            several.begun.add(number)
            while several.begun != {0, 1}:
                await asyncio.sleep(0)
            several.made.append(number)
            if not several.left:
                several.left.append(as_if_killed(file))
            return number * 10

        @node(output="y")
        async def both(x: int, ctx: Context) -> list[int]:
            return await asyncio.gather(*(ctx.record("call", call, number) for number in range(2)))

        self.graph = Graph([both])
        Engine(self.graph, store=SQLiteStore(file), on_ambiguous="ask").run({"x": 1}, run_id="r")
        self.made.clear()
        self.engine = Engine(self.graph, store=self.left[0], on_ambiguous="ask")


def test_all_that_are_in_doubt_are_asked_about_before_one_is_made(tmp_path: Path) -> None:
    several = Several(tmp_path / "runs.db")
    result = several.engine.resume("r")
    asked = [result.questions[0].path]
    result = several.engine.resume("r", answer="retry")
    asked += [question.path for question in result.questions]
    assert (asked, several.made) == (["both#0!0", "both#0!1"], [])
    assert several.engine.resume("r", answer="retry")["y"] == [0, 10]
    assert sorted(several.made) == [0, 1]


def test_one_answer_may_be_a_response_and_another_to_retry(tmp_path: Path) -> None:
    several = Several(tmp_path / "runs.db")
    several.engine.resume("r")
    several.engine.resume("r", answer=7)
    assert several.engine.resume("r", answer="retry")["y"] == [7, 10]
    assert several.made == [1]


# -- whole nodes ---------------------------------------------------------------------------------------------------


class Bank:
    """A node that is recorded as a whole; the first time, what a crash during it would leave is put aside."""

    def __init__(self, file: Path, mode: str = "sync", *, executor: Any = None) -> None:
        self.file, self.paid, self.left = file, [], []
        self.raises: Exception | None = None
        bank = self
        effects = SideEffectPolicy(recordable=True, requires_idempotency=True)

        def transfer(amount: int) -> str:
            bank.paid.append(amount)
            if not bank.left:
                bank.left.append(as_if_killed(bank.file))
            if bank.raises is not None:
                raise bank.raises
            return f"paid {len(bank.paid)}"

        if mode == "async":

            @node(output="receipt", side_effects=effects, idempotency_key=lambda amount: "k")
            async def pay(amount: int) -> str:
                return transfer(amount)
        else:

            @node(output="receipt", side_effects=effects, idempotency_key=lambda amount: "k")
            def pay(amount: int) -> str:
                return transfer(amount)

        self.graph = Graph([pay])

    def crash(self, policy: str) -> Engine:
        """Run until the crash; the engine of the process that comes after."""
        Engine(self.graph, store=SQLiteStore(self.file), on_ambiguous=policy).run({"amount": 5}, run_id="r")
        return Engine(self.graph, store=self.left[0], on_ambiguous=policy)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_fail_fails_a_node_that_is_recorded_as_a_whole(tmp_path: Path, mode: str) -> None:
    bank = Bank(tmp_path / "runs.db", mode)
    result = bank.crash("fail").resume("r", check=False)
    assert (type(result.error), len(bank.paid)) == (AmbiguousCallError, 1)
    assert "node 'pay' at pay#0 started" in str(result.error)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_ask_asks_about_a_node_that_is_recorded_as_a_whole(tmp_path: Path, mode: str) -> None:
    bank = Bank(tmp_path / "runs.db", mode)
    engine = bank.crash("ask")
    result = engine.resume("r")
    assert [question.path for question in result.questions] == ["pay#0!"]
    assert engine.resume("r", answer="paid by hand")["receipt"] == "paid by hand"
    assert (len(bank.paid), bool(engine.replay("r"))) == (1, True)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_answer_for_a_whole_node_may_be_to_retry(tmp_path: Path, mode: str) -> None:
    bank = Bank(tmp_path / "runs.db", mode)
    engine = bank.crash("ask")
    engine.resume("r")
    assert engine.resume("r", answer="retry")["receipt"] == "paid 2"


def test_retry_calls_a_whole_node_again_and_writes_no_intents(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "runs.db")
    engine = bank.crash("retry")
    assert engine.resume("r")["receipt"] == "paid 2"
    assert engine.store.find("r", "intent", "pay#0") == []


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_whole_node_that_raised_is_in_no_doubt(tmp_path: Path, mode: str) -> None:
    bank = Bank(tmp_path / "runs.db", mode)
    bank.raises = ConnectionError("down")
    engine = Engine(bank.graph, store=SQLiteStore(bank.file), on_ambiguous="fail")
    assert engine.run({"amount": 5}, run_id="r", check=False).status == "failed"
    bank.raises = None
    assert engine.resume("r")["receipt"] == "paid 2"


def test_a_whole_node_that_asked_is_in_no_doubt(tmp_path: Path) -> None:
    @node(output="receipt", side_effects=SideEffectPolicy(recordable=True))
    def pay(amount: int, ctx: Context) -> str:
        return f"paid, {ctx.interrupt('Sure?')}"

    engine = Engine(Graph([pay]), store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail")
    engine.run({"amount": 5}, run_id="r")
    assert engine.resume("r", answer="yes")["receipt"] == "paid, yes"


def test_a_node_whose_calls_are_recorded_is_in_no_doubt_as_a_whole(tmp_path: Path) -> None:
    left: list[SQLiteStore] = []

    @node(output="receipt", side_effects=SideEffectPolicy(recordable=True))
    def pay(amount: int, ctx: Context) -> str:
        receipt = ctx.record("charge", lambda: "receipt")
        if not left:
            left.append(as_if_killed(tmp_path / "runs.db"))
        return receipt

    graph = Graph([pay])
    Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail").run({"amount": 5}, run_id="r")
    assert Engine(graph, store=left[0], on_ambiguous="fail").resume("r")["receipt"] == "receipt"


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_the_intent_of_a_whole_node_is_durable_before_it_is_called(tmp_path: Path, durability: str) -> None:
    bank = Bank(tmp_path / "runs.db")
    store = SQLiteStore(bank.file)
    Engine(bank.graph, store=store, durability=durability, on_ambiguous="ask").run({"amount": 5}, run_id="r")
    assert len(bank.left[0].find("r", "intent", "pay#0")) == 1


def test_doubts_are_of_one_attempt(tmp_path: Path) -> None:
    """A call that raised in the first attempt is in no doubt; in the second, in flight at the crash, it is."""
    left: list[SQLiteStore] = []
    made: list[int] = []

    def charge() -> str:
        made.append(1)
        if len(made) == 1:
            raise ConnectionError("down")
        if not left:
            left.append(as_if_killed(tmp_path / "runs.db"))
        return "receipt"

    @node(output="receipt", retry=RetryPolicy(max_attempts=3, base_delay=1e-9))
    def pay(amount: int, ctx: Context) -> Any:
        return ctx.record("charge", charge)

    graph = Graph([pay])
    Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), on_ambiguous="fail").run({"amount": 5}, run_id="r")
    result = Engine(graph, store=left[0], on_ambiguous="fail").resume("r", check=False)
    assert (type(result.error), len(made)) == (AmbiguousCallError, 2)
