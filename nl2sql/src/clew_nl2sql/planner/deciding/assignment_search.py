"""Search for likely assignments: one option for every decision, with the highest sums first.

A beam search visits the decisions in order. An option that consumes a mention or a cue forces that piece's
decision to "used", and only then; a value and a mention over the same words exclude each other. On equal
sums, the earlier assignment wins.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.deciding.acts import Consumed, Ignore
from clew_nl2sql.planner.deciding.decisions import Decision, Option
from clew_nl2sql.planner.linear_model import LinearModel, log_softmax, score

BEAM = 40
FAR = 7.0  # options with a log-probability this far below the best one of their decision are skipped


class Assignment(NamedTuple):
    """One option per decision, with the sum and the minimum of their log-probabilities."""

    score: float
    choices: tuple[tuple[Decision, Option], ...]
    worst: float
    used: frozenset[str]


def assignments(decisions: list[Decision], model: LinearModel, *, beam: int = BEAM) -> list[Assignment]:
    """Return the most likely assignments, best first."""
    states = [Assignment(0.0, (), 0.0, frozenset())]
    taken = _overlaps(decisions)
    for decision in decisions:
        scores = log_softmax([score(model.roles, option.features) for option in decision.options])
        ranked = sorted(range(len(scores)), key=lambda n: (-scores[n], n))
        limit = scores[ranked[0]] - FAR
        following: list[Assignment] = []
        for state in states:
            forced = decision.key in state.used
            hidden = _hidden(decision, state, taken)
            for n in ranked:
                option = decision.options[n]
                act = option.act
                if forced != isinstance(act, Consumed) or (hidden and not isinstance(act, Ignore | Consumed)):
                    continue
                if scores[n] < limit and not forced and not hidden:
                    continue
                if any(use in state.used and not _shared(use) for use in option.uses):
                    continue
                following.append(
                    Assignment(
                        state.score + scores[n],
                        (*state.choices, (decision, option)),
                        min(state.worst, scores[n]),
                        state.used.union(option.uses),
                    )
                )
        following.sort(key=lambda s: -s.score)
        states = following[:beam] or states
    return states


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
