"""Assign the parts of a question to sources, by the words that the sources know.

The question is cut into clauses, and every clause gets a score for every source. The assignment with the
highest total wins, where each change of source has a cost. Adjacent clauses of one source form one part with
the original wording, so a question about a single source reaches its planner unchanged.

A question to a single source is never split.

The decomposer does not interpret a part; the planner does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Literal

from clew_nl2sql.decompose import clauses as english
from clew_nl2sql.decompose import rewrite
from clew_nl2sql.decompose.clauses import Clause
from clew_nl2sql.decompose.normalization import content, name_words, stem
from clew_nl2sql.decompose.source_scoring import Vocabulary, score
from clew_nl2sql.decompose.wording import reworded
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.schemas import CombineGroup, DecomposerResponse, PostOp, SubQuery
from clew_nl2sql.timezones import today_in

CHANGE = 0.35  # cost of a change of source
# Names of columns that hold text by people, most specific first.
_SAYING = "comment message feedback review note summary subject topic description"
SAYING = [stem(word) for word in _SAYING.split()]
LITTLE = 0.25  # a clause with a lower score belongs to no source


class LinkingDecomposer:
    """Decomposes questions deterministically and offline. "last year" is relative to `today`, which
    returns the date in the time zone of a source.
    """

    def __init__(self, *, today: Callable[[str], date] = today_in) -> None:
        self._today = today

    def decompose(self, question: str, catalogs: Mapping[str, Catalog]) -> DecomposerResponse:
        """Return the parts, how they are combined, and the words that match no source."""
        vocabularies = {name: Vocabulary(name, catalog) for name, catalog in catalogs.items()}
        if everywhere := _everywhere(question, vocabularies):
            return everywhere
        question = _spelled_out(question, catalogs).strip()
        # With one source there is nothing to assign, and "and" may join two columns.
        whole = [Clause(question, 0, len(question))]
        found = whole if len(catalogs) == 1 else english.clauses(question)
        worth = [score(_weighed(clause.text), vocabularies) for clause in found]
        chosen = _without_what_is_apart(found, worth, _assign(worth, list(catalogs)))
        parts = _parts(found, chosen)
        unmapped = tuple(c.text for c, source in zip(found, chosen) if source is None and content(c.text))
        if not parts:
            return DecomposerResponse(unmapped=unmapped or (question,))
        if len(parts) > 1:
            return _several(question, parts, unmapped, catalogs, self._today)
        ((source, pieces),) = parts
        text = question[pieces[0].start : pieces[-1].end] if unmapped else question
        intent = _rewritten(text, question, catalogs[source], self._today)
        return DecomposerResponse(
            sub_queries=(_sub_query(1, source, intent, text),),
            unmapped=unmapped,
            notes=_as_well(source, [worth[found.index(piece)] for piece in pieces]),
        )


def _rewritten(text: str, question: str, catalog: Catalog, today: Callable[[str], date]) -> str:
    """Return a question to one source in words that any planner understands."""
    entity = _singular(english.entity_of(question)[0])
    intent = rewrite.spent(text, catalog, entity)
    if intent != text:
        intent = rewrite.by_name(intent, catalog, entity)
    day = today(catalog.timezone)
    return rewrite.dated(reworded(intent, catalog, day), catalog, day)


def _spelled_out(question: str, catalogs: Mapping[str, Catalog]) -> str:
    """Name the column that "What did support say" asks for: one of that source that holds text by people."""
    spoken = english.SPOKEN_OF.search(question)
    if spoken is None:
        return question
    matches = [
        (SAYING.index(stem(word)), column.name, table.own_name)
        for name, catalog in catalogs.items()
        if name.lower() == spoken[1].lower()
        for table in catalog.tables
        for column in table.columns
        for word in name_words(column.name)
        if column.kind == "text" and stem(word) in SAYING
    ]
    if not matches:
        return question
    _, column_name, table_name = min(matches)
    asked = f"list the {column_name} of {table_name}".replace("_", " ")
    return f"{question[: spoken.start()]}{asked}{question[spoken.end() :]}"


def _weighed(text: str) -> str:
    return english.COMPARING.sub(" ", text)


def _assign(worth: Sequence[Mapping[str, float]], sources: Sequence[str]) -> list[str]:
    """Return the best source for each clause, by dynamic programming; each change of source has a cost."""
    best: dict[str, tuple[float, list[str]]] = {source: (0.0, []) for source in sources}
    for at in worth:
        row: dict[str, tuple[float, list[str]]] = {}
        for source in sources:
            options = [
                (total - (CHANGE if path and before != source else 0.0), path)
                for before, (total, path) in best.items()
            ]
            total, path = max(options, key=lambda option: option[0])
            row[source] = (total + at[source], [*path, source])
        best = row
    return max(best.values(), key=lambda option: option[0], default=(0.0, []))[1]


def _without_what_is_apart(
    found: Sequence[Clause], worth: Sequence[Mapping[str, float]], path: Sequence[str]
) -> list[str | None]:
    """Return the path, with None for clauses that belong to no source.

    Those clauses are questions by themselves with only unknown words. Any other clause stays with its
    neighbours, because it may change their meaning. If no word is known, a single source is still asked,
    since its planner may know more words; several sources are not.
    """
    known = [max(at.values(), default=0.0) >= LITTLE for at in worth]
    if not any(known):
        return list(path) if worth and len(worth[0]) == 1 else [None] * len(path)
    apart = [
        not is_known and len(content(clause.text)) > 1 and bool(english.ASKING.match(clause.text.strip()))
        for clause, is_known in zip(found, known)
    ]
    return [None if alone else source for alone, source in zip(apart, path)]


def _parts(found: Sequence[Clause], chosen: Sequence[str | None]) -> list[tuple[str, list[Clause]]]:
    """Group adjacent clauses of one source; a clause without content joins the previous one."""
    parts: list[tuple[str, list[Clause]]] = []
    waiting: list[Clause] = []
    for clause, source in zip(found, chosen):
        if source is None:
            if not content(clause.text):
                (parts[-1][1] if parts else waiting).append(clause)
            continue
        if parts and parts[-1][0] == source:
            parts[-1][1].append(clause)
        else:
            parts.append((source, [*waiting, clause]))
            waiting = []
    return parts


def _as_well(source: str, worth: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return other sources with an equal score, which the user may have meant."""
    total = {name: sum(at[name] for at in worth) for name in (worth[0] if worth else ())}
    others = [name for name, sum_ in total.items() if name != source and sum_ > 0 and sum_ >= total[source]]
    if not others:
        return ()
    return (f"{source} was queried; {', '.join(others)} may also answer this, so name the source you mean",)


