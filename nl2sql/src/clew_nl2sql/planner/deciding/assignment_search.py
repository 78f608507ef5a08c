"""Search for likely assignments: one option for every decision, with the highest sums first.

A beam search visits the decisions in order. An option that consumes a mention or a cue forces that piece's
decision to "used", and only then; a value and a mention over the same words exclude each other. On equal
sums, the earlier assignment wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from clew_nl2sql.planner.deciding.acts import Act, Consumed, Ignore
from clew_nl2sql.planner.deciding.decisions import Decision, Option
from clew_nl2sql.planner.linear_model import LinearModel, log_softmax, score

A = TypeVar("A", bound=Act)

BEAM = 40
FAR = 7.0  # options with a log-probability this far below the best one of their decision are skipped


class Assignment(NamedTuple):
    """One option per decision, with the sum and the minimum of their log-probabilities."""

    score: float
    choices: tuple[tuple[Decision, Option], ...]
    worst: float
    used: frozenset[str]

    def acts(self, kind: str, act: type[A]) -> list[tuple[Decision, Option, A]]:
        """Return what the pieces of a kind do, if it is an act of a certain type."""
        chosen = [(decision, option) for decision, option in self.choices if decision.kind == kind]
        return [(decision, option, option.act) for decision, option in chosen if isinstance(option.act, act)]


def assignments(decisions: list[Decision], model: LinearModel, *, beam: int = BEAM) -> list[Assignment]:
    """Return the most likely assignments, best first."""
    states = [Assignment(0.0, (), 0.0, frozenset())]
    taken = _overlaps(decisions)
    for decision in decisions:
        scores = log_softmax([score(model.roles, option.features) for option in decision.options])
        ranked = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
        following = [
            state._replace(
                score=state.score + scores[n],
                choices=(*state.choices, (decision, decision.options[n])),
                worst=min(state.worst, scores[n]),
                used=state.used.union(decision.options[n].uses),
            )
            for state in states
            for n in _open(decision, state, scores, ranked, _hidden(decision, state, taken))
        ]
        following.sort(key=lambda s: -s.score)
        states = following[:beam] or states
    return states


def _open(
    decision: Decision, state: Assignment, scores: list[float], ranked: list[int], hidden: bool
) -> Iterator[int]:
    """Yield the options that an assignment may continue with, best first."""
    forced = decision.key in state.used
    limit = scores[ranked[0]] - FAR
    for n in ranked:
        option = decision.options[n]
        silent = isinstance(option.act, Ignore | Consumed)
        if forced != isinstance(option.act, Consumed) or (hidden and not silent):
            continue
        if scores[n] < limit and not forced and not hidden:
            continue
        if not _conflicts(option, state):
            yield n


def _conflicts(option: Option, state: Assignment) -> bool:
    return any(use in state.used and not _shared(use) for use in option.uses)


def _shared(use: str) -> bool:
    """Return whether several options may use a piece. They may share a mention (maximum and minimum of one
    column), but not a cue.
    """
    return use[0] == "m"


def _overlaps(decisions: list[Decision]) -> dict[str, frozenset[str]]:
    """Return the values that cover the same words as a mention."""
    values = [d for d in decisions if d.kind in ("value", "amount")]
    return {
        d.key: frozenset(v.key for v in values if v.start < d.end and d.start < v.end and v.key != d.key)
        for d in decisions
    }


def _hidden(decision: Decision, state: Assignment, taken: dict[str, frozenset[str]]) -> bool:
    rivals = taken[decision.key]
    if not rivals:
        return False
    return any(d.key in rivals and not isinstance(o.act, Ignore) for d, o in state.choices)
