"""The planner: parse the question, build and rank candidates, run the best on samples, and answer or abstain.

The result depends only on the question, the catalog and the shipped weights. The planner answers if its
certainty reaches the threshold, which is set so that nine of ten answers on unseen databases are correct.
Otherwise it lists what it considered.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from sqlglot import exp

from clew_nl2sql.planner.asking.diverse import OfferedReading, diverse
from clew_nl2sql.planner.asking.other_readings import other_readings
from clew_nl2sql.planner.asking.usable_columns import numbers_rows
from clew_nl2sql.planner.building.dry_run import DryRunResult, SampleDatabase, sample_database, sample_sql
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.deciding.acts import Consumed, Ignore, SelectColumn, SelectFullName, TableAct
from clew_nl2sql.planner.judging.asked_for import merges_namesakes
from clew_nl2sql.planner.judging.assumptions import assumptions
from clew_nl2sql.planner.judging.figures import EACH
from clew_nl2sql.planner.judging.sense import makes_sense
from clew_nl2sql.planner.judging.unread import unread, unread_features
from clew_nl2sql.planner.judging.unsupported import CEILING, is_impossible, is_unsupported
from clew_nl2sql.planner.linear_model import LinearModel, shipped
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.plan import Candidate, LinkedSpan, Plan
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking.certainty import Facts, chance, is_ordered, of_candidate, of_field
from clew_nl2sql.planner.ranking.features import CandidateFeatures, outcome_features

REHEARSED = 16
SHOWN = 10
VARIED = 6  # candidates whose other readings are offered
OTHERS = 80  # other readings that are rehearsed
KEYS = 0.3  # of the share, if only keys are shown
NEXT_TO = 0.3  # share of another reading, for each share of its candidate


class ScoredCandidate(NamedTuple):
    """A candidate with its SQL and the result of its dry run."""

    ranked: CandidateFeatures
    expression: exp.Expression
    outcome: DryRunResult
    score: float
    share: float = 0.0


class CandidatePool(NamedTuple):
    """The candidates after the dry run, grouped by equal answers, and the best of them."""

    contenders: list[ScoredCandidate]
    answers: list[tuple[float, list[ScoredCandidate]]]  # most likely first, also within each group


class RulePlanner:
    """Deterministic planner. A higher `threshold` gives fewer answers, and more of them are correct."""

    def __init__(self, *, threshold: float | None = None, model: LinearModel | None = None):
        self._model = model or shipped()
        self._threshold = self._model.threshold if threshold is None else threshold

    def plan(self, question: str, catalog: Catalog) -> Plan:
        """Plan one question for one catalog."""
        parsed = ParsedQuestion(question, catalog)
        field = compete(parsed, catalog, self._model)
        if not field.answers:
            return self._asked_back(question, parsed, catalog)
        best = field.answers[0][1][0]
        facts = facts_of(parsed, field)
        certainty = round(chance(self._model.certainty, facts), 6)
        if is_unsupported(parsed, best.ranked):
            certainty = min(certainty, CEILING)
        abstained = certainty < self._threshold
        asked = abstained or bool(unread(parsed, best.ranked))
        readings = _readings(parsed, field, sample_database(catalog) if asked else None)
        shown = _shown(readings, None if abstained else best.expression, catalog.dialect, certainty)
        return Plan(
            question=question,
            sql=None if abstained else shown[0].sql,
            expression=None if abstained else best.expression,
            certainty=certainty,
            abstained=abstained,
            candidates=tuple(shown),
            links=tuple(_links(parsed, best.ranked)),
            unmapped=tuple(unread(parsed, best.ranked)),
            assumptions=tuple(assumptions(parsed, best.ranked)),
            threshold=self._threshold,
            hash=_hash(catalog.dialect, shown[0].sql, abstained, certainty),
        )

    def _asked_back(self, question: str, parsed: ParsedQuestion, catalog: Catalog) -> Plan:
        """Abstain if every candidate contradicts the question; a person may still mean one, or a reading next to it."""
        field = compete(parsed, catalog, self._model, strict=False)
        words = tuple(t.text for t in parsed.tokens if t.kind != "punct")
        shown = _shown(_readings(parsed, field, sample_database(catalog)), None, catalog.dialect, 0.0)
        return Plan(
            question=question,
            sql=None,
            expression=None,
            certainty=0.0,
            abstained=True,
            candidates=tuple(shown),
            links=(),
            unmapped=words,
            hash=_hash("", "", True, 0.0),
        )


def compete(
    parsed: ParsedQuestion, catalog: Catalog, model: LinearModel, *, strict: bool = True
) -> CandidatePool:
    """Rank the candidates of a question, and run the best on samples."""
    ranked = candidates(parsed, model, strict=strict)
    scored = sorted(
        ((_score(model, r.features), n, r) for n, r in enumerate(ranked)), key=lambda s: (-s[0], s[1])
    )
    contenders = []
    stage = sample_database(catalog)
    for score, _, candidate in scored[:REHEARSED]:
        try:
            query = _groups_first(parsed, candidate)
            if merges_namesakes(parsed, query):
                query = query._replace(distinct=False)
            expression = to_expression(query, parsed.schema)
        except UnjoinableTablesError:
            continue
        outcome = DryRunResult("unknown", "")
        if stage is not None:
            outcome = stage.outcome(sample_sql(expression), ordered=is_ordered(candidate.query))
        late = outcome_features(parsed, candidate.query, outcome) + unread_features(parsed, candidate)
        weight = _score(model, late)
        contenders.append(ScoredCandidate(candidate, expression, outcome, score + weight))
    return _field(contenders)


def _groups_first(parsed: ParsedQuestion, candidate: CandidateFeatures) -> Query:
    """Return the query with its groups before their figures: "the total for each name" has a name and a total."""
    query, columns = candidate.query, parsed.schema.columns
    each = {
        columns[column].table
        for decision, option in candidate.assignment.choices
        if isinstance(option.act, SelectColumn | SelectFullName)
        and {parsed.word(decision.start - 1), parsed.word(decision.start - 2)} & EACH  # "each driver name"
        for column in option.act.columns
    }
    if not query.group or query.compound is not None:
        return query
    names = [
        i for i in query.select if not i.agg and i.column is not None and columns[i.column].table in each
    ]
    return query._replace(select=tuple(dict.fromkeys((*names, *query.select))))


def _score(model: LinearModel, features: Iterable[tuple[str, float]]) -> float:
    get = model.ranks.get
    return sum([get(name, 0.0) * value for name, value in features])


def _field(contenders: list[ScoredCandidate]) -> CandidatePool:
    if not contenders:
        return CandidatePool([], [])
    top = max(c.score for c in contenders)
    raw = [math.exp(c.score - top) for c in contenders]
    whole = sum(raw)
    shared = [c._replace(share=r / whole) for c, r in zip(contenders, raw)]
    answers: dict[str, list[ScoredCandidate]] = {}
    for number, contender in enumerate(shared):
        key = contender.outcome.fingerprint or f"#{number}"
        answers.setdefault(key, []).append(contender)
    ordered = [
        (sum(m.share for m in members), sorted(members, key=lambda m: -m.share))
        for members in answers.values()
    ]
    ordered.sort(key=lambda a: -a[0])
    return CandidatePool(shared, ordered)


def facts_of(parsed: ParsedQuestion, field: CandidatePool) -> Facts:
    """Return the facts for the certainty."""
    share, members = field.answers[0]
    second = field.answers[1][0] if len(field.answers) > 1 else 0.0
    best = members[0]
    field_facts = of_field(share, second, best.outcome.kind, len(members))
    return field_facts + of_candidate(parsed, best.ranked) + unread_features(parsed, best.ranked)


def _readings(
    parsed: ParsedQuestion, field: CandidatePool, stage: SampleDatabase | None
) -> list[OfferedReading]:
    """Return the best candidate of each answer, and other readings of the best if there is a `stage` for them.

    Candidates without rows, or with a single one, may have the same rows by chance, and stay apart.
    """
    found: list[OfferedReading] = []
    for share, members in field.answers:
        together = members[0].outcome.rows > 1
        for member in members[:1] if together else members:
            found.append(_reading(parsed, member, share if together else member.share))
    if stage is not None:
        found += _others(parsed, sorted(field.contenders, key=lambda c: -c.share)[:VARIED], stage, found)
    return diverse(found, SHOWN)


def _reading(parsed: ParsedQuestion, contender: ScoredCandidate, share: float) -> OfferedReading:
    ranked = contender.ranked
    words, impossible = tuple(unread(parsed, ranked)), is_impossible(parsed, ranked)
    if _shows_only_keys(parsed, ranked.query):
        share *= KEYS
    return OfferedReading(ranked.query, contender.expression, contender.outcome, share, words, impossible)


def _shows_only_keys(parsed: ParsedQuestion, query: Query) -> bool:
    """Return whether nothing but keys is shown, and the question asks for no numbers or codes."""
    shown = [parsed.schema.columns[column] for column in query.plain]
    is_list = bool(shown) and len(shown) == len(query.select)
    return is_list and all(numbers_rows(parsed.schema, c) for c in shown) and not parsed.asks_for_ids


def _others(
    parsed: ParsedQuestion, best: list[ScoredCandidate], stage: SampleDatabase, known: list[OfferedReading]
) -> list[OfferedReading]:
    """Return the readings next to the best candidates, and those next to these."""
    seen, found = {reading.query for reading in known}, list[OfferedReading]()
    waiting = deque(best)
    while waiting and len(found) < OTHERS:
        contender = waiting.popleft()
        words = unread(parsed, contender.ranked)
        for query in other_readings(parsed, contender.ranked.query, words):
            if query in seen or not makes_sense(query, parsed.schema):
                continue
            seen.add(query)
            if other := _rehearsed(parsed, contender, query, stage):
                found.append(_reading(parsed, other, other.share))
                waiting.append(other)
    return found[:OTHERS]


def _rehearsed(
    parsed: ParsedQuestion, contender: ScoredCandidate, query: Query, stage: SampleDatabase
) -> ScoredCandidate | None:
    """Return a reading next to a candidate, after its dry run; None if its tables do not join."""
    try:
        expression = to_expression(query, parsed.schema)
    except UnjoinableTablesError:
        return None
    return contender._replace(
        ranked=contender.ranked._replace(query=query),
        expression=expression,
        outcome=stage.outcome(sample_sql(expression), ordered=is_ordered(query)),
        share=contender.share * NEXT_TO,
    )


def _shown(
    readings: list[OfferedReading], best: exp.Expression | None, dialect: str, certainty: float
) -> list[Candidate]:
    """Return the readings as candidates, the proposed one first; the others share the remaining certainty."""
    ordered = sorted(readings, key=lambda reading: reading.expression is not best)
    rest = sum(reading.share for reading in ordered[1:]) or 1.0
    return [
        Candidate(
            sql=to_sql(reading.expression, dialect),
            expression=reading.expression,
            certainty=certainty if number == 0 else round((1 - certainty) * reading.share / rest, 6),
            unmapped=reading.unread,
        )
        for number, reading in enumerate(ordered)
    ]


def _links(parsed: ParsedQuestion, best: CandidateFeatures) -> list[LinkedSpan]:
    schema = parsed.schema
    found = []
    for decision, option in sorted(best.assignment.choices, key=lambda c: c[0].start):
        act = option.act
        if isinstance(act, Ignore | Consumed):
            continue
        first, last = parsed.tokens[decision.start], parsed.tokens[decision.end - 1]
        if isinstance(act, TableAct):
            target = schema.tables[act.table].name
        else:
            columns = [schema.columns[c] for c in act.columns]
            target = ", ".join(f"{schema.tables[c.table].name}.{c.name}" for c in columns)
        text = parsed.question[first.start : last.end]
        found.append(
            LinkedSpan(
                text=text, kind=decision.kind, target=target, role=act.role, start=first.start, end=last.end
            )
        )
    return found


def _hash(dialect: str, sql: str, abstained: bool, certainty: float) -> str:
    packed = msgspec.json.encode([dialect, sql, abstained, certainty])
    return hashlib.sha256(packed).hexdigest()
