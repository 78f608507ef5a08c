"""Schema linking: find the words of a question that may name a table or a column.

A *mention* is a run of words with the schema elements that it may stand for. All words of a run must be words
of the element's name (a table's word may be next to its column's: "customer name"). The quality of an element
depends on how much of its name occurs, and on how similar the words are. The chosen runs together cover most
of the question; the ranking chooses between the elements of one run.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.linking.schema_index import SchemaIndex
from clew_nl2sql.planner.words.lexicon import STOP, word_set
from clew_nl2sql.planner.words.similarity import EXACT, alike
from clew_nl2sql.planner.words.tokens import Token

LONGEST_RUN = 6
KEPT_TARGETS = 10
_GLUE = word_set("of the in for to a an 's and by per on at is")
_GLUE_INSIDE = word_set("of the in for to a an per by (")


class Target(NamedTuple):
    """A table (column is None) or column that a mention may stand for."""

    table: int
    column: int | None
    quality: float  # 0..1
    coverage: float  # share of the element's own name that occurs
    way: str  # the weakest kind of match of a word
    with_table: bool  # the run also names the table


class Mention(NamedTuple):
    """Words `start` to `end` (exclusive) of the question, and what they may stand for, best first."""

    start: int
    end: int
    targets: tuple[Target, ...]

    def best(self) -> Target:
        return self.targets[0]


_WAYS = {"exact": 0, "stem": 1, "synonym": 2, "prefix": 3, "fuzzy": 4}


def link_schema(
    tokens: list[Token], schema: SchemaIndex, blocked: frozenset[int] = frozenset()
) -> list[Mention]:
    """Return the mentions of a question, in order and without overlaps. Tokens in `blocked` are skipped."""
    hits = _word_hits(tokens, schema, blocked)
    spans: dict[tuple[int, int], tuple[Target, ...]] = {}
    for start in range(len(tokens)):
        if not hits[start]:
            continue
        for end in range(start + 1, min(start + LONGEST_RUN, len(tokens)) + 1):
            if end - 1 != start and not hits[end - 1]:
                if tokens[end - 1].low not in _GLUE_INSIDE:
                    break
                continue
            targets = _targets(start, end, tokens, schema, hits)
            if targets:
                spans[start, end] = targets
    return _choose(len(tokens), spans, tokens)


class _Hits(dict[str, tuple[float, str]]):
    """Schema words that are similar to one token."""


def _word_hits(tokens: list[Token], schema: SchemaIndex, blocked: frozenset[int]) -> list[_Hits]:
    words = {w for t in schema.tables for w in t.words} | {w for c in schema.columns for w in c.words}
    ordered = sorted(words)
    acronyms = {"".join(w[0] for w in c.words) for c in schema.columns if len(c.words) > 1}
    acronyms -= STOP
    result = []
    for at, token in enumerate(tokens):
        hits = _Hits()
        initials = token.low in acronyms
        if initials and token.kind == "word" and at not in blocked:
            hits[token.low] = (0.8, "prefix")
        if token.kind == "word" and at not in blocked and (token.low not in STOP or token.low in words):
            for word in ordered:
                found = alike(token.low, word)
                if found and (token.low not in STOP or found[1] == EXACT):
                    hits[word] = found
        result.append(hits)
    return result


def _targets(
    start: int, end: int, tokens: list[Token], schema: SchemaIndex, hits: list[_Hits]
) -> tuple[Target, ...]:
    run = [at for at in range(start, end) if hits[at]]
    if any(tokens[at].low in STOP for at in (start, end - 1)) and len(run) == 1:
        return ()
    found = []
    glued = len(run) != end - start  # "name of the customer" is two mentions, "number of pages" one
    counted = glued and any(tokens[at].lemma == "number" and tokens[at + 1].low == "of" for at in run[:-1])
    for table in schema.tables:
        named = _cover(run, hits, table.words, ())
        if named:
            quality, coverage, way, _ = named
            found.append(Target(table.id, None, quality * (0.4 + 0.6 * coverage), coverage, way, True))
        for number in table.columns:
            column = schema.columns[number]
            named = None
            if not (counted and column.words[0] != "number"):
                named = _cover(run, hits, column.core, column.words if glued else column.words + table.words)
            if (
                not named
                and len(run) == 1
                and "".join(w[0] for w in column.words) == tokens[start].low
                and len(column.words) > 1
            ):
                named = (0.8, 1.0, "prefix", False)
            if named:
                quality, coverage, way, extra = named
                own = sum(any(w in hits[at] for w in column.words) for at in run) / len(run)
                said = (
                    sum(any(w in hits[at] for at in run) for w in table.words) / len(table.words)
                    if extra
                    else 1.0
                )
                value = quality * (0.4 + 0.4 * coverage + 0.1 * own + 0.1 * said)
                found.append(Target(table.id, number, value, coverage, way, extra))
    found.sort(key=lambda t: (-t.quality, t.column is not None, t.table, t.column or 0))
    if not found:
        return ()
    best = found[0].quality
    return tuple(t for t in found if t.quality >= 0.55 * best)[:KEPT_TARGETS]


def _cover(
    run: list[int], hits: list[_Hits], core: tuple[str, ...], table_words: tuple[str, ...]
) -> tuple[float, float, str, bool] | None:
    """Rate how well a run names an element: mean similarity, share of the core, weakest match, whether it
    names the table.
    """
    left = list(core)
    total, worst, extra = 0.0, 0, False
    for at in run:
        pool = [w for w in left if w in hits[at]]
        if pool:
            word = max(pool, key=lambda w: hits[at][w][0])
            left.remove(word)
        else:
            pool = [w for w in table_words if w in hits[at] and w not in core]
            if not pool:
                return None
            word = max(pool, key=lambda w: hits[at][w][0])
            extra = True
        likeness, way = hits[at][word]
        total += likeness
        worst = max(worst, _WAYS[way])
    said = len(core) - len(left)
    if said == 0:
        return None
    names = list(_WAYS)
    return total / len(run), said / len(core), names[worst], extra


def _choose(
    count: int, spans: dict[tuple[int, int], tuple[Target, ...]], tokens: list[Token]
) -> list[Mention]:
    """Choose the runs that cover most: weighted interval scheduling, with longer runs first on ties."""
    best: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    for end in range(1, count + 1):
        choice = best[end - 1]
        for start in range(max(0, end - LONGEST_RUN), end):
            targets = spans.get((start, end))
            if targets:
                said = sum(1 for at in range(start, end) if tokens[at].low not in _GLUE)
                gain = best[start][0] + targets[0].quality * said - 0.15
                if gain > choice[0] + 1e-9:
                    choice = (gain, best[start][1] + ((start, end),))
        best.append(choice)
    return [Mention(start, end, spans[start, end]) for start, end in best[-1][1]]
