"""reading_chooser asks a person which reading of an uncertain question is meant.

Writes `choice_response`. It runs if a person is present (`ask_back`), or if a person chose for this question before.
Each reading has passed the guard, and was executed by the database for its first row. Readings with equal rows are one.

The choice decides: its query is the plan, and a failure of it is not retried with another one. If a person chooses
none, the question ends as if the person had not been asked.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from clew import Context, node
from clew_nl2sql.dialogue.choices import same_wording
from clew_nl2sql.nodes.readings import reading_of
from clew_nl2sql.nodes.schema_retriever import query_of
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import CandidateModel, ChoiceResponse, PlanModel, QuestionReading, ReadingsQuestion
from clew_nl2sql.state import SubgraphExecutionState

NAME = "reading_chooser"
MOST = 3


@node(name=NAME, writes=("choice_response", "reasoning"), timeout=600.0)
def ReadingChooserNode(state: SubgraphExecutionState, resources: Resources, ctx: Context) -> dict[str, Any]:
    """Use the remembered choice, or ask for one."""
    query = query_of(state)
    plan = state.ast_planner_response.plan if state.ast_planner_response else None
    assert plan is not None, "there is a choice between readings of a plan"
    if (before := _remembered(state, resources, ctx)) is not None:
        return _chosen(plan, before, "As chosen before", remembered=True)
    readings = _readings(state, resources, ctx, plan) if state.ask_back else ()
    if not readings:
        return {"choice_response": ChoiceResponse()}
    question = ReadingsQuestion(question=query.intent, source=query.datasource_id, readings=readings)
    while True:
        number = ctx.interrupt(question)
        if number in (None, 0):
            return {
                "choice_response": ChoiceResponse(readings=readings),
                "reasoning": [{"node": NAME, "chosen": None}],
            }
        if isinstance(number, int) and 1 <= number <= len(readings):
            return _chosen(plan, readings[number - 1], "Chosen", readings=readings)


def _remembered(state: SubgraphExecutionState, resources: Resources, ctx: Context) -> QuestionReading | None:
    """Return what a person chose for this question before, if the schema and the grants still allow it."""
    query = query_of(state)
    for known in state.remembered:
        same = same_wording(known.intent) == same_wording(query.intent)
        if same and known.source == query.datasource_id:
            reading = reading_of(state, resources, ctx, CandidateModel(sql=known.sql))
            if reading is not None:
                return reading[0]
    return None


def _chosen(
    plan: PlanModel,
    reading: QuestionReading,
    how: str,
    *,
    readings: tuple[QuestionReading, ...] = (),
    remembered: bool = False,
) -> dict[str, Any]:
    chosen = msgspec.structs.replace(
        plan,
        sql=reading.sql,
        abstained=False,
        unmapped=(),
        assumptions=(f"{how}: {reading.words}.",),
        hash=hashlib.sha256(reading.sql.encode()).hexdigest(),
    )
    return {
        "choice_response": ChoiceResponse(
            plan=chosen, chosen=reading, readings=readings, remembered=remembered
        ),
        "reasoning": [{"node": NAME, "chosen": reading.sql, "remembered": remembered}],
    }


def _readings(
    state: SubgraphExecutionState, resources: Resources, ctx: Context, plan: PlanModel
) -> tuple[QuestionReading, ...]:
    found: dict[str, QuestionReading] = {}
    for candidate in plan.candidates:
        made = reading_of(state, resources, ctx, candidate)
        if made is not None:
            found.setdefault(made[1], made[0])
        if len(found) == MOST:
            break
    return tuple(found.values())
