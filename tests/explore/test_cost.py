"""What a transition costs, in function calls: a number that a busy machine does not move."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import pytest

from clew.explore import Agent, Invariant
from tests.explore.models import Box, records
from tests.explore.test_agent import each_strategy


class Plain(Box):
    """A system that costs as little as one can: its tokens are copies of a flat dict."""

    def checkpoint(self, name: str) -> Any:
        return dict(self.value)

    def rollback(self, token: Any) -> None:
        self.value = dict(token)

    def is_valid(self, token: Any) -> bool:
        return True

    def release(self, token: Any) -> None: ...


def calls(values: int, strategy: Any) -> float:
    """Function calls for each transition, without what the model itself does."""
    agent = Agent(
        *records(values=values, box=Plain()), [Invariant("holds", lambda world: True)], strategy=strategy
    )
    agent.explore()  # whatever is imported late is imported now
    profile = cProfile.Profile()
    profile.enable()
    result = agent.explore()
    profile.disable()
    counted: Any = pstats.Stats(profile)
    outside = sum(row[1] for (file, _, _), row in counted.stats.items() if "tests" in file)
    return float(counted.total_calls - outside) / len(result.transitions)


@each_strategy
def test_a_transition_costs_the_same_however_many_states_there_are(strategy: Any) -> None:
    few, many = calls(5, strategy), calls(14, strategy)
    assert many == pytest.approx(few, rel=0.05)
    assert many < 60
