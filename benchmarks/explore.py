"""Exploring: the cost of a transition, and whether it grows with the number of states.

The model is three independent records, each absent or holding one of some values, with create, change and delete as
actions: n values make (n + 1)³ states, and 22³ = 10,648 is the number that everybody must find. Each of the nine
actions is done in each state, so there are nine transitions a state; an action that does not apply changes nothing.

Who explores exhaustively is asked for the number of states. VenomQA looks through all open pairs at each step, so its
cost grows with the model: it is given the two small ones, and the largest would take it many minutes. Each of Clew's
strategies is run to exhaustion at two sizes; the last table says how the cost of a transition grows between them.
Hypothesis, which walks at random, is asked for a number of steps; how many of the states it saw is in the README.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import CLEW, FLOOR, Contestant
from benchmarks.measure import measure
from benchmarks.rows import Bar, Result, Row, Settings, Timing

# 50,000 transitions a second, where the floor does 152,000
BAR = Bar(limit=20.0, floor=6.58)
ACTIONS = 9
EXHAUSTIVE = frozenset({FLOOR, CLEW})
PEERS = EXHAUSTIVE | {"VenomQA"}
SIZES = {2: PEERS, 5: PEERS, 21: EXHAUSTIVE}
QUICK = (2, 21)
STRATEGIES = ("BFS", "DFS", "RandomWalk", "CoverageGuided", "Weighted")
FEW, MANY = 5, 21  # values: 216 and 10,648 states
WALK = 21


def by_strategy(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for strategy in STRATEGIES:
        for values in (FEW, MANY):
            states = (values + 1) ** 3
            title = f"explore {states:,} states by {strategy}, per transition"
            row = Row(f"explore-{strategy}-{states}", f"explore {strategy}", title, "µs", BAR, states)
            timing = Timing(
                "explore_by", (values, strategy), states, states * ACTIONS, only=frozenset({CLEW})
            )
            yield measure(row, timing, contestants, settings)


def explore(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for values in QUICK if settings.quick else SIZES:
        states = (values + 1) ** 3
        title = f"explore a model of {states:,} states in memory, per transition"
        row = Row(f"explore-{states}", "explore", title, "µs", BAR, states)
        timing = Timing("explore", (values,), states, states * ACTIONS, only=SIZES[values])
        yield measure(row, timing, contestants, settings)
    if not settings.quick:
        yield from by_strategy(contestants, settings)
    steps = 2_000 if settings.quick else 20_000
    row = Row(
        f"walk-{steps}",
        "walk",
        f"a walk of {steps:,} steps through 10,648 states, per step",
        "µs",
        None,
        steps,
    )
    timing = Timing("walk", (WALK, steps), steps, steps, only=frozenset({CLEW, "Hypothesis"}))
    yield measure(row, timing, contestants, settings)
