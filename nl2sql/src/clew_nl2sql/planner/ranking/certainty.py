"""Estimate the probability that the best answer is correct, from all candidates.

The most important fact is the share of the best answer among all candidates. Words without a match, a quoted
value that the query ignores, or a weak link reduce the certainty. The weights are learned, on questions over
databases that the ranking had not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clew_nl2sql.planner.deciding.acts import Ignore
from clew_nl2sql.planner.linking.parsed_question import NEGATIONS, ParsedQuestion
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking.expectations import abilities, expectation_facts
from clew_nl2sql.planner.ranking.features import CandidateFeatures, band, shape
from clew_nl2sql.planner.words.lexicon import FILLER

Facts = list[tuple[str, float]]

# Features of the ranking that indicate correctness, not only the relative order.
_TELLING = (
    "none:", "joins=", "bridges=", "lost=", "gap=", "worst=", "idle=", "c|", "rq:", "dist=", "seltabs=", "losing=",
)  # fmt: skip


def of_candidate(parsed: ParsedQuestion, best: CandidateFeatures) -> Facts:
    """Return facts about the best candidate: its shape, its weakest link, its unused words."""
    named = dict(best.features)
    left = unmapped(parsed, best)
    first = parsed.tokens[0].text if parsed.tokens else ""
    found = [
        ("score", named.get("score", 0.0)),
        ("worst", best.assignment.worst),
        ("unmapped", float(len(left))),
        (f"unmapped={min(len(left), 3)}", 1.0),
        ("unmapped name", float(any(word[:1].isupper() and word != first for word in left))),
        (f"length={band(len(parsed.tokens), (7, 10, 14, 18, 24))}", 1.0),
    ]
    found.extend((f"e:{name}", 1.0) for name in shape(best.query) if not name.startswith("n:"))
    found.extend(expectation_facts(_said(parsed), abilities(best.query)))
    found.extend((f"e:{name}", 1.0) for name in named if name.startswith(_TELLING))
    return found


def _said(parsed: ParsedQuestion) -> list[str]:
    """Return the words of the question, without negations that only reverse a comparison."""
    denials = set(parsed.denials)
    return [word for at, word in enumerate(parsed.low) if word not in NEGATIONS or at in denials]


def of_field(share: float, second: float, outcome: str, agreeing: int) -> Facts:
    """Return facts about the competition: the lead of the best candidate, and the result of its dry run."""
    share = min(max(share, 1e-4), 1 - 1e-4)
    return [
        ("bias", 1.0),
        ("logit", math.log(share / (1 - share))),
        ("ratio", math.log((second + 1e-3) / share)),
        (f"share={band(share, (0.3, 0.5, 0.7, 0.85, 0.95, 0.99))}", 1.0),
        (f"out={outcome}", 1.0),
        (f"agreeing={band(agreeing, (1, 2, 4, 8))}", 1.0),
    ]


def unmapped(parsed: ParsedQuestion, best: CandidateFeatures) -> list[str]:
    """Return the words of the question that the query does not cover."""
    covered: set[int] = set()
    for decision, option in best.assignment.choices:
        if not isinstance(option.act, Ignore):
            covered.update(range(decision.start, decision.end))
    for cue in parsed.cues:
        covered.update(range(cue.start, cue.end))
    for amount in parsed.amounts:
        covered.update(range(amount.cue_start, amount.cue_end))
    return [
        token.text
        for at, token in enumerate(parsed.tokens)
        if at not in covered
        and token.kind in ("word", "quoted", "number", "date")
        and token.low not in FILLER
        and token.lemma not in FILLER
    ]


def chance(weights: Mapping[str, float], facts: Sequence[tuple[str, float]]) -> float:
    """Return the logistic function of the weighted facts."""
    total = sum([weights.get(name, 0.0) * value for name, value in facts])
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def is_ordered(query: Query) -> bool:
    """Return whether the order of the rows is part of the answer."""
    return bool(query.order) and query.limit != 1
