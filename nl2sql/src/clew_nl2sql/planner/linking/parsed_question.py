"""A parsed question: its tokens, mentions, values, amounts and cues, and the words around each.

`units` is the question with every mention, value and number replaced by a mark (COL, TAB, VAL, NUM), so that
"name of the" and "average price of the" look the same for all databases. The `zone` of a unit is the last
clause marker before it.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.linking.abbreviated_names import read_names
from clew_nl2sql.planner.linking.comment_linking import comment_index, link_comments
from clew_nl2sql.planner.linking.periods import link_period
from clew_nl2sql.planner.linking.predicates import find_predicates
from clew_nl2sql.planner.linking.schema_linking import Mention, Target, link_schema
from clew_nl2sql.planner.linking.states import find_states
from clew_nl2sql.planner.linking.value_linking import ValueMention, link_values, value_index
from clew_nl2sql.planner.words.cues import Amount, Cue, comparative, find_amounts, find_cues
from clew_nl2sql.planner.words.inflection import stem
from clew_nl2sql.planner.words.lexicon import IDENTIFIERS, word_set
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
_SORTING = word_set("in from as alphabetically lexicographically")
_ARRANGED = word_set("sorted ordered listed ranked named called grouped")
_IMPERATIVES = word_set("show list find give return count select report display name order sort state")
_AFTER_VERB = frozenset(["", *"? . a an the any in on at between before after since until with for".split()])  # noqa: SIM905
_LISTING = word_set("and , the or their its also a")
_LISTS = word_set("list show give display find get return print")
_SKIPPED = word_set("me us all the of our every")


def _overlaps(one: Mention | ValueMention, others: list[ValueMention]) -> bool:
    return any(one.start < other.end and other.start < one.end for other in others)


def _without(mention: Mention, tables: set[int]) -> Mention:
    targets = tuple(t for t in mention.targets if t.table not in tables)
    return mention._replace(targets=targets or mention.targets)


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
        self.tokens: list[Token] = tokenize(question)
        self.low = [t.low for t in self.tokens]
        self.values: list[ValueMention] = link_values(self.tokens, value_index(catalog))
        said = {at for v in self.values for at in range(v.start, v.end)}
        self.schema = read_names(self.tokens, said, catalog)
        self.verbs = self._verbs()
        self.mentions = self._linked()
        self._leave_out_views()
        self.values = [v for v in self.values if not (self._better_as_schema(v) or self._is_event(v))]
        self._add_predicates()
        self.period, self.mentions = link_period(self.tokens, self.schema, self.mentions)
        self._add_comments(catalog)
        self.amounts: list[Amount] = [a for a in find_amounts(self.tokens) if not self._inside_value(a.start)]
        self.cues: list[Cue] = []
        self.within_names: dict[int, str] = {}  # "total" of `total_amount`, with its possible meanings
        self._add_cues()
        self.units = self._fold()
        self.unit_at = {at: n for n, unit in enumerate(self.units) for at in range(unit.start, unit.end)}
        self.table_mentions = self._tables_named()
        self.named_tables = {table for _, table in self.table_mentions}
        self.main_table = self._main_table()
        self.via = self._named_keys()

    def _linked(self) -> list[Mention]:
        """Return the mentions of tables and columns; what was linked as one piece and is two is split."""
        found = link_schema(self.tokens, self.schema, self._blocked())
        parts = [part for mention in found for part in self._entity_and_event(mention)]
        return [self._entity_without_value(mention) for mention in parts]

    def _add_comments(self, catalog: Catalog) -> None:
        """Link the remaining words to comments."""
        spans = [(m.start, m.end) for m in self.mentions] + [(v.start, v.end) for v in self.values]
        taken = {at for start, end in spans for at in range(start, end)}
        explained = link_comments(self.tokens, taken, comment_index(catalog))
        self.mentions = sorted(self.mentions + explained, key=lambda m: m.start)

    def _add_cues(self) -> None:
        """Add the cues that are no part of a column's name, and drop the mentions that are part of a cue."""
        found = find_cues(self.tokens)
        named = [c for c in found if self._said_by_column(c)]
        self.cues = [self._summed(c) for c in found if c not in named]
        within = named + [c for c in self.cues if self._mentioned(c.start)]
        self.within_names = {c.start: c.what for c in within if c.kind == "agg"}
        self.mentions = [m for m in self.mentions if not self._said_by_cue(m)]
        self.cues = [c for c in self.cues if c.kind != "none"]

    def _mentioned(self, at: int) -> bool:
        return any(m.start <= at < m.end for m in self.mentions)

    def _named_keys(self) -> frozenset[int]:
        """Return the references that the question names, so that joins prefer them."""
        columns = [t.column for m in self.mentions for t in m.targets if t.quality >= 0.5]
        return frozenset(c for c in columns if c is not None and self.schema.columns[c].is_ref)

    @property
    def asks_for_ids(self) -> bool:
        """Return whether the question asks for codes of things; "the number of" and "phone number" do not."""
        others = {v.end for v in self.values} | {m.end for m in self.mentions if m.best().column is not None}
        inside = {m.end - 1 for m in self.mentions if m.end - m.start > 1 and self._names_own_number(m)}
        return any(
            word in IDENTIFIERS
            and not (word.startswith("no") and at in self._denying)
            and not (word in ("number", "numbers") and (self.word(at + 1) == "of" or at in others | inside))
            for at, word in enumerate(self.low)
        )

    def _names_own_number(self, mention: Mention) -> bool:
        """Return whether a value follows a number that is no key: "with registration number KX-387-N"."""
        column = mention.best().column
        given = any(v.quoted and v.start == mention.end for v in self.values)
        return given and column is not None and not self.schema.columns[column].is_id

    @property
    def _denying(self) -> set[int]:
        """Return positions of a "no" before a word: "no animals", but "order no 5"."""
        return {at for at, word in enumerate(self.low) if word == "no" and self.word(at + 1)[:1].isalpha()}

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
            and not (word == "no" and (self.word(at + 1)[:1] in _NUMBERED or self._ends_at(at)))
            and not (at + 1 < len(self.low) and comparative(self.low, at + 1))
        ]

    def _ends_at(self, at: int) -> bool:
        """Return whether nothing that could be denied follows a word: "street and house no"."""
        return at + 1 >= len(self.tokens) or self.tokens[at + 1].kind == "punct"

    def _verbs(self) -> frozenset[int]:
        """Return positions where "ordered" means a purchase and not a sort order: the schema has orders, and
        nothing to sort by follows.
        """
        if not any("order" in table.words for table in self.schema.tables):
            return frozenset()
        said = [at for at, word in enumerate(self.low) if word == "ordered"]
        return frozenset(at for at in said if self._is_purchase(self.word(at + 1), at + 2))

    def _is_purchase(self, after: str, by: int) -> bool:
        """Return whether "ordered" is followed by a buyer, or by nothing that rows are sorted by."""
        if after != "by":
            return after not in _SORTING and after not in _ORDER_BEFORE
        by += self.word(by) in ("the", "a", "an", "each", "every")
        tables = [table.words for table in self.schema.tables]
        named = by < len(self.tokens) and (self.tokens[by].lemma,) in tables
        return named or any(v.start == by for v in self.values)

    def _blocked(self) -> frozenset[int]:
        """Return words with another function: the order of "in ascending order", the verb that starts the question."""
        quoted = {at for v in self.values if v.quoted for at in range(v.start, v.end)}
        return frozenset(quoted.union(at for at in range(len(self.low)) if self._has_function(at)))

    def _has_function(self, at: int) -> bool:
        word, before, after = self.low[at], self.word(at - 1), self.word(at + 1)
        named = not {"name", "names"}.isdisjoint(self.low[at + 1 : at + 4])
        return any(
            (
                word in ("order", "orders") and (before in _ORDER_BEFORE or after == "by"),
                word in _ARRANGED and after in ("by", "in", "as", "from") and at not in self.verbs,
                word in _IMPERATIVES and before in ("", ".", "please", "?"),
                word == "many" or (word == "different" and at > 0),
                word in ("first", "last") and not named,  # "the last order" is not about a `last_name`
            )
        )

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
        bests = [m.best() for m in self.mentions]
        named = {best.table for best in bests if best.column is None and best.coverage == 1}
        unnamed = {table.id for table in self.schema.tables if table.view} - named
        if unnamed:
            self.mentions = [_without(mention, unnamed) for mention in self.mentions]
            self.values = [self._held_outside(value, unnamed) for value in self.values]

    def _held_outside(self, value: ValueMention, tables: set[int]) -> ValueMention:
        holders = tuple(h for h in value.holders if self.schema.columns[h.column].table not in tables)
        return value._replace(holders=holders or value.holders)

    def _better_as_schema(self, value: ValueMention) -> bool:
        """Return whether a lower-case word is exactly the name of a table or column, and so not a value."""
        first = self.tokens[value.start]
        capital = first.is_capital and value.start > 0
        if value.quoted or (capital and first.text.isupper()):
            return False
        exact = [m for m in self.mentions if m.best().is_exact]
        around = next((m for m in exact if m.start <= value.start and value.end <= m.end), None)
        return around is not None and (not capital or around.end - around.start > value.end - value.start)

    def _is_event(self, value: ValueMention) -> bool:
        """Return whether a word says what happened, at a date of the same row, and not how the row is: "opened", or
        "did they open", where the rows have `opened_at` and the status "open".
        """
        if value.quoted or value.end - value.start > 1:
            return False
        tables = {self.schema.columns[h.column].table for h in value.holders}
        said = self.tokens[value.start].low
        dates = [c for c in self.schema.columns if c.kind == "date" and c.table in tables]
        if said.endswith("ed"):
            return any(said in c.words for c in dates) and all(h.way != "exact" for h in value.holders)
        asked = not {"did", "do", "does"}.isdisjoint(self.low[: value.start])
        happened = any(stem(word) == stem(said) for c in dates for word in c.words)
        return asked and happened and self.word(value.end) in _AFTER_VERB

    def _add_predicates(self) -> None:
        """Replace mentions of flags, and of columns that must be NULL, by conditions."""
        found = find_predicates(self.tokens, self.schema, self.mentions)
        taken = [*found, *self.values]
        states = find_states(self.tokens, self.schema, self.mentions, self.values)
        found += [state for state in states if not _overlaps(state, taken)]
        inside = [v for v in self.values if v.quoted or not _overlaps(v, found)]
        found = [p for p in found if not _overlaps(p, inside)]
        self.values = sorted(inside + found, key=lambda v: v.start)
        self.mentions = [m for m in self.mentions if not _overlaps(m, found)]

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

    def _marks(self) -> dict[int, tuple[str, int]]:
        """Return the mark of each piece, and its end, by its first position."""
        marks = {amount.start: ("NUM", amount.start + 1) for amount in self.amounts}
        for mention in self.mentions:
            marks[mention.start] = ("TAB" if mention.best().column is None else "COL", mention.end)
        for value in self.values:
            if not self._mentioned(value.start):
                marks[value.start] = ("VAL", value.end)
        return marks

    def _fold(self) -> list[QuestionUnit]:
        marks = self._marks()
        units, at, zone = [], 0, "start"
        while at < len(self.tokens):
            mark, end = marks.get(at, (self.tokens[at].lemma, at + 1))
            if at not in marks and at not in self.verbs:
                zone = _ZONES.get(self.low[at], _ZONES.get(mark, zone))
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

    @property
    def touched_tables(self) -> set[int]:
        """Return the tables of what each mention most likely stands for."""
        pairs = [(m.best(), t) for m in self.mentions for t in m.targets]
        return {t.table for best, t in pairs if t.quality >= best.quality - 1e-9}

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
            while step > 0 and self.units[step].mark in _LISTING:
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
    said |= {at for at, token in enumerate(parsed.tokens) if token.value is not None}  # "which 5 customers"
    opening = [word for at, word in enumerate(parsed.low[: parsed.mentions[0].start]) if at not in said]
    is_list = bool(opening) and opening[0] in _LISTS and _SKIPPED.issuperset(opening[1:])
    return parsed.mentions[0] if is_list or opening in ([], ["which"], ["what"]) else None
