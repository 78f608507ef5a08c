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

from clew_nl2sql.decompose import clauses as english
from clew_nl2sql.decompose import rewrite
from clew_nl2sql.decompose.clauses import Clause
from clew_nl2sql.decompose.normalization import content, name_words, stem
from clew_nl2sql.decompose.source_scoring import Vocabulary, score
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.schemas import CombineGroup, DecomposerResponse, PostOp, SubQuery
from clew_nl2sql.timezones import today_in

CHANGE = 0.35  # cost of a change of source
# Names of columns that hold text by people, most specific first.
SAYING = [
    stem(w)
    for w in (
        "comment",
        "message",
        "feedback",
        "review",
        "note",
        "summary",
        "subject",
        "topic",
        "description",
    )
]
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
        if english.EVERYWHERE.search(question) and len(catalogs) > 1:
            everywhere = _everywhere(question, vocabularies)
            if everywhere:
                return everywhere
        question = _spelled_out(question, catalogs).strip()
        if len(catalogs) == 1:  # there is nothing to assign, and "and" may join two columns
            found = [Clause(question, 0, len(question))]
        else:
            found = english.clauses(question)
        worth = [score(_weighed(clause.text), vocabularies) for clause in found]
        chosen = _without_what_is_apart(found, worth, _assign(worth, list(catalogs)))
        parts = _parts(found, chosen)
        unmapped = tuple(
            clause.text for clause, source in zip(found, chosen) if source is None and content(clause.text)
        )
        if not parts:
            return DecomposerResponse(unmapped=unmapped or (question.strip(),))
        if len(parts) == 1:
            ((source, pieces),) = parts
            text = question[pieces[0].start : pieces[-1].end] if unmapped else question.strip()
            entity = _singular(english.entity_of(question)[0])
            intent = rewrite.spent(text, catalogs[source], entity)
            if intent != text:
                intent = rewrite.by_name(intent, catalogs[source], entity)
            intent = rewrite.dated(intent, catalogs[source], self._today(catalogs[source].timezone))
            return DecomposerResponse(
                sub_queries=(_sub_query(1, source, intent, text),),
                unmapped=unmapped,
                notes=_as_well(source, [worth[found.index(piece)] for piece in pieces]),
            )
        return _several(question, parts, unmapped, catalogs, self._today)


def _spelled_out(question: str, catalogs: Mapping[str, Catalog]) -> str:
    """Name the column that "What did support say" asks for: one of that source that holds text by people."""
    spoken = english.SPOKEN_OF.search(question)
    source = spoken[1].lower() if spoken else ""
    catalog = next((catalog for name, catalog in catalogs.items() if name.lower() == source), None)
    if spoken is None or catalog is None:
        return question
    matches = [
        (SAYING.index(stem(word)), column.name, table.own_name)
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
    if (
        len(parts) > 1
        and english.LEAD.match(texts[0] + ",")
        and not content(english.LEAD.sub("", texts[0] + ","))
    ):
        parts, texts = parts[1:], texts[1:]  # "for each customer" alone is not a question
    comparing = bool(english.COMPARING.search(question))
    back = [english.refers_back(text) for text in texts]
    shared = entity if said == "each" or any(back[1:]) or _same_subject(texts) else ""
    queries = []
    whole = ""
    for number, ((source, _), text) in enumerate(zip(parts, texts), 1):
        whole = english.completed(_weighed(text), whole)
        catalog = catalogs[source]
        intent = rewrite.spent(_without_source(whole, source), catalog, _singular(entity))
        if shared and (said == "each" or back[number - 1]):
            intent = rewrite.for_each(intent, catalog, _singular(entity))
        elif shared:
            intent = rewrite.by_name(intent, catalog, _singular(entity))
        intent = rewrite.dated(intent, catalog, today(catalog.timezone))
        intent = re.sub(r"\s+", " ", intent).strip(" ,")
        queries.append(_sub_query(number, source, f"{intent[:1].upper()}{intent[1:]}", text, shared))
    if len(queries) == 1:
        return DecomposerResponse(sub_queries=tuple(queries), unmapped=unmapped)
    how = "full" if said == "each" else "left" if any(back[1:]) else "inner"
    operation = "compare" if comparing or not shared else "join"
    combine = CombineGroup(operation=operation, how=how, entity=_singular(shared))  # type: ignore[arg-type]
    return DecomposerResponse(sub_queries=tuple(queries), combine=combine, unmapped=unmapped)


def _same_subject(texts: Sequence[str]) -> bool:
    """Return whether later parts are conditions on the subject of the first."""
    return len(texts) > 1 and all(english.CONDITION.match(text) for text in texts[1:])


def _everywhere(question: str, vocabularies: Mapping[str, Vocabulary]) -> DecomposerResponse | None:
    """Send one question to every source that knows its subject."""
    alone = re.sub(r"\s+", " ", english.EVERYWHERE.sub("", question)).strip(" ?.!,")
    asked = english.ADDED_UP.sub("", alone) if english.ADDED_UP.search(question) else alone
    asked = re.sub(r"\s+", " ", asked).strip(" ,")
    weighed = {name: vocabulary.weigh(asked) for name, vocabulary in vocabularies.items()}
    most = max((sum(w > 0 for w in found.values()) for found in weighed.values()), default=0)
    knowing = [name for name, found in weighed.items() if most and sum(w > 0 for w in found.values()) == most]
    if len(knowing) < 2:
        return None
    queries = tuple(_sub_query(number, name, asked, asked) for number, name in enumerate(knowing, 1))
    post: tuple[PostOp, ...] = ()
    notes: tuple[str, ...] = ()
    if english.ADDED_UP.search(question) and re.search(
        r"\bhow many\b|\bnumber of\b", question, re.IGNORECASE
    ):
        post = (PostOp(kind="aggregate", measures=(("sum", "count"),)),)
        notes = (
            "the counts of the sources are added up: what several of them have is counted several times",
        )
    return DecomposerResponse(
        sub_queries=queries, combine=CombineGroup(operation="union"), post_ops=post, notes=notes
    )


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
