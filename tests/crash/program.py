"""The program that is killed: a loop, a fan-out, a reducer, a subgraph, retries, gates, and recorded calls.

Each recorded call leaves one line in a file, with its idempotency key, when it takes effect. `effects` is the file; the
program knows it from the outside world, as a program knows a server.
"""

from __future__ import annotations

import asyncio
import operator
import os
import time
from typing import Annotated, Any, TypedDict

from clew import END, Context, Graph, RetryPolicy, Send, append, ifelse, interrupt, node, route

QUICK = RetryPolicy(max_attempts=4, base_delay=0.002, max_delay=0.01)
_effects = ""
_pad = ""


def set_world(effects: str, pad: int = 0) -> None:
    """Where effects go, and how large what the calls answer is."""
    global _effects, _pad
    _effects, _pad = effects, "." * pad


def effect(key: str, what: str) -> str:
    """Something that happens in the world, once for each call."""
    file = os.open(_effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{key} {what}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)
    return what.upper() + _pad


class Unreachable(Exception):
    """What a recorded call raises; a class of the program's own."""


class State(TypedDict, total=False):
    topic: str
    drafts: Annotated[list[str], append]
    score: int
    facts: Annotated[list[str], operator.add]
    report: str
    sent: str


@node(output="drafts")
def draft(topic: str, drafts: list[str], ctx: Context) -> str:
    what = f"draft-{len(drafts)}"
    return (
        f"{ctx.record('write', effect, ctx.idempotency_key, what)} of {topic} ({ctx.random.randrange(1000)})"
    )


@node(output="score")
def judge(drafts: list[str]) -> int:
    return len(drafts)


@ifelse(when_true="split", when_false="draft")
def good_enough(score: int) -> bool:
    return score >= 3


@node(goto=["look"], writes=())
def split(drafts: list[str]) -> Any:
    from clew import Command

    return Command(goto=[Send("look", {"draft": text[:7], "number": i}) for i, text in enumerate(drafts)])


@node(output="facts", retry=QUICK)
def look(draft: str, number: int, ctx: Context) -> list[str]:
    found = ctx.record("search", effect, f"{ctx.idempotency_key}-a", f"search-{number}")
    if number == 1 and ctx.attempt < 2:
        raise ConnectionError(f"attempt {ctx.attempt}")  # after an effect, which must not happen again
    more = ctx.record("fetch", effect, f"{ctx.idempotency_key}-b", f"fetch-{number}")
    return [found, more]


@node(output="outline")
def outline(facts: list[str], ctx: Context) -> str:
    return str(ctx.record("outline", effect, ctx.idempotency_key, f"outline-of-{len(facts)}"))


def _refusing(attempt: int, key: str, what: str) -> str:
    if attempt == 0:
        raise Unreachable("not yet")
    return effect(key, what)


@node(output="text", retry=RetryPolicy(4, 0.002, 0.01, lambda error: isinstance(error, Unreachable)))
def write_up(outline: str, ctx: Context) -> str:
    return (
        f"{ctx.record('write', _refusing, ctx.attempt, ctx.idempotency_key, 'text')} ({ctx.random.random()})"
    )


@node(output="report")
def polish(text: str, ctx: Context) -> str:
    return f"{text} {ctx.record('polish', effect, ctx.idempotency_key, 'polish')} {ctx.uuid4()}"


INSIDE = Graph([outline, write_up, polish], name="inside")


@node(output="sent")
def send(report: str, ctx: Context) -> str:
    return str(ctx.record("send", effect, ctx.idempotency_key, "send"))


@route(targets=["send", END])
def worth_sending(report: str) -> Any:
    return "send" if report else END


GRAPH = Graph(
    [
        draft,
        judge,
        good_enough,
        split,
        look,
        INSIDE.as_node(name="inside", outputs=["report"]),
        worth_sending,
        send,
    ],
    state=State,
    name="killed",
)
VALUES = {"topic": "tides"}


# -- a retry's wait

SLOW = RetryPolicy(max_attempts=3, base_delay=0.6, max_delay=0.6)  # so each wait is 0.6 s


def _attempt(attempt: int, name: str) -> None:
    effect(f"{name}-{attempt}", str(time.time()))
    if attempt < 2:
        raise ConnectionError(f"attempt {attempt}")


@node(output="x", retry=SLOW)
def flaky(topic: str, ctx: Context) -> int:
    _attempt(ctx.attempt, "flaky")
    return 1


@node(output="y")
def first_inside(topic: str, ctx: Context) -> int:
    return len(str(ctx.record("first", effect, "first", "inside")))


@node(output="z")
def then_inside(y: int) -> int:
    _attempt(count_of("then"), "then")
    return y


def count_of(name: str) -> int:
    """How often `_attempt` was called under a name, by all processes."""
    with open(_effects) as file:
        return sum(line.startswith(f"{name}-") for line in file)


# -- all that the first program has not: async nodes, several calls at once, a map, a transaction, a question, and a
# subgraph that is tried again


async def aeffect(key: str, what: str) -> str:
    """An effect that is awaited."""
    await asyncio.sleep(0)
    return effect(key, what)


@node(output="facts")
async def gather(topic: str, ctx: Context) -> list[str]:
    calls = (ctx.record("ask", aeffect, f"{ctx.idempotency_key}-{n}", f"{topic}-{n}") for n in range(3))
    return [str(found) for found in await asyncio.gather(*calls)]


@node(output="weight")
async def weigh(fact: str, ctx: Context) -> int:
    return len(str(await ctx.record("weigh", aeffect, ctx.idempotency_key, fact)))


@node(output="weights")
def rename(weight: list[int]) -> list[int]:
    return weight


@node(output="sketch")
def sketch(weights: list[int], ctx: Context) -> str:
    return str(ctx.record("sketch", effect, ctx.idempotency_key, f"sketch-{sum(weights)}"))


@node(output="picture")
def paint(sketch: str, ctx: Context) -> str:
    tries = f"{_effects}.tries"
    with open(tries, "a+") as file:  # not recorded: how often, in all lives
        file.write("x")
        file.flush()
        file.seek(0)
        count = len(file.read())
    painted = str(ctx.record("paint", effect, ctx.idempotency_key, "paint"))
    if count <= 2:
        raise ConnectionError(f"try {count}")
    return sketch + painted


@interrupt(output="is_good")
def ask(picture: str) -> str:
    return "Is it good?"


@node(output="paid")
def pay(is_good: bool, ctx: Context) -> str:
    receipt = str(ctx.record("pay", effect, ctx.idempotency_key, "pay"))
    with ctx.transaction() as db:
        db.execute("CREATE TABLE IF NOT EXISTS paid (what TEXT)")
        db.execute("INSERT INTO paid VALUES ('it')")
    return receipt


WIDE = Graph(
    [
        gather,
        Graph([weigh], name="weighing")
        .map_over("fact")
        .as_node(
            name="weigh_all", inputs=["facts"], transform_input=lambda values: {"fact": values["facts"]}
        ),
        rename,
        Graph([sketch, paint], name="painting").as_node(
            inputs=["weights"], outputs=["picture"], retry=RetryPolicy(8, 0.002, 0.01)
        ),
        ask,
        pay,
    ],
    name="wide",
)

WAITING = Graph([flaky], name="waiting")
WAITING_INSIDE = Graph([Graph([first_inside, then_inside], name="nested").as_node(retry=SLOW)], name="around")
GRAPHS = {"killed": GRAPH, "waiting": WAITING, "around": WAITING_INSIDE, "wide": WIDE}
