"""A path through a checked run as readable text, and in a file.

- The text has each choice, and what happened because of it.
- A file describes the check, its result, and for each counterexample the choices that lead to the violation. A replay
  needs the same check. It makes the choices one by one, and raises an error if one of them is not possible.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clew import display
from clew.error_text import line_of
from clew.errors import DefinitionError, RunStateError
from clew.explore.checking.simulated_process import RUN
from clew.explore.model.actions import Action
from clew.explore.model.invariants import Invariant, failure_of
from clew.explore.model.world import World
from clew.explore.reports import SUFFIXES, check_report_path
from clew.state import decode, encode, same

if TYPE_CHECKING:
    from clew.explore.checking.check import CheckResult


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


FORMAT = 2
REPORT_SUFFIXES = (*SUFFIXES, ".txt")


def document(result: CheckResult) -> dict[str, Any]:
    """Return a result as values that JSON can represent."""
    options = result.check._options
    return {
        "clew_check": FORMAT,
        "graph": result.check.graph.name or "",
        "structure": result.check.graph.structure_hash,
        "faults": sorted(options["faults"]),
        "max_faults": options["max_faults"],
        "ok": result.ok,
        "states": result.states,
        "transitions": result.transitions,
        "ends": result.ends,
        "truncated": result.truncated,
        "counterexamples": [
            {
                "invariant": each.name,
                "message": next((message for name, message in each.violated if name == each.name), ""),
                "choices": list(each.choices),
                "steps": [{"choice": step.choice, "happened": list(step.happened)} for step in each.steps],
            }
            for each in result.narratives
        ],
    }


def save(result: CheckResult, path: str | os.PathLike[str]) -> None:
    """Write a result: counterexamples to a .json file, or the report that the suffix names."""
    check_report_path(path, REPORT_SUFFIXES)
    target = Path(path)
    if target.suffix.lower() == ".json":
        target.write_text(json.dumps(document(result), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    elif target.suffix.lower() == ".txt":
        target.write_text(f"{result}\n", encoding="utf-8")
    else:
        result.explored.save(target)


def counterexamples(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = (
            f"cannot be read: {error.strerror}"
            if isinstance(error, OSError)
            else f"is not valid JSON: {error}"
        )
        raise DefinitionError(
            f"{path} {problem}; use a .json file written by `clew check --report`"
        ) from error
    if not isinstance(found, dict) or "clew_check" not in found:
        raise DefinitionError(
            f"{path} is not a file of counterexamples; use a .json file written by `clew check --report`"
        )
    if found["clew_check"] != FORMAT:
        raise DefinitionError(
            f"{path} has format {found['clew_check']!r}, this version reads format {FORMAT}; run the check again"
        )
    listed = found.get("counterexamples")
    if not isinstance(listed, list) or not all(map(_is_counterexample, listed)):
        raise DefinitionError(
            f"{path} is damaged: a counterexample has no invariant or no choices; run the check again"
        )
    return listed


def _is_counterexample(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("invariant"), str)
        and isinstance(found.get("choices"), list)
        and all(isinstance(choice, str) for choice in found["choices"])
    )
