"""Compare what the words of a question imply with what its query does.

"Not" implies a negation, "each" a group, "or" an alternative. A query without it may still be correct, and a
query with all of them may be incorrect, so these are only facts for the certainty.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew_nl2sql.planner.deciding.decisions import chosen
from clew_nl2sql.planner.query import Query, Scalar
from clew_nl2sql.planner.words.lexicon import word_set

# Name of the expectation, the ability that it implies, the words.
_EXPECTATIONS = (
    ("not", "negation", word_set("not no never without except excluding neither nor none outside")),
    ("each", "group", word_set("each every per")),
    ("or", "either", word_set("or either")),
    ("both", "either", word_set("both")),
    ("and", "several", word_set("and")),
    (
        "most",
        "order",
        word_set("most least highest lowest largest smallest fewest oldest youngest longest top"),
    ),
    ("sorted", "order", word_set("sorted ordered ascending descending alphabetical order sort")),
    ("average", "aggregate", word_set("average mean total sum maximum minimum")),
    ("many", "aggregate", word_set("many count number")),
    ("than", "compared", word_set("than above below over under exceed before after")),
    ("least", "having", word_set("least")),
    ("different", "distinct", word_set("different distinct unique")),
    ("same", "group", word_set("same share shared")),
    ("other", "nested", word_set("any some all other only also")),
    ("ratio", "nested", word_set("percentage ratio difference proportion times twice combined together")),
    ("who", "join", word_set("who whom whose")),
    ("that", "join", word_set("that which with")),
)


def abilities(query: Query) -> frozenset[str]:
    """Return what a query does, as a few names."""
    ops = {c.op for c in query.where}
    compared = ops.union(c.op for c in query.having)
    sets = query.compound[0] if query.compound else ""
    does = (
        (not {sets, *ops}.isdisjoint(("except", "!=", "not in", "is")), "negation"),
        (bool(query.group), "group"),
        (sets in ("union", "intersect") or any(c.either for c in query.where), "either"),
        (max(len(query.select), len(query.where)) > 1, "several"),
        (bool(query.order), "order"),
        (query.aggregates, "aggregate"),
        (not compared.isdisjoint((">", "<", ">=", "<=", "between")), "compared"),
        (bool(query.having), "having"),
        (query.distinct or any(i.distinct for i in query.select), "distinct"),
        (any(isinstance(c.value, Query | Scalar) for c in query.where), "nested"),
        (bool(query.tables or query.where), "join"),
    )
    return frozenset(chosen(does))


def expectation_facts(words: Sequence[str], does: frozenset[str]) -> list[tuple[str, float]]:
    """Return the expectations that the words raise, each met or not."""
    said = set(words)
    return [(f"q:{name}={expected in does}", 1.0) for name, expected, some in _EXPECTATIONS if said & some]
