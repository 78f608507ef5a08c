"""A target without inputs runs once for each time that a gate selects it.

In the game of Pig a player rolls a die until the turn is worth holding; a one loses it all. `roll` reads no value, so
nothing that is written can make it run: only the gate does, and each time it decides for `roll`, `roll` runs. The
die comes from `ctx.random`, which depends on the run's seed and the item's path alone: the same game every time.
"""

import operator
from typing import Annotated, TypedDict

from clew import END, Context, Graph, ifelse, node


class Turn(TypedDict):
    rolls: Annotated[list[int], operator.add]
    score: int


@ifelse(when_true="roll", when_false="hold")
def roll_again(rolls: list[int]) -> bool:
    """Goes first, because a turn without rolls can be judged too. The best players hold at twenty."""
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
    """Writes nothing; whoever listens to the run hears it."""
    ctx.emit("cheer", f"{score} points!")


graph = Graph([roll_again, roll, hold, worth_cheering, cheer], name="pig", state=Turn)
values: dict[str, object] = {}
options = {"seed": 12}

if __name__ == "__main__":
    for seed in range(9, 14):
        result = graph.run(values, seed=seed)
        print(f"seed {seed}: rolled {result['rolls']}, scores {result['score']}")
