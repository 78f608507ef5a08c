"""The cost of a transition in function calls, which does not depend on the load of the machine."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import pytest

from clew.explore import Agent, Invariant
from tests.explore.models import Box, records
from tests.explore.test_agent import each_strategy


class Plain(Box):
    """A minimal system: its tokens are copies of a flat dict."""

    def checkpoint(self, name: str) -> Any:
        return dict(self.value)

    def rollback(self, token: Any) -> None:
        self.value = dict(token)

    def is_valid(self, token: Any) -> bool:
        return True

    def release(self, token: Any) -> None: ...


def calls(values: int, strategy: Any) -> float:
    """Return the number of function calls per transition, without those of the model."""
    agent = Agent(
        *records(values=values, box=Plain()), [Invariant("holds", lambda world: True)], strategy=strategy
    )
    agent.explore()  # so that lazy imports are done
    profile = cProfile.Profile()
    profile.enable()
    result = agent.explore()
    profile.disable()
    counted: Any = pstats.Stats(profile)
    outside = sum(row[1] for (file, _, _), row in counted.stats.items() if "tests" in file)
    return float(counted.total_calls - outside) / len(result.transitions)


@each_strategy
def test_the_cost_of_a_transition_does_not_depend_on_the_number_of_states(strategy: Any) -> None:
    few, many = calls(5, strategy), calls(14, strategy)
    assert many == pytest.approx(few, rel=0.05)
    assert many < 60
