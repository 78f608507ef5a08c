"""A counterexample as a story: what ran, what failed where, what was seen twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from clew.error_text import line_of
from clew.errors import RunStateError
from clew.explore.checking.simulated_process import RUN
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant, failure_of
from clew.explore.model.world import World
from clew.state import decode, encode

_ENDINGS = ("the run is completed", "the run is failed", "the run is waiting")


class NarrativeStep(msgspec.Struct, frozen=True):
    """One choice, and what came of it."""

    choice: str
    happened: tuple[str, ...]


class Narrative(msgspec.Struct, frozen=True):
    """A path, told: its chapters, and which invariants did not hold at its end."""

    chapters: tuple[NarrativeStep, ...]
    wrong: tuple[tuple[str, str], ...]  # invariant and message
    name: str = ""  # of the invariant that it is told for

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices, to make them again."""
        return tuple(chapter.choice for chapter in self.chapters)

    def named(self, name: str) -> Narrative:
        """The same, told for one invariant."""
        return msgspec.structs.replace(self, name=name)

    def __str__(self) -> str:
        lines = []
        for number, chapter in enumerate(self.chapters, 1):
            lines.append(f"{number:>3}. {chapter.choice}")
            lines += [f"       {line}" for line in chapter.happened]
        wrong = [f"{name}: {message}" for name, message in self.wrong if not self.name or name == self.name]
        return "\n".join([*wrong, *lines] if wrong else ["every invariant holds", *lines])


def tell(
    world: World,
    choices: Sequence[str],
    invariants: Iterable[Invariant],
    offer: Callable[[World], Iterable[Action]],
) -> Narrative:
    """Make choices one by one; what happened at each, in words."""
    run = world.systems["run"]
    chapters = []
    for number, choice in enumerate(choices, 1):
        before = _seen(world)
        offered = {action.name for action in offer(world)}
        if choice not in offered:
            raise RunStateError(
                f"choice {number}, {choice!r}, cannot be made here: the graph, its values or the check have changed; "
                f"there are: {'; '.join(sorted(offered)) or 'none'}"
            )
        try:
            run.choose(choice)
        except Exception as error:  # nothing of Clew may raise here: it is what is wrong
            chapters.append(NarrativeStep(choice, (*run.story, f"raised {line_of(error)}")))
            return Narrative(tuple(chapters), ((choice, f"raised {line_of(error)}"),))
        said = [line for line in run.story if not line.startswith(_ENDINGS)]
        last = run.story[len(said) :]  # that the run has ended comes after what it ended with
        chapters.append(NarrativeStep(choice, (*said, *_changes(before, _seen(world)), *last)))
    wrong = [(each.name, message) for each in invariants if (message := failure_of(each, world)) is not None]
    return Narrative(tuple(chapters), tuple(wrong))


def _seen(world: World) -> dict[str, Any]:
    """What can be told: the committed steps, and what the other systems show."""
    run = world.systems["run"]
    steps = [entry[2] for entry in run.disk.names(RUN)[1:] if entry[0] == "step" and not entry[1]]
    seen = {name: system.observe().data for name, system in world.systems.items() if name != "run"}
    return {"": (len(steps), dict(run.state.values)), **seen}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    told = [f"{name} is now {_short(after[name])}" for name in after if name and after[name] != before[name]]
    (had, values), (steps, now) = before[""], after[""]
    if steps > had:
        new = [f"{n} = {_short(now[n], 60)}" for n in now if n not in values or not _same(now[n], values[n])]
        told.append(": ".join([f"step {steps} is committed", *([", ".join(new)] if new else [])]))
    return told


def _same(one: Any, other: Any) -> bool:
    return one is other or encode(one) == encode(other)


def _short(value: Any, most: int = 200) -> str:
    text = repr(decode(encode(value)))  # in one order, whatever the order in memory
    return text if len(text) <= most else f"{text[: most - 3]}..."
