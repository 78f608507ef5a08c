"""Candidates: the distinct queries of the most likely assignments, with their features."""

from __future__ import annotations

from clew_nl2sql.planner.building.assembly import assemble
from clew_nl2sql.planner.deciding.assignment_search import assignments
from clew_nl2sql.planner.deciding.cue_decisions import decisions
from clew_nl2sql.planner.judging.contradictions import contradicts
from clew_nl2sql.planner.judging.sense import makes_sense
from clew_nl2sql.planner.linear_model import LinearModel
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking.features import CandidateFeatures, FeatureExtractor

MOST = 64


def candidates(
    parsed: ParsedQuestion, model: LinearModel, *, most: int = MOST, strict: bool = True
) -> list[CandidateFeatures]:
    """Return the candidates of a question, in the order of the search; unless `strict`, even if they contradict it."""
    states = assignments(decisions(parsed), model)
    describer = FeatureExtractor(parsed, states[0].score)
    found: dict[Query, CandidateFeatures] = {}
    for state in states:
        for draft in assemble(parsed, state):
            if draft.query in found or not makes_sense(draft.query, parsed.schema):
                continue
            if not (strict and contradicts(parsed, draft.query, state)):
                described = describer.features(state, draft)
                if described is not None:
                    found[draft.query] = CandidateFeatures(draft.query, described, state)
        if len(found) >= most:
            break
    return list(found.values())
