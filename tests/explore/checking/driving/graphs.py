"""Small graphs with one of everything that a driver has to keep right; each with sync bodies, and with async ones.

The names and what is written are the same in both, so their chains have the same digests.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

from clew import Context, Graph, RetryPolicy, Send, interrupt, node, route
from clew.state import GraphState
from tests.explore.checking.driving.case import Outside
from tests.explore.checking.driving.path import Path

Mode = Literal["sync", "async"]


class Bodies:
    """Makes nodes whose bodies call outside, sync or async."""

    def __init__(self, outside: Outside, mode: Mode, mark: str = "?") -> None:
        self.outside, self.mode = outside, mode
        self.mark = mark  # what stands for a value in the SQL of the store

    def __call__(self, name: str, reads: str, writes: str, value: str, **policy: Any) -> Any:
        """A node that returns an expression; in it, CALL is a recorded call."""
        is_async = self.mode == "async"
        call = "acall" if is_async else "call"
        recorded = f"ctx.record('call', outside.{call}, ctx.path, key=ctx.idempotency_key)"
        value = value.replace("CALL", f"(await {recorded})" if is_async else recorded)
        lines = [
            f"{'async ' if is_async else ''}def {name}({reads}, ctx: Context):",
            "    outside.begin(ctx.path, ctx.attempt)",
            "    await outside.pause(ctx.path)" if is_async and "await" not in value else "",
            f"    return outside.end(ctx.path, {value})",
        ]
        made: dict[str, Any] = {"Context": Context, "outside": self.outside}
        exec("\n".join(lines), made)
        return node(output=writes, **policy)(made[name])


def chain(body: Bodies) -> Graph:
    """One after the other: the short way, inline."""
    return Graph(
        [
            body("pay", "x", "paid", "CALL"),
            body("send", "paid", "sent", "CALL"),
            body("done", "sent", "end", "[sent]"),
        ]
    )


class Parts(TypedDict, total=False):
    parts: int
    done: Annotated[list[str], operator.add]
    total: int


def fan_out(body: Bodies) -> Graph:
    """Several at once, on threads or as tasks."""

    @route(targets=["each"])
    def spread(parts: int) -> list[Send]:
        return [Send("each", {"part": n}) for n in range(parts)]

    return Graph(
        [spread, body("each", "part", "done", "[CALL]"), body("count", "done", "total", "len(done)")],
        state=Parts,
    )


def question(body: Bodies) -> Graph:
    """A run that waits for a person, beside other work."""

    @interrupt(output="ok")
    def approve(x: int) -> str:
        return f"pay {x}?"

    return Graph([approve, body("price", "x", "sum", "CALL"), body("pay", "ok, sum", "paid", "CALL")])


AGAIN = RetryPolicy(max_attempts=2, base_delay=1.0)


def retried(body: Bodies) -> Graph:
    """An attempt that fails, and a wait before the next one, beside other work."""
    return Graph(
        [
            body("flaky", "x", "a", "1 // ctx.attempt and CALL", retry=AGAIN),
            body("other", "x", "b", "CALL"),
            body("join", "a, b", "c", "[a, b]"),
        ]
    )


def late(body: Bodies) -> Graph:
    """An attempt that takes too long, and is tried again beside its first one, which may still return or raise."""
    slow = "[CALL, ctx.attempt] if outside.path.timeouts <= ctx.attempt else 1 // 0"
    return Graph(
        [
            body("slow", "x", "a", slow, retry=AGAIN, timeout=5.0),
            body("other", "x", "b", "CALL"),
            body("join", "a, b", "c", "[a, b]"),
        ]
    )


def is_in_time(path: Path, state: GraphState) -> bool:
    """Whether `late` went through at once, with what comes from the attempt that was not over."""
    return bool(path.times == 1 and state.values["a"][1] == path.timeouts)


def nested(body: Bodies) -> Graph:
    """A subgraph beside other work."""
    inner = Graph([body("first", "x", "i", "CALL"), body("second", "i", "a", "CALL")])
    return Graph(
        [
            inner.as_node("inside", inputs=("x",), outputs=("a",)),
            body("other", "x", "b", "CALL"),
            body("join", "a, b", "c", "[a, b]"),
        ]
    )


def bounded(body: Bodies) -> Graph:
    """A subgraph that takes too long as a whole, and begins anew beside what is left of it."""
    inner = Graph([body("first", "x", "i", "CALL"), body("second", "i", "a", "CALL")])
    return Graph(
        [
            inner.as_node("inside", inputs=("x",), outputs=("a",), timeout=5.0, retry=AGAIN),
            body("join", "a", "c", "[a]"),
        ]
    )


def large(body: Bodies) -> Graph:
    """Values that are kept apart, and steps that are worth a snapshot."""
    return Graph(
        [
            body("write", "x", "a", "'a' * 100_000"),
            body("copy", "a", "b", "a + CALL"),
            body("again", "b", "c", "b + 'c'"),
            body("send", "c", "d", "CALL"),
        ]
    )


def guarded(body: Bodies) -> Graph:
    """A body that catches whatever its call raises, as people write it."""
    outside = body.outside

    @node(output="sent")
    def send(paid: str, ctx: Context) -> str:
        try:
            return str(ctx.record("call", outside.call, ctx.path, key=ctx.idempotency_key))
        except Exception:
            return "not sent"

    @node(output="sent", name="send")
    async def asend(paid: str, ctx: Context) -> str:
        try:
            return str(await ctx.record("call", outside.acall, ctx.path, key=ctx.idempotency_key))
        except Exception:
            return "not sent"

    return Graph([body("pay", "x", "paid", "CALL"), asend if body.mode == "async" else send])


WRITE = "INSERT INTO effects VALUES ({})"


class Writers:
    """Makes nodes whose bodies write to the store's own database, sync or async."""

    def __init__(self, body: Bodies) -> None:
        self._outside, self._is_async, self._mark = body.outside, body.mode == "async", body.mark

    def write(self, ctx: Context) -> None:
        """Write which item this is."""
        with ctx.transaction() as db:
            db.execute(WRITE.format(self._mark), (ctx.path,))

    def guarded(self, ctx: Context) -> None:
        """The same, as people write it who catch everything."""
        try:
            self.write(ctx)
        except Exception:
            pass

    def __call__(
        self, name: str, reads: str, writes: str, value: str, write: str = "write", **policy: Any
    ) -> Any:
        """A node that writes and returns an expression."""
        lines = [
            f"{'async ' if self._is_async else ''}def {name}({reads}, ctx: Context):",
            "    outside.begin(ctx.path, ctx.attempt)",
            f"    writers.{write}(ctx)",
            "    await outside.pause(ctx.path)" if self._is_async else "",
            f"    return outside.end(ctx.path, {value})",
        ]
        made: dict[str, Any] = {"Context": Context, "outside": self._outside, "writers": self}
        exec("\n".join(lines), made)
        return node(output=writes, **policy)(made[name])


