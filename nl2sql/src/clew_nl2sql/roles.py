"""The three parts that understand language, as protocols, and how nodes consult them.

`Planner`, `Decomposer` and `Synthesizer` have one method each. The defaults are deterministic and work offline; the
ones of `clew_nl2sql.models` ask a language model; yours are any objects with that method.

Whatever they say goes through ``ctx.record``, so that a run can be resumed and replayed without asking again.
`consult` decides how, and there are two ways:

- A role is called with all that is known of the sources, sampled rows and values included, and its answer is
  recorded. A replay needs neither the role nor the sources.
- A role with a method ``through(record)`` is called with an outline of the sources, which the run itself holds, and
  sends its own requests through `record`, so that these are in the journal. The language models do this: a replay
  builds every prompt again and shows one that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

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
    """Turns a question about one source into a query in the catalog's dialect.

    A planner that also has ``refine(question, catalog, feedback: RefinerResponse)`` is told what was wrong with the
    plans before; one that has not is asked the same again, and of a plan that failed already the next candidate is
    taken."""

    def plan(self, question: str, catalog: Catalog) -> Plan | PlanModel:
        """A query, or an abstention with candidates."""
        ...


class Decomposer(Protocol):
    """Splits a question into parts that one source each can answer, and says how their results meet."""

    def decompose(self, question: str, catalogs: Mapping[str, Catalog]) -> DecomposerResponse:
        """The parts; `catalogs` holds what the user may see, by source."""
        ...


class Synthesizer(Protocol):
    """Puts a result into words."""

    def synthesize(self, question: str, result: AggregatorResponse) -> str:
        """The answer."""
        ...


def consult(
    ctx: Context,
    role: Any,
    method: str,
    identity: tuple[Any, ...],
    known: tuple[Any, ...],
    full: Callable[[], Any],
) -> Any:
    """Ask a role.

    Args:
        identity: What identifies the request, where the answer as a whole is recorded.
        known: The arguments, from what the run holds.
        full: Makes the arguments from all that is known of the sources.
    """
    if hasattr(role, "through"):
        return getattr(role.through(ctx.record), method)(*known)

    def call(*_: Any) -> Any:
        found = getattr(role, method)(*full())
        return plan_model(found) if method in ("plan", "refine") else found

    return ctx.record(method, call, *identity)


def plan_model(plan: Plan | PlanModel) -> PlanModel:
    """What a planner gave, as data that can be stored."""
    if isinstance(plan, PlanModel):
        return plan
    if isinstance(plan, str):
        raise InvalidPlanError("a planner returns a Plan or a PlanModel; write PlanModel(sql=...)")
    return PlanModel(
        sql=plan.sql,
        certainty=plan.certainty,
        abstained=plan.abstained,
        candidates=tuple(CandidateModel(sql=c.sql, certainty=c.certainty) for c in plan.candidates),
        links=tuple(LinkModel(text=link.text, kind=link.kind, target=link.target) for link in plan.links),
        unmapped=tuple(plan.unmapped),
        hash=plan.hash,
    )


def next_untried(plan: PlanModel, feedback: RefinerResponse | None) -> PlanModel:
    """The plan, or its best candidate that has not failed yet."""
    rejected = set(feedback.rejected) if feedback else set()
    if plan.sql is None or plan.sql not in rejected:
        return plan
    for candidate in plan.candidates:
        if candidate.sql not in rejected:
            return PlanModel(
                sql=candidate.sql,
                certainty=candidate.certainty,
                candidates=plan.candidates,
                links=plan.links,
                unmapped=plan.unmapped,
                hash=plan.hash,
            )
    return plan
