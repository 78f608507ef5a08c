"""A parsed question: its tokens, mentions, values, amounts and cues, and the words around each.

`units` is the question with every mention, value and number replaced by a mark (COL, TAB, VAL, NUM), so that
"name of the" and "average price of the" look the same for all databases. The `zone` of a unit is the last
clause marker before it.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.linking.comment_linking import comment_index, link_comments
from clew_nl2sql.planner.linking.predicates import find_predicates
from clew_nl2sql.planner.linking.schema_index import prepare
from clew_nl2sql.planner.linking.schema_linking import Mention, Target, link_schema
from clew_nl2sql.planner.linking.value_linking import ValueMention, link_values, value_index
from clew_nl2sql.planner.words.cues import Amount, Cue, comparative, find_amounts, find_cues
from clew_nl2sql.planner.words.lexicon import word_set
from clew_nl2sql.planner.words.tokens import Token, tokenize

NEGATIONS = word_set("not no never without except excluding neither nor none cannot besides outside")
_NUMBERED = frozenset("0123456789.")  # "order no 5", "order no. 5"
_LACKING = word_set("lack lacks lacking other others")
_ASK = word_set("what show list give return find tell report display select please compute calculate state")
_ZONES = {
    **dict.fromkeys(("who", "that", "which", "whose", "where", "whom", "when"), "rel"),
    **dict.fromkeys(("with", "have", "having", "has", "had", "without"), "with"),
    **dict.fromkeys(("each", "every", "per"), "each"),
    **dict.fromkeys(
        ("order", "ordered", "sort", "sorted", "ordering", "arranged", "alphabetical", "rank", "ranked"),
        "order",
    ),
    **dict.fromkeys(("group", "grouped"), "each"),
    **dict.fromkeys(_ASK, "ask"),
    **dict.fromkeys(("in", "from", "by", "on", "at", "before", "after", "since", "during", "under"), "prep"),
}
_ORDER_BEFORE = word_set(
    "ascending descending alphabetical alphabetic lexicographic lexicographical increasing decreasing in reverse "
    "chronological numerical asc desc"
)
_IMPERATIVES = word_set("show list find give return count select report display name order sort state")
_LISTS = word_set("list show give display find get return print")
_SKIPPED = word_set("me us all the of our every")


def _overlap(one: Mention | ValueMention, other: ValueMention) -> bool:
    return one.start < other.end and other.start < one.end


class QuestionUnit(NamedTuple):
    """A word, or the mark of a mention, with the position of its tokens."""

    mark: str
    start: int
    end: int
    zone: str


class ParsedQuestion:
    """The results of linking for one question."""

    def __init__(self, question: str, catalog: Catalog):
        self.question = question
        self.schema = schema = prepare(catalog)
        self.tokens: list[Token] = tokenize(question)
        self.low = [t.low for t in self.tokens]
        self.values: list[ValueMention] = link_values(self.tokens, value_index(catalog))
        self.verbs = self._verbs()
        self.mentions: list[Mention] = link_schema(self.tokens, schema, self._blocked())
        self.mentions = [part for mention in self.mentions for part in self._entity_and_event(mention)]
        self.mentions = [self._entity_without_value(mention) for mention in self.mentions]
        self._leave_out_views()
        self.values = [v for v in self.values if not self._better_as_schema(v)]
        self._add_predicates()
        spans = [(m.start, m.end) for m in self.mentions] + [(v.start, v.end) for v in self.values]
        taken = {at for start, end in spans for at in range(start, end)}
        explained = link_comments(self.tokens, taken, comment_index(catalog))
        self.mentions = sorted(self.mentions + explained, key=lambda m: m.start)
        self.amounts: list[Amount] = [a for a in find_amounts(self.tokens) if not self._inside_value(a.start)]
        found = find_cues(self.tokens)
        self.cues: list[Cue] = [c for c in found if not self._said_by_column(c)]
        within = [c for c in found if c.kind == "agg" and c not in self.cues]
        self.cues = [self._summed(c) for c in self.cues]
        within += [
            c for c in self.cues if c.kind == "agg" and any(m.start <= c.start < m.end for m in self.mentions)
        ]
        self.within_names = {
            c.start: c.what for c in within
        }  # "total" of `total_amount`, with its possible meanings
        self.mentions = [m for m in self.mentions if not self._said_by_cue(m)]
        self.cues = [c for c in self.cues if c.kind != "none"]
        self.units = self._fold()
        self.unit_at = {
            at: number for number, unit in enumerate(self.units) for at in range(unit.start, unit.end)
        }
        self.table_mentions = self._tables_named()
        self.main_table = self._main_table()
        self.via = frozenset(
            t.column
            for m in self.mentions
            for t in m.targets
            if t.column is not None and schema.columns[t.column].is_ref and t.quality >= 0.5
        )

    @property
    def negates(self) -> bool:
        """Return whether any word could exclude something."""
        free_of = any(self.word(at) == "free" and self.word(at + 1) == "of" for at in range(len(self.low)))
        return free_of or any(word in NEGATIONS or word in _LACKING for word in self.low)

    @property
    def denials(self) -> list[int]:
        """Return the positions of negations; in "no more than 5" the word only reverses the comparison."""
        compared = {at for a in self.amounts for at in range(a.cue_start, a.cue_end)}
        return [
            at
            for at, word in enumerate(self.low)
            if word in NEGATIONS
            and at not in compared
            and not (word == "no" and self.word(at + 1)[:1] in _NUMBERED)
            and not (at + 1 < len(self.low) and comparative(self.low, at + 1))
        ]

    def _verbs(self) -> frozenset[int]:
        """Return positions where "ordered" means a purchase and not a sort order: the schema has orders, and
        nothing to sort by follows.
        """
        tables = [table.words for table in self.schema.tables]
        if not any("order" in words for words in tables):
            return frozenset()
        found = set()
        for at, word in enumerate(self.low):
            after = self.word(at + 1)
            if word != "ordered" or after in ("in", "from", "as") or after in _ORDER_BEFORE:
                continue
            by = at + 2 + (self.word(at + 2) in ("the", "a", "an", "each", "every"))
            by_buyer = by < len(self.tokens) and (
                (self.tokens[by].lemma,) in tables or any(v.start == by for v in self.values)
            )
            if after not in ("by", "alphabetically", "lexicographically") or (after == "by" and by_buyer):
                found.add(at)
        return frozenset(found)

    def _blocked(self) -> frozenset[int]:
        """Return words with another function: the order of "in ascending order", the verb that starts the
        question.
        """
        blocked = {at for v in self.values if v.quoted for at in range(v.start, v.end)}
        for at, word in enumerate(self.low):
            before = self.low[at - 1] if at else ""
            after = self.low[at + 1] if at + 1 < len(self.low) else ""
            if word in ("order", "orders") and (before in _ORDER_BEFORE or after == "by"):
                blocked.add(at)
            does = word in ("sorted", "ordered", "listed", "ranked", "named", "called", "grouped")
            if does and after in ("by", "in", "as", "from") and at not in self.verbs:
                blocked.add(at)
            if word in _IMPERATIVES and (at == 0 or before in (".", "please", "?")):
                blocked.add(at)
            if word == "many" or (word == "different" and before != ""):
                blocked.add(at)
            if word in ("first", "last") and not {"name", "names"} & set(self.low[at + 1 : at + 4]):
                blocked.add(at)  # "the last order" is not about a `last_name`
        return frozenset(blocked)

    def _entity_and_event(self, mention: Mention) -> list[Mention]:
        """Split "drivers hired", which names the table and `hired_on`: the drivers, and what happened to them."""
        best, verb = mention.best(), mention.start + 1
        if best.column is None or verb >= mention.end:
            return [mention]
        table, column = self.schema.tables[best.table], self.schema.columns[best.column]
        noun = tuple(token.lemma for token in self.tokens[verb : mention.end])
        if self.low[mention.start].endswith("ed") and column.kind == "date" and noun == table.words:
            entity = Mention(verb, mention.end, (Target(table.id, None, 1.0, 1.0, "exact", False),))
            return [mention._replace(end=verb), entity]  # "cancelled members"
        if not self.low[verb].endswith("ed"):
            return [mention]
        if column.kind != "date" or (self.tokens[mention.start].lemma,) != table.words:
            return [mention]
        entity = Mention(mention.start, verb, (Target(table.id, None, 1.0, 1.0, "exact", False),))
        return [entity, mention._replace(start=verb)]

    def _entity_without_value(self, mention: Mention) -> Mention:
        """Return only the members of "male members": the first word is a value, and not the name of its column."""
        best, rest = mention.best(), mention.start + 1
        if best.column is None or rest >= mention.end:
            return mention
        said = any(
            v.start == mention.start and v.end == rest and any(h.column == best.column for h in v.holders)
            for v in self.values
        )
        table = self.schema.tables[best.table]
        if not said or tuple(t.lemma for t in self.tokens[rest : mention.end]) != table.words:
            return mention
        return Mention(rest, mention.end, (Target(table.id, None, 1.0, 1.0, "exact", False),))

    def _leave_out_views(self) -> None:
        """Drop views in favour of their tables, unless the question names the view."""
        views = {table.id for table in self.schema.tables if table.view}
        if not views:
            return
        named = {m.best().table for m in self.mentions if m.best().column is None and m.best().coverage == 1}
        unnamed = views - named
        columns = self.schema.columns
        for at, mention in enumerate(self.mentions):
            targets = tuple(t for t in mention.targets if t.table not in unnamed)
            self.mentions[at] = mention._replace(targets=targets or mention.targets)
        for at, value in enumerate(self.values):
            holders = tuple(h for h in value.holders if columns[h.column].table not in unnamed)
            self.values[at] = value._replace(holders=holders or value.holders)

    def _better_as_schema(self, value: ValueMention) -> bool:
        """Return whether a lower-case word is exactly the name of a table or column, and so not a value."""
        if value.quoted:
            return False
        text = self.tokens[value.start].text
        capital = text[:1].isupper() and value.start > 0
        for mention in self.mentions:
            if mention.start <= value.start and value.end <= mention.end:
                best = mention.best()
                if best.way == "exact" and best.coverage == 1 and not (capital and text.isupper()):
                    return not capital or mention.end - mention.start > value.end - value.start
        return False

    def _add_predicates(self) -> None:
        """Replace mentions of flags, and of columns that must be NULL, by conditions."""
        found = find_predicates(self.tokens, self.schema, self.mentions)
        inside = [v for v in self.values if v.quoted or not any(_overlap(v, p) for p in found)]
        found = [p for p in found if not any(_overlap(v, p) for v in inside)]
        self.values = sorted(inside + found, key=lambda v: v.start)
        self.mentions = [m for m in self.mentions if not any(_overlap(m, p) for p in found)]

    def _inside_value(self, at: int) -> bool:
        return any(v.start <= at < v.end and (v.end - v.start > 1 or v.quoted) for v in self.values)

    def _said_by_column(self, cue: Cue) -> bool:
        """Return whether the cue is part of a column name: `total horses` names `total_horses`, so nothing is
        summed.
        """
        for mention in self.mentions:
            best = mention.best()
            longer = mention.end > cue.end or mention.start < cue.start
            if longer and mention.start <= cue.start < mention.end and best.column is not None:
                words = self.schema.columns[best.column].words
                if best.coverage == 1 and any(
                    self.tokens[at].lemma in words for at in range(cue.start, cue.end)
                ):
                    return True
        return False

    def _summed(self, cue: Cue) -> Cue:
        """Turn the cue into a sum for "the total amount of", if a column is named amount."""
        if (
            cue.kind != "count"
            or self.low[cue.end - 2] not in ("amount", "quantity")
            or cue.end - cue.start < 2
        ):
            return cue
        named = any(m.start <= cue.end - 2 < m.end and m.best().way == "exact" for m in self.mentions)
        if not named:
            return cue
        if self.low[cue.start] == "total":
            return Cue("agg", "sum", cue.start, cue.start + 1)
        return Cue("none", "amount", cue.start, cue.end)

    def _said_by_cue(self, mention: Mention) -> bool:
        """Return whether the words belong to a cue: "the number of students" does not mean `card_number`."""
        return any(
            c.kind == "count"
            and c.start <= mention.start
            and mention.end <= c.end
            and self.low[mention.start] != "count"
            for c in self.cues
        )

    def _fold(self) -> list[QuestionUnit]:
        marks: dict[int, tuple[str, int]] = {}
        for amount in self.amounts:
            marks[amount.start] = ("NUM", amount.start + 1)
        for mention in self.mentions:
            column = mention.best().column is not None
            marks[mention.start] = ("COL" if column else "TAB", mention.end)
        for value in self.values:
            if not any(m.start <= value.start < m.end for m in self.mentions):
                marks[value.start] = ("VAL", value.end)
        units, at, zone = [], 0, "start"
        while at < len(self.tokens):
            mark, end = marks.get(at, (self.tokens[at].lemma, at + 1))
            if at not in marks:
                word = self.tokens[at].low
                if at not in self.verbs:
                    zone = _ZONES.get(word, _ZONES.get(mark, zone))
                if at == 0 and zone == "rel":
                    zone = "ask"
            units.append(QuestionUnit(mark, at, end, zone))
            at = max(end, at + 1)
        return units

    def _tables_named(self) -> list[tuple[int, int]]:
        """Return (mention, table) for mentions that clearly name a table."""
        return [
            (number, target.table)
            for number, mention in enumerate(self.mentions)
            for target in mention.targets
            if target.column is None
            and target.quality >= 0.6
            and target.quality >= mention.best().quality - 0.2
        ]

    def _main_table(self) -> int | None:
        scores: dict[int, float] = {}
        for mention in self.mentions:
            best = mention.best().quality
            for target in mention.targets:
                if target.quality >= best - 1e-9:
                    weight = target.quality * (1.5 if target.column is None else 1.0) / len(mention.targets)
                    scores[target.table] = scores.get(target.table, 0.0) + weight
        if not scores:
            return None
        return min(scores, key=lambda t: (-scores[t], t))

    def word(self, at: int) -> str:
        """Return the lower-case word at a position; an empty string outside the question."""
        return self.low[at] if 0 <= at < len(self.low) else ""

    def context(self, start: int, end: int) -> list[str]:
        """Return features of the words around tokens `start` to `end`, without a role."""
        first, last = self.unit_at[start], self.unit_at[end - 1]
        before = [self._mark(first - k) for k in (1, 2, 3)]
        after = [self._mark(last + k) for k in (1, 2, 3)]
        zone = self.units[first].zone
        found = [
            f"p1={before[0]}", f"p2={before[1]} {before[0]}", f"p3={before[2]} {before[1]} {before[0]}",
            f"n1={after[0]}", f"n2={after[0]} {after[1]}", f"n3={after[0]} {after[1]} {after[2]}",
            f"z={zone}", f"zp={zone}/{before[0]}", f"pn={before[0]}/{after[0]}",
            f"q={self.word(0)} {self.word(1)}", f"zq={self.word(0)}/{zone}",
        ]  # fmt: skip
        if before[0] in ("and", ",", "or") or (before[0] == "the" and before[1] in ("and", ",")):
            head = self._chain_head(first)
            found.append(f"ch={self._mark(head - 2)} {self._mark(head - 1)}/{self.units[head].mark}")
            found.append(f"chz={self.units[head].zone}")
        return found

    def _mark(self, unit: int) -> str:
        if unit < 0:
            return "^"
        return self.units[unit].mark if unit < len(self.units) else "$"

    def _chain_head(self, unit: int) -> int:
        """Return the first unit of an enumeration: for `c` in "a, b and c", the unit `a`."""
        at = unit
        while at > 0:
            step = at - 1
            while step > 0 and self.units[step].mark in (
                "and",
                ",",
                "the",
                "or",
                "their",
                "its",
                "also",
                "a",
            ):
                step -= 1
            if step == at - 1 or self.units[step].mark not in ("COL", "TAB"):
                return at
            at = step
        return at


def head(parsed: ParsedQuestion) -> Mention | None:
    """Return what the question asks for: the first mention, after "which" or "list all the", or at its start."""
    if not parsed.mentions:
        return None
    said = {at for v in parsed.values for at in range(v.start, v.end)}
    opening = [word for at, word in enumerate(parsed.low[: parsed.mentions[0].start]) if at not in said]
    is_list = bool(opening) and opening[0] in _LISTS and all(word in _SKIPPED for word in opening[1:])
    return parsed.mentions[0] if is_list or opening in ([], ["which"], ["what"]) else None
