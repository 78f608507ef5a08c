"""A graph with one of everything whose order could matter.

It has a loop, gates, a fan-out, uneven branches with a join, reduced values, a subgraph with its own loop, and a mapped
subgraph. As a script it prints the digests of all steps, so that a process with another hash seed can be compared.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from clew import END, Engine, Graph, Send, ifelse, merge, node, route
from clew.testing import VirtualClock


class State(TypedDict, total=False):
    topic: str
    outline: list[str]
    facts: Annotated[list[str], operator.add]
    seen: Annotated[dict[str, int], merge]
    tone: str
    palette: list[str]
    colours: list[str]
    pictures: list[str]
    draft: str
    score: int
    final: str


@node(output="outline")
def outline(topic: str, score: int = 0) -> list[str]:
    return [f"{topic} {part}.{score}" for part in ("origin", "growth", "decline", "legacy")]


@route(targets=["dig"])
def assign(outline: list[str]) -> list[Send]:
    return [Send("dig", {"chapter": chapter}) for chapter in outline]


@node(output="tone")
def tone(outline: list[str]) -> str:
    return f"tone of {len(outline)}"


@node(output="palette")
def palette(tone: str) -> list[str]:
    return [tone, tone[::-1]]


@node(output="colours")
def colours(palette: list[str]) -> list[str]:
    return sorted(palette)


@node(output="found")
def search(chapter: str, found: int = 0) -> int:
    return found + len(chapter)


@ifelse(when_true="search", when_false=END)
def again(found: int) -> bool:
    return found < 40


@node(output="picture")
def paint(colour: str) -> str:
    return f"<{colour}>"


@node(writes=("draft", "facts"))
def write(facts: list[str], seen: dict[str, int], pictures: list[str]) -> dict[str, Any]:
    return {
        "draft": " / ".join([*facts, *map(str, seen.items()), *pictures]),
        "facts": [f"draft {len(facts)}"],
    }


@node(output="score")
def judge(draft: str) -> int:
    return len(draft)


@route(targets=["outline", "publish"])
def good(score: int) -> str:
    return "outline" if score < 450 else "publish"


@node(output="final")
def publish(draft: str) -> str:
    return draft.upper()


def rich() -> Graph:
    """The graph; each of its parts is a graph of three to nine steps."""
    dig = Graph([search, again], name="dig").as_node(
        inputs=("chapter",),
        outputs=("facts", "seen"),
        transform_input=lambda seen: {"chapter": seen["chapter"]},
        transform_output=lambda state: {
            "facts": [f"{state['chapter']}: {state['found']}"],
            "seen": {state["chapter"]: state["found"]},
        },
    )
    paintings = Graph([paint], name="paintings").map_over("colour")
    pictures = paintings.nodes["paintings"].rename(
        inputs={"colour": "colours"}, outputs={"picture": "pictures"}
    )
    return Graph(
        [outline, assign, tone, palette, colours, dig, pictures, write, judge, good, publish],
        state=State,
        name="rich",
        entry=["outline"],
    )


def rich_engine(**options: Any) -> Engine:
    return Engine(rich(), clock=VirtualClock(), seed=7, **options)


GIVEN = {"topic": "tea"}


def digests_of(engine: Engine, run_id: str) -> list[str]:
    """The digests of all steps, those of the subgraphs included."""
    found: list[str] = []

    def collect(checkpoints: Any) -> None:
        for checkpoint in checkpoints:
            found.append(checkpoint.digest)
            for path in sorted(checkpoint.nested):
                collect(checkpoint.nested[path])

    collect(engine.history(run_id, nested=True))
    return found


if __name__ == "__main__":
    with rich_engine() as made:
        result = made.run(GIVEN, run_id="script")
        print(result.status, *digests_of(made, "script"), sep="\n")
