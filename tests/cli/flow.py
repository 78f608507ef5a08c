"""The graphs that the tests of the command line run; it is copied into their folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, TypedDict

from clew import END, Context, Graph, SideEffectPolicy, append, ifelse, interrupt, node


def look_up(text: str) -> str:
    with open("effects.log", "a") as effects:
        effects.write(f"{text}\n")
    return text.upper()


@node(output="shout", side_effects=SideEffectPolicy(recordable=True))
def call(query: str, ctx: Context) -> str:
    return ctx.record("look_up", look_up, query + os.environ.get("SUFFIX", ""))


@node(output="answer")
def finish(shout: str, marks: int = 1) -> str:
    return shout + os.environ.get("MARK", "!") * marks


graph = Graph([call, finish], name="hello")
greeting = graph  # a module may hold a graph under two names


@node(output="draft")
def write(topic: str) -> str:
    return f"about {topic}"


@interrupt(output="approved")
def approve(draft: str) -> str:
    return f"send {draft!r}?"


@node(output="sent")
def send(approved: bool, draft: str) -> str:
    return draft if approved else "nothing"


asking = Graph([write, approve, send], name="asking")


@node(output="b")
def broken(a: int) -> int:
    if not Path("mended").exists():
        raise ValueError("the pipe is broken")
    return a + 1


failing = Graph([broken], name="failing")


@node(output="c")
def beside(a: int) -> int:
    return a + 2


confining = Graph([broken, beside], name="confining")


class Count(TypedDict):
    count: int
    seen: Annotated[list[int], append]
    pause: float


@node(writes=("count", "seen"))
def tick(count: int, pause: float, ctx: Context) -> dict[str, int]:
    with open("ticks.log", "a") as ticks:
        ticks.write(f"{count}\n")
    while os.path.exists("hold") and count >= int(Path("hold").read_text()):
        time.sleep(0.01)
    time.sleep(pause)
    return {"count": count + 1, "seen": count}


@ifelse(when_true="tick", when_false=END)
def more(count: int) -> bool:
    return count < 20


slow = Graph([tick, more], state=Count, name="slow", entry="tick")


@node(output="total")
def add(shout: str, answer: str) -> str:
    return shout + answer


nested = Graph([graph.as_node(name="inner"), add], name="nested")


def made() -> Graph:
    return graph
