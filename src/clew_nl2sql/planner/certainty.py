"""How certain a plan is: the chance that the best answer is right, from what the whole field looks like.

The share of the best answer among all candidates says most, but not all: a word that nothing explains, a quoted
value that the query ignores or a weak link lower it. The weights are learned like the others, on questions over
databases that the ranking had not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from clew_nl2sql.planner.lexicon import FILLER
from clew_nl2sql.planner.promises import abilities, promises
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking import Ranked, band, shape
from clew_nl2sql.planner.reading import Reading

Facts = list[tuple[str, float]]

# Features of the ranking that say something about right and wrong, and not only about better and worse.
_TELLING = (
    "none:", "joins=", "bridges=", "lost=", "gap=", "worst=", "idle=", "c|", "rq:", "dist=", "seltabs=", "losing=",
)  # fmt: skip


def of_candidate(reading: Reading, best: Ranked) -> Facts:
    """What the winner itself says: its shape, its weakest link, the words it leaves over."""
    named = dict(best.features)
    left = unmapped(reading, best)
    found = [
        ("score", named.get("score", 0.0)),
        ("worst", best.assignment.worst),
        ("unmapped", float(len(left))),
        (f"unmapped={min(len(left), 3)}", 1.0),
        (f"length={band(len(reading.tokens), (7, 10, 14, 18, 24))}", 1.0),
    ]
    found.extend((f"e:{name}", 1.0) for name in shape(best.query) if not name.startswith("n:"))
    found.extend(promises(reading.low, abilities(best.query)))
    found.extend((f"e:{name}", 1.0) for name in named if name.startswith(_TELLING))
    return found


def of_field(share: float, second: float, outcome: str, agreeing: int) -> Facts:
    """What the competition says: how far ahead the winner is, and what its rehearsal gave."""
    share = min(max(share, 1e-4), 1 - 1e-4)
    return [
        ("bias", 1.0),
        ("logit", math.log(share / (1 - share))),
        ("ratio", math.log((second + 1e-3) / share)),
        (f"share={band(share, (0.3, 0.5, 0.7, 0.85, 0.95, 0.99))}", 1.0),
        (f"out={outcome}", 1.0),
        (f"agreeing={band(agreeing, (1, 2, 4, 8))}", 1.0),
    ]


def of_rivals(queries: Sequence[tuple[float, Query]], second: Query | None) -> Facts:
    """What the others say: which parts the likeliest other answer changes, and how likely each part of the best is.

    `queries` are the rehearsed ones with their shares, the best first."""
    best = _parts(queries[0][1])
    found: Facts = []
    for name, part in best.items():
        share = sum(share for share, query in queries if _parts(query)[name] == part)
        share = min(max(share, 1e-3), 1 - 1e-3)
        found.append((f"p:{name}", math.log(share / (1 - share))))
        found.append((f"p:{name}={band(share, (0.5, 0.8, 0.95))}", 1.0))
    if second is not None:
        other = _parts(second)
        changed = [name for name in best if best[name] != other[name]]
        found += [(f"d:{name}", 1.0) for name in changed] + [(f"d={'+'.join(changed)}", 1.0)]
    return found


def _parts(query: Query) -> dict[str, object]:
    return {
        "select": frozenset(query.select),
        "where": (frozenset(query.where), query.compound is None),
        "group": (query.group, query.having),
        "order": (query.order, query.limit),
        "tables": query.tables,
        "distinct": query.distinct,
    }


def unmapped(reading: Reading, best: Ranked) -> list[str]:
    """Words of the question that the query does not account for."""
    covered: set[int] = set()
    for decision, option in best.assignment.choices:
        if option.act[0] != "none":
            covered.update(range(decision.start, decision.end))
    for cue in reading.cues:
        covered.update(range(cue.start, cue.end))
    for amount in reading.amounts:
        covered.update(range(amount.cue_start, amount.cue_end))
    return [
        token.text
        for at, token in enumerate(reading.tokens)
        if at not in covered
        and token.kind in ("word", "quoted", "number", "date")
        and token.low not in FILLER
        and token.lemma not in FILLER
    ]


def chance(weights: Mapping[str, float], facts: Sequence[tuple[str, float]]) -> float:
    """The logistic of the weighted facts."""
    total = sum([weights.get(name, 0.0) * value for name, value in facts])
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def is_ordered(query: Query) -> bool:
    """Whether the order of the rows is part of the answer."""
    return bool(query.order) and query.limit != 1
