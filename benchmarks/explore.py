"""Exploring: the cost of a transition, and whether it grows with the number of states.

The model is three independent records, each absent or holding one of some values, with create, change and delete as
actions: n values make (n + 1)³ states, and 22³ = 10,648 is the number that everybody must find. Each of the nine
actions is done in each state, so there are nine transitions a state; an action that does not apply changes nothing.

Who explores exhaustively is asked for the number of states. Hypothesis, which walks at random, is asked to take as many
steps as there are transitions; how many of the states it saw is in the README.
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
# VenomQA looks through all open pairs at each step: beyond a thousand states a run of it takes minutes
PEERS = EXHAUSTIVE | {"VenomQA"}
SIZES = {5: PEERS, 9: PEERS, 21: EXHAUSTIVE, 31: EXHAUSTIVE}
QUICK = (5, 21)
WALK = 21


def explore(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for values in QUICK if settings.quick else SIZES:
        states = (values + 1) ** 3
        title = f"explore a model of {states:,} states in memory, per transition"
        row = Row(f"explore-{states}", "explore", title, "µs", BAR, states)
        timing = Timing("explore", (values,), states, states * ACTIONS, only=SIZES[values])
        yield measure(row, timing, contestants, settings)
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
