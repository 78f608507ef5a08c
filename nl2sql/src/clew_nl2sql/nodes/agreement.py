"""Decide between independent proposals by their rows.

Proposals that the guard or the database refuses do not count. If all others have the same rows, the first of them is
the plan. If they differ, it is unknown which is right: the plan abstains, with one candidate for each result, and a
person who is present is asked. If none is left, the plan stays, and its error is handled like that of any plan.
"""

from __future__ import annotations

import msgspec

from clew import Context
from clew_nl2sql.nodes.readings import reading_of
from clew_nl2sql.resources import Resources
from clew_nl2sql.schemas import CandidateModel, PlanModel
from clew_nl2sql.state import SubgraphExecutionState


def agreed(plan: PlanModel, state: SubgraphExecutionState, resources: Resources, ctx: Context) -> PlanModel:
    """Return the plan on which the proposals agree, or an abstention."""
    if not plan.needs_agreement or len(plan.candidates) < 2:
        return plan
    by_rows: dict[str, list[CandidateModel]] = {}
    for candidate in plan.candidates:
        made = reading_of(state, resources, ctx, candidate)
        if made is not None:
            by_rows.setdefault(made[1], []).append(candidate)
    if not by_rows:
        return plan
    firsts = tuple(min(group, key=lambda one: len(one.unmapped)) for group in by_rows.values())
    best = firsts[0]
    return msgspec.structs.replace(
        plan,
        sql=best.sql if len(firsts) == 1 else None,
        certainty=best.certainty,
        abstained=len(firsts) > 1 or best.certainty < plan.threshold,
        candidates=firsts,
        unmapped=best.unmapped,
    )
