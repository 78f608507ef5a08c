"""Tables and columns of a catalog that a wording means, if exactly one can be meant."""

from __future__ import annotations

from clew_nl2sql.decompose.normalization import name_words, words
from clew_nl2sql.planner.catalog import Catalog, Column, Table
from clew_nl2sql.planner.linking.schema_index import prepare
from clew_nl2sql.planner.words.inflection import lemma, stem
from clew_nl2sql.planner.words.lexicon import ABBREVIATIONS, SYNONYMS, word_set

_AMOUNTS = word_set("amount price total cost fee charge fare payment value sum refund rent paid amt")
_RATES = word_set("rate hourly daily nightly monthly unit list per tax discount")
# What people get is no figure of what they give, and what they owe is not paid yet.
_TAKEN = frozenset(stem(word) for word in ["received", "receive", "collected", "collect", "earned", "earn"])
_OWED = word_set(
    "refund salary wage payroll payout expense cost loan debt claim grant budget bonus commission quote"
)
PAID = word_set("payment donation invoice refund expense fee fine deposit contribution")
_SPENT = frozenset(stem(word) for word in ["spent", "spend", "generated"])
_BOUGHT = word_set("order sale purchase booking rental")
_PEOPLE = word_set("birth gender sex surname salary wage")
_ENDINGS = frozenset(
    stem(word)
    for word in [
        "paid",
        "returned",
        "closed",
        "settled",
        "resolved",
        "completed",
        "finished",
        "ended",
        "delivered",
        "shipped",
        "left",
        "cancelled",
    ]
)
_PLAIN = frozenset(stem(word) for word in ["date", "time", "day", "at", "on", "timestamp", "datetime"])