def _booking(body: Bodies, value: str, **policy: Any) -> Graph:
    writer = Writers(body)
    return Graph(
        [
            writer("pay", "x", "paid", "1"),
            writer("book", "paid", "booked", value, **policy),
            writer("ship", "paid", "shipped", "2"),
            writer("close", "booked, shipped", "end", "3"),
        ]
    )


def writing(body: Bodies) -> Graph:
    """Nodes that write to the store's own database, alone and beside each other."""
    return _booking(body, "1")


def shaky(body: Bodies) -> Graph:
    """One of them succeeds at its second attempt."""
    return _booking(body, "1 // ctx.attempt", retry=AGAIN)


def sluggish(body: Bodies) -> Graph:
    """One of them takes too long, and is tried again beside its first attempt, which may still return."""
    writer = Writers(body)
    return Graph(
        [
            writer("book", "x", "booked", "1", retry=AGAIN, timeout=5.0),
            writer("ship", "x", "shipped", "2"),
        ]
    )


def careless(body: Bodies) -> Graph:
    """Bodies that catch whatever their writes raise."""
    writer = Writers(body)
    return Graph(
        [
            writer("pay", "x", "paid", "1", "guarded"),
            writer("book", "paid", "booked", "1", "guarded"),
        ]
    )


GRAPHS: dict[str, tuple[Callable[[Bodies], Graph], dict[str, Any]]] = {
    "chain": (chain, {"x": 1}),
    "fan-out": (fan_out, {"parts": 2}),
    "question": (question, {"x": 1}),
    "retried": (retried, {"x": 1}),
    "late": (late, {"x": 1}),
    "nested": (nested, {"x": 1}),
    "bounded": (bounded, {"x": 1}),
    "large": (large, {"x": 1}),
    "guarded": (guarded, {"x": 1}),
    "writing": (writing, {"x": 1}),
    "shaky": (shaky, {"x": 1}),
    "sluggish": (sluggish, {"x": 1}),
    "careless": (careless, {"x": 1}),
}


def graph_of(name: str, outside: Outside, mode: Mode, mark: str = "?") -> tuple[Graph, dict[str, Any]]:
    """A graph with bodies of one mode, and what it is given."""
    made, values = GRAPHS[name]
    return made(Bodies(outside, mode, mark)), values