def _several(
    question: str,
    parts: Sequence[tuple[str, list[Clause]]],
    unmapped: tuple[str, ...],
    catalogs: Mapping[str, Catalog],
    today: Callable[[str], date],
) -> DecomposerResponse:
    entity, said = english.entity_of(question)
    texts = [question[pieces[0].start : pieces[-1].end] for _, pieces in parts]
    if _only_leads(texts[0]):  # "for each customer" alone is not a question
        parts, texts = parts[1:], texts[1:]
    each = said == "each"
    back = [each or english.refers_back(text) for text in texts]
    refers = any(back[1:])
    shared = entity if each or refers or _same_subject(texts) else ""
    queries = []
    whole = ""
    for number, ((source, _), text) in enumerate(zip(parts, texts), 1):
        whole = english.completed(_weighed(text), whole)
        intent = rewrite.spent(_without_source(whole, source), catalogs[source], _singular(entity))
        if shared:
            asked = rewrite.for_each if back[number - 1] else rewrite.by_name
            intent = asked(intent, catalogs[source], _singular(entity))
        queries.append(
            _sub_query(number, source, _whole_question(intent, catalogs[source], today), text, shared)
        )
    how: Literal["full", "left", "inner"] = "full" if each else "left" if refers else "inner"
    combine = _combined(question, shared, how) if len(queries) > 1 else CombineGroup()
    return DecomposerResponse(sub_queries=tuple(queries), combine=combine, unmapped=unmapped)


def _combined(question: str, shared: str, how: Literal["full", "left", "inner"]) -> CombineGroup:
    joins = shared and not english.COMPARING.search(question)
    return CombineGroup(operation="join" if joins else "compare", how=how, entity=_singular(shared))


def _whole_question(intent: str, catalog: Catalog, today: Callable[[str], date]) -> str:
    dated = rewrite.dated(intent, catalog, today(catalog.timezone))
    text = re.sub(r"\s+", " ", dated).strip(" ,")
    return f"{text[:1].upper()}{text[1:]}"


def _only_leads(text: str) -> bool:
    return bool(english.LEAD.match(f"{text},")) and not content(english.LEAD.sub("", f"{text},"))


def _same_subject(texts: Sequence[str]) -> bool:
    """Return whether later parts are conditions on the subject of the first."""
    return len(texts) > 1 and all(english.CONDITION.match(text) for text in texts[1:])


def _everywhere(question: str, vocabularies: Mapping[str, Vocabulary]) -> DecomposerResponse | None:
    """Send one question to every source that knows its subject."""
    if not english.EVERYWHERE.search(question):
        return None
    alone = re.sub(r"\s+", " ", english.EVERYWHERE.sub("", question)).strip(" ?.!,")
    adds_up = english.ADDED_UP.search(question)
    asked = re.sub(r"\s+", " ", english.ADDED_UP.sub("", alone) if adds_up else alone).strip(" ,")
    known = {name: vocabulary.known(asked) for name, vocabulary in vocabularies.items()}
    most = max(known.values(), default=0)
    knowing = [name for name, words in known.items() if most and words == most]
    if len(knowing) < 2:
        return None
    queries = tuple(_sub_query(number, name, asked, asked) for number, name in enumerate(knowing, 1))
    union = CombineGroup(operation="union")
    if not adds_up or not english.COUNTING.search(question):
        return DecomposerResponse(sub_queries=queries, combine=union)
    post = PostOp(kind="aggregate", measures=(("sum", "count"),))
    note = "the counts of the sources are added up: what several of them have is counted several times"
    return DecomposerResponse(sub_queries=queries, combine=union, post_ops=(post,), notes=(note,))


def _without_source(text: str, source: str) -> str:
    """Return the words without "in the erp", since a planner expects tables and not sources."""
    name = re.escape(source)
    return re.sub(
        rf"\s*\b(?:in|from|of|according to|by|at)\s+(?:the\s+)?{name}(?:\s+(?:database|system|source|db))?\b",
        "",
        text,
        flags=re.IGNORECASE,
    )


def _singular(word: str) -> str:
    base = stem(word)
    return base if word.lower().startswith(base) and word.lower().endswith("s") else word


def _sub_query(number: int, source: str, intent: str, text: str, entity: str = "") -> SubQuery:
    return SubQuery(
        id=f"scan_{number}_{source}",
        datasource_id=source,
        intent=intent,
        text=text.strip(),
        entity=_singular(entity),
    )
