"""A path through a checked run as readable text: each choice, and what happened because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from clew import display
from clew.error_text import line_of
from clew.errors import RunStateError
from clew.explore.checking.simulated_process import RUN
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant, failure_of
from clew.explore.model.world import World
from clew.state import decode, encode, same

_ENDINGS = ("the run is completed", "the run is failed", "the run is waiting")


class NarrativeStep(msgspec.Struct, frozen=True):
    """One choice and its effects."""

    choice: str
    happened: tuple[str, ...]


class Narrative(msgspec.Struct, frozen=True):
    """The steps of a path, and the invariants that are violated at its end."""

    steps: tuple[NarrativeStep, ...]
    violated: tuple[tuple[str, str], ...]  # invariant and message
    name: str = ""  # show only this invariant; "" shows all

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the choices, for a replay."""
        return tuple(step.choice for step in self.steps)

    def named(self, name: str) -> Narrative:
        """Return a copy that shows one invariant only."""
        return msgspec.structs.replace(self, name=name)

    def __repr__(self) -> str:
        violated = ", ".join(name for name, _ in self.violated) or "nothing"
        return f"<Narrative of {len(self.steps)} choices, violates {violated}>"

    def _repr_html_(self) -> str:
        return display.page(display.block(str(self)))

    def __str__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps, 1):
            lines.append(f"{number:>3}. {step.choice}")
            lines += [f"       {line}" for line in step.happened]
        shown = [f"{name}: {message}" for name, message in self.violated if self.name in ("", name)]
        return "\n".join([*(shown or ["every invariant holds"]), *lines])


def narrate(
    world: World,
    choices: Sequence[str],
    invariants: Iterable[Invariant],
    offer: Callable[[World], Iterable[Action]],
) -> Narrative:
    """Make choices one by one, and return what happened."""
    run = world.systems["run"]
    steps = []
    for number, choice in enumerate(choices, 1):
        before = _snapshot(world)
        offered = {action.name for action in offer(world)}
        if choice not in offered:
            raise RunStateError(
                f"choice {number}, {choice!r}, is not possible here: the graph, its values or the check have changed; "
                f"possible choices: {'; '.join(sorted(offered)) or 'none'}"
            )
        try:
            run.choose(choice)
        except Exception as error:  # Clew must not raise here, so the exception is the violation
            raised = f"raised {line_of(error)}"
            steps.append(NarrativeStep(choice, (*run.narrative, raised)))
            return Narrative(tuple(steps), ((choice, raised),))
        lines = [line for line in run.narrative if not line.startswith(_ENDINGS)]
        last = run.narrative[len(lines) :]  # the end of the run comes after the changes that led to it
        steps.append(NarrativeStep(choice, (*lines, *_changes(before, _snapshot(world)), *last)))
    violated = [
        (each.name, message) for each in invariants if (message := failure_of(each, world)) is not None
    ]
    return Narrative(tuple(steps), tuple(violated))


def _snapshot(world: World) -> dict[str, Any]:
    """Return the number of committed steps and the state, under "", and the data of the other systems."""
    run = world.systems["run"]
    steps = [entry[2] for entry in run.disk.names(RUN)[1:] if entry[0] == "step" and not entry[1]]
    seen = {name: system.observe().data for name, system in world.systems.items() if name != "run"}
    return {"": (len(steps), dict(run.state.values)), **seen}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    lines = [
        f"{name} is now {_short(after[name])}"
        for name in after
        if name and not same(after[name], before[name])
    ]
    (had, values), (steps, now) = before[""], after[""]
    if steps > had:
        new = [f"{n} = {_short(now[n], 60)}" for n in now if n not in values or not same(now[n], values[n])]
        lines.append(": ".join([f"step {steps} is committed", *([", ".join(new)] if new else [])]))
    return lines


def _short(value: Any, limit: int = 200) -> str:
    text = repr(decode(encode(value)))  # the order of sets must not depend on the hash seed
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
