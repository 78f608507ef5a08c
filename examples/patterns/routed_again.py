"""A target without inputs runs once each time a gate selects it.

In the game of Pig, a player rolls a die until the turn is worth holding; a one loses everything. `roll` reads no value,
so no write can wake it: it runs only when the gate selects it. The die is `ctx.random`, which depends only on the seed
of the run and the path of the item, so the game is the same every time.
"""

import operator
from typing import Annotated, TypedDict

from clew import END, Context, Graph, ifelse, node


class Turn(TypedDict):
    rolls: Annotated[list[int], operator.add]
    score: int


@ifelse(when_true="roll", when_false="hold")
def roll_again(rolls: list[int]) -> bool:
    """Decide whether to roll again. The best players hold at twenty."""
    return 1 not in rolls and sum(rolls) < 20


@node(output="rolls")
def roll(ctx: Context) -> list[int]:
    return [ctx.random.randint(1, 6)]


@node(output="score")
def hold(rolls: list[int]) -> int:
    return 0 if 1 in rolls else sum(rolls)


@ifelse(when_true="cheer", when_false=END)
def worth_cheering(score: int) -> bool:
    return score >= 20


@node(writes=())
def cheer(score: int, ctx: Context) -> None:
    """Emit an event; this node writes no value."""
    ctx.emit("cheer", f"{score} points!")


graph = Graph([roll_again, roll, hold, worth_cheering, cheer], name="pig", state=Turn)
values: dict[str, object] = {}
options = {"seed": 12}

if __name__ == "__main__":
    for seed in range(9, 14):
        result = graph.run(values, seed=seed)
        print(f"seed {seed}: rolled {result['rolls']}, scores {result['score']}")