class NamedThings:
    """Looks up what a question names."""

    def __init__(self, catalog: Catalog):
        self._tables = [t for t in catalog.tables if not t.view] or list(catalog.tables)
        self._catalog = catalog

    def table(self, text: str) -> Table | None:
        """Return the table with a name, in any number; "projects" is also the only table that ends in project."""
        said = [lemma(word) for word in words(text)]
        if not said:
            return None
        names = [
            (t, [lemma(w) for part in name_words(t.own_name) for w in _full(part)]) for t in self._tables
        ]
        exact = [t for t, name in names if name == said]
        ends = [t for t, name in names if name[-len(said) :] == said]
        found = exact or ends
        return found[0] if len(found) == 1 else None

    def is_plural(self, text: str) -> bool:
        last = words(text)[-1]
        return lemma(last) != last or last in ("staff", "people")

    def singular(self, text: str) -> str:
        return " ".join(lemma(word) for word in words(text))

    def knows(self, word: str) -> bool:
        """Return whether a table or column has a word in its name."""
        wanted = stem(word)
        names = [t.own_name for t in self._tables] + [c.name for t in self._tables for c in t.columns]
        return any(stem(part) == wanted for name in names for part in name_words(name))

    def has_column(self, table: Table, name: str) -> bool:
        return any(c.name.lower() == name for c in table.columns)

    def has_name(self, text: str) -> bool:
        """Return whether a table with that name has a name column of its rows."""
        table = self.table(text)
        return table is not None and any(name_words(c.name)[-1] in ("name", "title") for c in table.columns)

    def column_or_table(self, text: str) -> str:
        """Return how to say the column or table that a text names: "customer kind" for "kind of customer"."""
        of = [part for part in text.lower().split() if part not in ("the", "a")]
        if "of" in of[1:-1]:
            cut = of.index("of")
            turned = " ".join(of[cut + 1 :] + of[:cut])
            return turned if self._has(turned) else ""
        return text if self._has(text) else ""

    def _has(self, text: str) -> bool:
        said = {stem(word) for word in words(text)}
        for table in self._tables:
            own = {stem(w) for w in name_words(table.own_name)}
            if said == own:
                return True
            for column in table.columns:
                name = {stem(w) for w in name_words(column.name)}
                if (
                    said <= name | own
                    and said & name
                    and (name - own or name) <= said | own | {"id", "code", "number"}
                ):
                    return True
        return self.table(text) is not None

    def names_column(self, text: str) -> bool:
        return any(
            name_words(c.name)[: len(text.split())] == text.lower().split()
            for t in self._tables
            for c in t.columns
        )

    def is_value(self, text: str) -> bool:
        low = text.lower()
        return any(
            isinstance(v, str) and v.lower() == low for t in self._tables for c in t.columns for v in c.values
        )

    # -- dates -------------------------------------------------------------------------------------------------

    def number_of(self, noun: str, kind: str) -> str | None:
        """Return the only number, or code, that differs in every row of a table."""
        table = self.table(noun)
        ends = (
            [c for c in table.columns if _full(name_words(c.name)[-1])[-1] == kind.lower()] if table else []
        )
        rows = table.row_count or 0 if table else 0
        own = [c for c in ends if c.n_distinct is None or c.n_distinct == rows]
        return _spoken(own[0]) if len(own) == 1 and not self.is_plural(noun) else None

    def date_of(self, table: Table | None, verb: str) -> str | None:
        """Return the only date of a table that a verb names; without a verb, its only date."""
        if table is None:
            return None
        dates = [c for c in table.columns if c.kind == "date"]
        if verb:
            said = {stem(w) for w in (verb, *SYNONYMS.get(lemma(verb), ()))}
            meant = [c for c in dates if said & {stem(w) for name in name_words(c.name) for w in _full(name)}]
            if not meant and stem(verb) in {stem(w) for w in name_words(table.own_name)}:
                meant = dates
        else:
            meant = dates
        return _spoken(meant[0]) if len(meant) == 1 else None

    def two_dates(self, one: str, other: str) -> tuple[str, str] | None:
        """Return two dates of one table, by the words of their events."""
        for table in self._tables:
            dates = [c for c in table.columns if c.kind == "date"]
            first = [c for c in dates if stem(one) in {stem(w) for w in name_words(c.name)}]
            second = [c for c in dates if stem(other) in {stem(w) for w in name_words(c.name)}]
            if not first and stem(one) in (stem("made"), stem("paid")):
                first = [c for c in dates if c not in second and c.name.lower().startswith("paid")]
            if len(first) == 1 and len(second) == 1 and first != second:
                return _spoken(first[0]), _spoken(second[0])
        return None

    def due_dates(self, text: str) -> tuple[str, str] | None:
        """Return the date by which something is due, and the one that is missing until it is done."""
        said = {lemma(word) for word in words(text)}
        found = []
        for table in self._tables:
            if not said & {lemma(w) for w in name_words(table.own_name)}:
                continue
            dates = [c for c in table.columns if c.kind == "date"]
            due = [c for c in dates if "due" in name_words(c.name)]
            done = [c for c in dates if _ENDINGS & {stem(w) for w in name_words(c.name)} and _lacks(table, c)]
            if len(due) == 1 and len(done) == 1:
                found.append((_spoken(due[0]), _spoken(done[0])))
        return found[0] if len(found) == 1 else None

    # -- people and money ----------------------------------------------------------------------------------------

    def person_of(self, text: str) -> str | None:
        """Return the only table of people that is linked to the table that a text begins with."""
        said = words(text)
        for length in (3, 2, 1):
            table = self.table(" ".join(said[:length])) if len(said) >= length else None
            if table is not None:
                near = self._linked(table)
                people = [t for t in near if _is_people(t)]
                return (
                    " ".join(lemma(w) for w in name_words(people[0].own_name)) if len(people) == 1 else None
                )
        return None

    def is_agent(self, verb: str, person: str) -> bool:
        """Return whether people are called after what they do: a teacher teaches."""
        return any(stem(word) == stem(verb) for word in person.split())

    def person_with(self, verb: str) -> str | None:
        """Return the only table of people with the date of an event: those who were hired."""
        found = [t for t in self._tables if _is_people(t) and self.date_of(t, verb)]
        return " ".join(lemma(w) for w in name_words(found[0].own_name)) if len(found) == 1 else None

    def _linked(self, table: Table) -> list[Table]:
        schema = prepare(self._catalog)
        number = next(t.id for t in schema.tables if t.name == table.name)
        pairs = [(schema.columns[a].table, schema.columns[b].table) for a, b in schema.edges]
        near = {b for a, b in pairs if a == number and b != number}
        return [t for t in self._tables if any(schema.tables[n].name == t.name for n in near)]

    def is_figure(self, text: str) -> bool:
        """Return whether a text is the name of one column of numbers, and of no table: "hours"."""
        named = [c for t in self._tables for c in t.columns if _spoken(c) == text.lower()]
        return [c.kind for c in named] == ["number"] and self.table(text) is None

    def paid_for(self, thing: str, verb: str, named: str) -> tuple[str, str] | None:
        """Return the only amount that belongs to a thing, and its table: the one that is named, that a verb names, or
        the payments that refer to the thing.
        """
        table = self.table(thing)
        near = self._tables if table is None else self._referring(table)
        amounts = [(t, amount) for t in self._tables if (amount := self.amount_in(t))]
        found = [f for f in amounts if f[0] in near and self._is_paid(f[0], verb)]
        if named:
            found = [f for f in amounts if f[0] == self.table(named)]
        elif meant := [f for f in amounts if stem(verb) in {stem(w) for w in name_words(f[0].own_name)}]:
            pays = table is None or _is_people(table)
            found = meant if pays or len(meant) != 1 or meant[0][0] in near else []
        return (found[0][1], _plural(found[0][0])) if len(found) == 1 else None

    def _is_paid(self, table: Table, verb: str) -> bool:
        """Return whether the rows of a table are what is paid, or what money is spent on."""
        own = lemma(name_words(table.own_name)[-1])
        bought = stem(verb) in _SPENT and own in _BOUGHT
        return stem(verb) not in _TAKEN and (own in PAID or bought) and _OWED.isdisjoint(_singulars(table))

    def _referring(self, table: Table) -> list[Table]:
        schema = prepare(self._catalog)
        pairs = [(schema.columns[a].table, schema.columns[b].table) for a, b in schema.edges]
        near = {schema.tables[a].name for a, b in pairs if schema.tables[b].name == table.name}
        return [t for t in self._tables if t.name in near]

    def plural(self, table: Table) -> str:
        """Return the name of a table as one says it of several rows."""
        return _plural(table)

    def moment_of(self, verb: str, noun: str) -> tuple[str, str] | None:
        """Return the date of a deed, and its table: "donate" is the only date of donations."""
        if noun:
            table = self.table(noun)
        else:
            events = [t for t in self._tables if not _is_people(t)]
            called = [t for t in events if stem(verb) == stem(name_words(t.own_name)[-1])]
            table = called[0] if len(called) == 1 else None
        date = self.date_of(table, verb) or self.date_of(table, "")
        return (date, _plural(table)) if table and date else None

    def amount_in(self, table: Table) -> str | None:
        """Return the only amount of money of a table."""
        found = [c for c in table.columns if _is_amount(c)]
        return _spoken(found[0]) if len(found) == 1 else None

    def amount_of(self, text: str) -> tuple[str, str] | None:
        """Return the only amount that a text may be about, and its table: one that it names, or a value of it."""
        said = {stem(word) for word in words(text)}
        low = f" {' '.join(words(text))} "
        found = []
        for table in self._tables:
            amount = self.amount_in(table)
            if amount is None:
                continue
            named = bool(said & {stem(w) for w in name_words(table.own_name)})
            held = any(
                isinstance(v, str) and len(v) > 2 and f" {' '.join(words(v))} " in low
                for c in table.columns
                if c.n_distinct is None or c.n_distinct <= 50
                for v in c.values
            )
            if named or held:
                found.append((named, amount, _plural(table)))
        best = [f for f in found if f[0]] or found
        return best[0][1:] if len(best) == 1 else None


