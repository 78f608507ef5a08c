"""Schema linking: find the words of a question that may name a table or a column.

A *mention* is a run of words with the schema elements that it may stand for. All words of a run must be words
of the element's name (a table's word may be next to its column's: "customer name"). The quality of an element
depends on how much of its name occurs, and on how similar the words are. The chosen runs together cover most
of the question; the ranking chooses between the elements of one run.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.linking.schema_index import SchemaColumn, SchemaIndex, SchemaTable
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

    @property
    def is_exact(self) -> bool:
        """Return whether the whole name occurs, letter by letter."""
        return self.way == "exact" and self.coverage == 1


class Mention(NamedTuple):
    """Words `start` to `end` (exclusive) of the question, and what they may stand for, best first."""

    start: int
    end: int
    targets: tuple[Target, ...]

    def best(self) -> Target:
        return self.targets[0]

    def near(self, margin: float) -> list[Target]:
        """Return the targets that are almost as good as the best."""
        return [target for target in self.targets if target.quality >= self.best().quality - margin]


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


Hits = dict[str, tuple[float, str]]  # schema words that are similar to one token
Cover = tuple[
    float, float, str, bool
]  # similarity, share of the core, weakest match, whether it names the table


def _word_hits(tokens: list[Token], schema: SchemaIndex, blocked: frozenset[int]) -> list[Hits]:
    words = {w for t in schema.tables for w in t.words} | {w for c in schema.columns for w in c.words}
    ordered = sorted(words)
    acronyms = {_initials(c) for c in schema.columns if len(c.words) > 1} - STOP
    return [
        _hits(token.low, ordered, acronyms) if token.kind == "word" and at not in blocked else {}
        for at, token in enumerate(tokens)
    ]


def _hits(said: str, words: list[str], acronyms: set[str]) -> Hits:
    hits: Hits = {said: (0.8, "prefix")} if said in acronyms else {}
    is_stop = said in STOP
    for word in words if not is_stop or said in words else ():
        found = alike(said, word)
        if found and (not is_stop or found[1] == EXACT):
            hits[word] = found
    return hits


def _initials(column: SchemaColumn) -> str:
    return "".join(word[0] for word in column.words)


class _WordRun(NamedTuple):
    """Words that may name an element: the positions of those with hits, and what kind of a run it is."""

    places: list[int]
    hits: list[Hits]
    word: str  # if it is only one
    glued: bool  # "name of the customer" is two mentions, "number of pages" one
    counted: bool  # "number of"


def _run(start: int, end: int, tokens: list[Token], hits: list[Hits]) -> _WordRun | None:
    places = [at for at in range(start, end) if hits[at]]
    if len(places) == 1 and not STOP.isdisjoint((tokens[start].low, tokens[end - 1].low)):
        return None
    glued = len(places) != end - start
    counted = glued and any(tokens[at].lemma == "number" and tokens[at + 1].low == "of" for at in places[:-1])
    return _WordRun(places, hits, tokens[start].low if len(places) == 1 else "", glued, counted)


def _targets(
    start: int, end: int, tokens: list[Token], schema: SchemaIndex, hits: list[Hits]
) -> tuple[Target, ...]:
    run = _run(start, end, tokens, hits)
    if run is None:
        return ()
    targets = [_table_target(run, table) for table in schema.tables]
    targets += [_column_target(run, schema.tables[column.table], column) for column in schema.columns]
    found = [target for target in targets if target is not None]
    found.sort(key=lambda t: (-t.quality, t.column is not None, t.table, t.column or 0))
    return tuple(t for t in found if t.quality >= 0.55 * found[0].quality)[:KEPT_TARGETS]


def _table_target(run: _WordRun, table: SchemaTable) -> Target | None:
    named = _cover(run.places, run.hits, table.words, ())
    if not named:
        return None
    quality, coverage, way, _ = named
    return Target(table.id, None, quality * (0.4 + 0.6 * coverage), coverage, way, True)


def _column_target(run: _WordRun, table: SchemaTable, column: SchemaColumn) -> Target | None:
    named: Cover | None = None
    if not run.counted or column.words[0] == "number":
        around = column.words if run.glued else column.words + table.words
        named = _cover(run.places, run.hits, column.core, around)
    if not named and len(column.words) > 1 and _initials(column) == run.word:
        named = (0.8, 1.0, "prefix", False)
    if not named:
        return None
    quality, coverage, way, extra = named
    own = sum(not run.hits[at].keys().isdisjoint(column.words) for at in run.places) / len(run.places)
    said = _said(run, table.words) if extra else 1.0
    value = quality * (0.4 + 0.4 * coverage + 0.1 * own + 0.1 * said)
    return Target(table.id, column.id, value, coverage, way, extra)


def _said(run: _WordRun, words: tuple[str, ...]) -> float:
    """Return the share of a name that a run contains."""
    return sum(any(word in run.hits[at] for at in run.places) for word in words) / len(words)


def _cover(
    run: list[int], hits: list[Hits], core: tuple[str, ...], table_words: tuple[str, ...]
) -> Cover | None:
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
