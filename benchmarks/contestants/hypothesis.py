"""Hypothesis: a rule-based state machine over the same model, which takes its steps at random.

It is made to find failures in few examples, and not to visit all states: what a step costs can be compared, what it
covers is said in the README.
"""

# The peers live in an environment of their own, where the type checker does not look.
# mypy: disable-error-code="import-not-found, misc, no-any-return, override, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

IMPORTS = "hypothesis"
ABSENT = {"explore": "it does not explore to the end"}

LENGTH = 50  # steps of an example, its default


def _rules(key: str, values: int) -> dict[str, Any]:
    @rule()
    def create(self: Any) -> None:
        self.rows.setdefault(key, 0)

    @rule()
    def change(self: Any) -> None:
        if key in self.rows:
            self.rows[key] = (self.rows[key] + 1) % values

    @rule()
    def delete(self: Any) -> None:
        self.rows.pop(key, None)

    return {f"create_{key}": create, f"change_{key}": change, f"delete_{key}": delete}


def machine(values: int, steps: int, visited: set[tuple[Any, ...]], done: list[int]) -> Callable[[], int]:
    def begin(self: Any) -> None:
        RuleBasedStateMachine.__init__(self)
        self.rows = {}

    def check(self: Any) -> None:
        done[0] += 1
        visited.add(tuple(sorted(self.rows.items())))

    body: dict[str, Any] = {"__init__": begin, "check_invariants": lambda self, *rest, **named: check(self)}
    for key in ("r0", "r1", "r2"):
        body |= _rules(key, values)
    model = type("Model", (RuleBasedStateMachine,), body)
    options = settings(
        max_examples=steps // LENGTH,
        stateful_step_count=LENGTH,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def run() -> int:
        run_state_machine_as_test(model, settings=options)
        return steps

    return run


def walk(values: int, steps: int) -> Callable[[], int]:
    return machine(values, steps, set(), [0])
