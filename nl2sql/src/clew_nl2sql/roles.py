"""Protocols of the three roles that process language, and how nodes call them.

`Planner`, `Decomposer` and `Synthesizer` have one method each. The defaults are deterministic and work
offline. Those of `clew_nl2sql.models` use a language model. Any object with that method can replace them.

All their results pass through ``ctx.record``, so a run can be resumed and replayed without calling them
again. `consult` chooses between two ways:

- A role without ``through`` receives full catalogs, with sampled rows and values, and its result is recorded.
  A replay needs neither the role nor the sources.
- A role with a method ``through(record)`` receives outlines of the catalogs, which are part of the run, and
  makes its own requests through `record`. The language models work this way: a replay rebuilds every prompt
  and reports one that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from clew import Context
from clew_nl2sql.errors import InvalidPlanError
from clew_nl2sql.planner.catalog import Catalog
from clew_nl2sql.planner.plan import Plan
from clew_nl2sql.schemas import (
    AggregatorResponse,
    CandidateModel,
    DecomposerResponse,
    LinkModel,
    PlanModel,
    RefinerResponse,
)


class Planner(Protocol):
    """Translates a question about one source to a query in the catalog's dialect.

    A planner with a method ``refine(question, catalog, feedback: RefinerResponse)`` receives the problems of
    its earlier plans. Any other planner is called again with the same arguments, and if its plan failed
    before, its next candidate is used.
    """

    def plan(self, question: str, catalog: Catalog) -> Plan | PlanModel:
        """Return a query, or an abstention with candidates."""
        ...


class Decomposer(Protocol):
    """Splits a question into parts for one source each, and defines how their results are combined."""

    def decompose(self, question: str, catalogs: Mapping[str, Catalog]) -> DecomposerResponse:
        """Return the parts; `catalogs` holds what the user may see, by source."""
        ...


class Synthesizer(Protocol):
    """Writes the answer in words."""

    def synthesize(self, question: str, result: AggregatorResponse) -> str:
        """Return the text of the answer."""
        ...


def consult(
    ctx: Context,
    role: Any,
    method: str,
    identity: tuple[Any, ...],
    known: tuple[Any, ...],
    full: Callable[[], Any],
) -> Any:
    """Call a role and return its result.

    Args:
        identity: Key of the recorded call, if the result as a whole is recorded.
        known: Arguments built from data of the run.
        full: Returns arguments with full catalogs.
    """
    if hasattr(role, "through"):
        return getattr(role.through(ctx.record), method)(*known)

    def call(*_: Any) -> Any:
        found = getattr(role, method)(*full())
        return plan_model(found) if method in ("plan", "refine") else found

    return ctx.record(method, call, *identity)


def plan_model(plan: Plan | PlanModel) -> PlanModel:
    """Return a planner's result as data that can be stored."""
    if isinstance(plan, PlanModel):
        return plan
    if isinstance(plan, str):
        raise InvalidPlanError("a planner must return a Plan or a PlanModel; write PlanModel(sql=...)")
    return PlanModel(
        sql=plan.sql,
        certainty=plan.certainty,
        abstained=plan.abstained,
        candidates=tuple(
            CandidateModel(sql=c.sql, certainty=c.certainty, unmapped=c.unmapped) for c in plan.candidates
        ),
        links=tuple(LinkModel(text=link.text, kind=link.kind, target=link.target) for link in plan.links),
        unmapped=tuple(plan.unmapped),
        assumptions=plan.assumptions,
        threshold=plan.threshold,
        hash=plan.hash,
    )


def next_untried(plan: PlanModel, feedback: RefinerResponse | None) -> PlanModel:
    """Return the plan, or its best candidate that has not failed yet.

    A candidate below the plan's threshold is an abstention, like a plan below it.
    """
    rejected = set(feedback.rejected) if feedback else set()
    if plan.sql is None or plan.sql not in rejected:
        return plan
    for candidate in plan.candidates:
        if candidate.sql not in rejected:
            return msgspec.structs.replace(
                plan,
                sql=candidate.sql,
                certainty=candidate.certainty,
                abstained=candidate.certainty < plan.threshold,
            )
    return plan
