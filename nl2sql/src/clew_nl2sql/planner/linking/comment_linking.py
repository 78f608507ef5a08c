"""Link words that match no name to the comments of tables and columns.

Comments are longer and less precise than names, so they are used only for the remaining words, and ranked by
BM25: a word in many comments, or in a long comment, counts less.
"""

from __future__ import annotations

import math
from collections import Counter

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.catalog_cache import CatalogCache
from clew_nl2sql.planner.linking.schema_index import SchemaIndex, prepare
from clew_nl2sql.planner.linking.schema_linking import Mention, Target
from clew_nl2sql.planner.words.inflection import lemma, parts
from clew_nl2sql.planner.words.lexicon import FILLER
from clew_nl2sql.planner.words.tokens import Token

K1, B = 1.2, 0.75
LONGEST_RUN = 3
KEPT_TARGETS = 3


class CommentIndex:
    """The commented tables and columns of a schema, as bags of words."""

    def __init__(self, schema: SchemaIndex):
        self._entries: list[tuple[int, int | None, Counter[str]]] = []
        for table in schema.tables:
            if table.comment:
                self._entries.append((table.id, None, _bag(table.comment)))
            for number in table.columns:
                column = schema.columns[number]
                if column.source.comment:
                    self._entries.append((table.id, number, _bag(column.source.comment)))
        sizes = [sum(bag.values()) for _, _, bag in self._entries]
        self._mean = sum(sizes) / len(sizes) if sizes else 1.0
        self._holding = Counter(word for _, _, bag in self._entries for word in bag)

    def targets(self, words: list[str]) -> tuple[Target, ...]:
        """Return the entries whose comment contains all words, best first."""
        scored = []
        for table, column, bag in self._entries:
            if all(word in bag for word in words):
                scored.append((-self._score(words, bag), table, -1 if column is None else column))
        return tuple(
            Target(table, None if column < 0 else column, 0.6, 0.5, "fuzzy", False)
            for _, table, column in sorted(scored)[:KEPT_TARGETS]
        )

    def _score(self, words: list[str], bag: Counter[str]) -> float:
        size = sum(bag.values()) / self._mean
        count = len(self._entries)
        total = 0.0
        for word in words:
            holding = self._holding[word]
            rarity = math.log(1 + (count - holding + 0.5) / (holding + 0.5))
            total += rarity * bag[word] * (K1 + 1) / (bag[word] + K1 * (1 - B + B * size))
        return total


def _bag(comment: str) -> Counter[str]:
    return Counter(lemma(word) for word in parts(comment) if word not in FILLER)


def _index(catalog: Catalog) -> CommentIndex:
    return CommentIndex(prepare(catalog))


comment_index = CatalogCache(_index)  # cached for the next question


def link_comments(tokens: list[Token], taken: set[int], index: CommentIndex) -> list[Mention]:
    """Return mentions of words that are not `taken`, the longest first."""
    found: list[Mention] = []
    at = 0
    while at < len(tokens):
        for end in range(min(at + LONGEST_RUN, len(tokens)), at, -1):
            free = all(n not in taken and _has_content(tokens[n]) for n in range(at, end))
            targets = index.targets([token.lemma for token in tokens[at:end]]) if free else ()
            if targets:
                found.append(Mention(at, end, targets))
                break
        at = found[-1].end if found and found[-1].start == at else at + 1
    return found


def _has_content(token: Token) -> bool:
    return token.kind == "word" and token.low not in FILLER
