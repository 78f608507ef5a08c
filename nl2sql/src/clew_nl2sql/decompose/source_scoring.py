"""Score how well words match a source: its name, table and column names, values and comments.

A word that names a table scores higher than one in a comment, and higher if no other source knows it. A value
may have several words ("Ridge & Sons"); all of them count.
"""

from __future__ import annotations

from collections.abc import Mapping

from clew_nl2sql.decompose.normalization import content, name_words, stem, words
from clew_nl2sql.planner.catalog import Catalog

TABLE, COLUMN, VALUE, COMMENT, SOURCE = 1.0, 0.6, 0.9, 0.3, 1.2
FUZZY = 0.86  # minimum similarity of two different words
LONGEST_PHRASE = 5
KNOWN = 0.5  # a word with a higher score occurs in the source itself

# Synonyms, used only if the schema contains the other word.
RELATED = {
    "spend": ("amount", "total", "price", "payment", "purchase", "order"),
    "spent": ("amount", "total", "price", "payment", "purchase", "order"),
    "buy": ("order", "purchase", "sale"),
    "bought": ("order", "purchase", "sale"),
    "revenue": ("amount", "total", "price", "sale"),
    "turnover": ("amount", "total", "price", "sale"),
    "owe": ("due", "balance", "invoice", "unpaid", "debt"),
    "owing": ("due", "balance", "invoice", "unpaid", "debt"),
    "complain": ("ticket", "complaint", "issue", "case"),
    "complaint": ("ticket", "issue", "case"),
    "client": ("customer",),
    "customer": ("client",),
    "bill": ("invoice",),
    "employee": ("staff", "worker", "agent"),
}


class Vocabulary:
    """The words of one source, with their scores."""

    def __init__(self, name: str, catalog: Catalog) -> None:
        self._weights: dict[str, float] = {}
        self._phrases: set[tuple[str, ...]] = set()
        self._add(name_words(name), SOURCE)
        for table in catalog.tables:
            self._add(name_words(table.name), TABLE)
            self._add(content(table.comment), COMMENT)
            for column in table.columns:
                self._add(name_words(column.name), COLUMN)
                self._add(content(column.comment), COMMENT)
                if column.kind == "text":
                    self._add_values(column.values)

    def _add(self, found: list[str], weight: float) -> None:
        for word in found:
            key = stem(word)
            self._weights[key] = max(self._weights.get(key, 0.0), weight)

    def _add_values(self, values: tuple[object, ...]) -> None:
        for value in values:
            phrase = tuple(words(str(value)))
            if 0 < len(phrase) <= LONGEST_PHRASE and not phrase[0].isdigit():
                self._phrases.add(phrase)

    def weigh(self, text: str) -> dict[str, float]:
        """Return the score of each content word of a text."""
        spoken = words(text)
        found = {word: self.worth(word) for word in content(text)}
        for start in range(len(spoken)):
            for length in range(min(LONGEST_PHRASE, len(spoken) - start), 0, -1):
                phrase = tuple(spoken[start : start + length])
                if phrase in self._phrases:
                    found.update({word: max(found.get(word, 0.0), VALUE) for word in phrase if word in found})
                    break
        return found

    def known(self, text: str) -> int:
        """Return how many content words of a text the source knows."""
        return sum(weight > 0 for weight in self.weigh(text).values())

    def worth(self, word: str) -> float:
        """Return the score of a word: its own, that of a synonym, or that of a word with similar spelling."""
        key = stem(word)
        if key in self._weights:
            return self._weights[key]
        related = [self._weights.get(stem(other), 0.0) for other in RELATED.get(word, RELATED.get(key, ()))]
        if any(related):
            return 0.6 * max(related)
        if len(key) < 5:
            return 0.0
        from rapidfuzz import fuzz

        best = max(
            (
                (fuzz.ratio(key, other) / 100, weight)
                for other, weight in self._weights.items()
                if len(other) > 4
            ),
            default=(0.0, 0.0),
        )
        return best[1] * 0.7 if best[0] >= FUZZY else 0.0


def score(text: str, vocabularies: Mapping[str, Vocabulary]) -> dict[str, float]:
    """Return the score of a text for each source; a word that fewer sources know scores higher."""
    weighed = {name: vocabulary.weigh(text) for name, vocabulary in vocabularies.items()}
    total = dict.fromkeys(vocabularies, 0.0)
    for word in content(text):
        knowing = [name for name in weighed if weighed[name].get(word, 0.0) > 0.0]
        for name in knowing:
            total[name] += weighed[name][word] / len(knowing) ** 0.5
    return total


def denied_words(
    question: str, visible: Mapping[str, Catalog], hidden: Mapping[str, frozenset[str]]
) -> list[str]:
    """Return the words that name a hidden table and match nothing visible."""
    tables = {table for names in hidden.values() for table in names}
    if not tables:
        return []
    names = tables | {table.rpartition(".")[2] for table in tables}  # with and without their schema
    forbidden = {tuple(map(stem, name_words(name))) for name in names}
    known = [Vocabulary(name, catalog) for name, catalog in visible.items()]
    return [
        " ".join(span)
        for phrase in sorted(forbidden)
        for span in _spans(words(question), len(phrase))
        if tuple(map(stem, span)) == phrase and not any(_is_known(span, one) for one in known)
    ]


def _spans(spoken: list[str], length: int) -> list[list[str]]:
    return [spoken[start : start + length] for start in range(len(spoken) - length + 1)]


def _is_known(span: list[str], vocabulary: Vocabulary) -> bool:
    return all(vocabulary.worth(word) > KNOWN for word in span)