def _singulars(table: Table) -> set[str]:
    return {lemma(word) for word in name_words(table.own_name)}


def _full(word: str) -> tuple[str, ...]:
    return ABBREVIATIONS.get(word, (word,))


def _lacks(table: Table, column: Column) -> bool:
    at = table.columns.index(column)
    return any(row[at] is None for row in table.rows)


def _spoken(column: Column) -> str:
    return " ".join(name_words(column.name))


def _plural(table: Table) -> str:
    name = name_words(table.own_name)
    last = name[-1]
    return " ".join((*name[:-1], last if lemma(last) != last else f"{last}s"))


def _is_people(table: Table) -> bool:
    names = [[w for part in name_words(c.name) for w in _full(part)] for c in table.columns]
    own = {lemma(w) for part in name_words(table.own_name) for w in _full(part)}
    whole = any(n[-2:] in (["first", "name"], ["last", "name"], ["full", "name"]) for n in names)
    return whole or bool(_PEOPLE & {w for n in names for w in n}) or bool(own & _PERSONS)


_PERSONS = word_set(
    "person people employee customer guest member patient student teacher driver user client visitor owner tenant"
)


def _is_amount(column: Column) -> bool:
    name = name_words(column.name)
    return (
        column.kind == "number"
        and not column.primary_key
        and bool(_AMOUNTS & set(name))
        and not _RATES & set(name)
    )
