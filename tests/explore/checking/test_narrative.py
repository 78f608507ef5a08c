"""The narrative of a counterexample: exceptions, questions, changes and the end of the run."""

from __future__ import annotations

from typing import Any

from clew import Context, Graph, RetryPolicy, interrupt, node
from clew.explore import Check, Invariant, at_end
from clew.explore.systems import MemoryStorage


def counterexample(check: Check) -> str:
    (narrative,) = check.run().narratives
    return str(narrative)


def test_a_retry_that_pays_twice() -> None:
    bank = MemoryStorage()

    @node(output="paid", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def pay(order: str) -> str:
        number = len(bank.list()) + 1
        bank.put(f"payment {number}", order)
        if number == 1:
            raise ConnectionError("reset by peer")
        return order

    once = Invariant("paid once", lambda world: len(bank.list()) <= 1 or "it was paid twice")
    text = counterexample(Check(Graph([pay]), {"order": "tea"}, [once], systems={"bank": bank}, faults=()))
    assert (
        text
        == """\
paid once: it was paid twice
  1. complete pay#0
       pay#0 raises ConnectionError: reset by peer
       bank is now {'payment 1': 'tea'}
  2. retry pay#0
  3. complete pay#0
       bank is now {'payment 1': 'tea', 'payment 2': 'tea'}
       step 1 is committed: paid = 'tea'
       the run is completed"""
    )


def test_an_update_that_is_lost_between_two_writers() -> None:
    """The values that each of them read are shown."""
    stock = MemoryStorage()

    def reads(name: str) -> Any:
        return node(output=f"seen_{name}", name=f"read_{name}")(lambda order: stock.get("tea") or 0)

    @node(output="a")
    def write_a(seen_a: int) -> None:
        stock.put("tea", seen_a + 1)

    @node(output="b")
    def write_b(seen_b: int) -> None:
        stock.put("tea", seen_b + 1)

    both = Invariant("both counted", at_end(lambda world: stock.get("tea") == 2 or "one was lost"))
    graph = Graph([reads("a"), write_a, reads("b"), write_b])
    text = counterexample(Check(graph, {"order": 1}, [both], systems={"stock": stock}, faults=()))
    assert "step 1 is committed: seen_a = 0, seen_b = 0" in text
    assert text.startswith("both counted: one was lost")


def test_a_question_and_its_answer() -> None:
    books = MemoryStorage()

    @interrupt(output="ok")
    def approve(order: str) -> str:
        return f"pay {order}?"

    @node(output="booked")
    def book(ok: bool, ctx: Context) -> bool:
        ctx.record("book", lambda: books.put(f"booking {len(books.list()) + 1}", ok))
        return ok

    once = Invariant("booked once", lambda world: len(books.list()) <= 1 or "it was booked twice")
    check = Check(
        Graph([approve, book]),
        {"order": "tea"},
        [once],
        systems={"books": books},
        faults={"crash"},
        answers={"approve": [True]},
    )
    assert (
        counterexample(check)
        == """\
booked once: it was booked twice
  1. complete approve#0
       the run is waiting: approve#0 asks 'pay tea?'
  2. answer approve#0: true
       the answer to approve#0 is true
       the run is resumed
       step 1 is committed: ok = True
  3. crash in complete book#0 at after-call 1
       book#0: call 0 ('book') is made
       the process dies at crash point after-call 1
       books is now {'booking 1': True}
  4. resume
       another process takes the run over
  5. complete book#0
       book#0: call 0 ('book') is made, for the second time
       books is now {'booking 1': True, 'booking 2': True}
       step 2 is committed: booked = True
       the run is completed"""
    )


def test_a_compensation_that_fails() -> None:
    """It succeeded, its result was lost, and it cannot be repeated."""
    trip = MemoryStorage()

    @node(output="flight")
    def fly(order: str) -> str:
        trip.put("flight", order)
        return order

    @node(output="cancelled", retry=RetryPolicy(max_attempts=2, base_delay=1.0))
    def cancel(flight: str) -> bool:
        if "flight" not in trip.list():
            raise LookupError("there is no flight to cancel")
        trip.delete("flight")
        return True

    done = Invariant("it ends well", at_end(lambda world: world.systems["run"].status == "completed" or "no"))
    check = Check(Graph([fly, cancel]), {"order": "Oslo"}, [done], systems={"trip": trip}, faults={"timeout"})
    text = counterexample(check).splitlines()
    assert "  2. time out cancel#0" in text
    assert "       cancel#0 raises LookupError: there is no flight to cancel" in text
    assert text[-1] == "       the run is failed"


def test_large_values_are_cut() -> None:
    big = node(output="text", name="write")(lambda order: "a" * 1_000)
    short = Invariant(
        "short", at_end(lambda world: len(world.systems["run"].state.values["text"]) < 10 or "no")
    )
    text = counterexample(Check(Graph([big]), {"order": 1}, [short], faults=()))
    assert f"step 1 is committed: text = '{'a' * 56}..." in text
