"""The way back: retry_handler counts, refiner says what the next plan should know.

retry_handler owns `retry_count`, refiner owns `refiner_response`. Whether there is a way back at all is the routes'
decision."""

from __future__ import annotations

from typing import Any

from clew import node
from clew_nl2sql.schemas import RefinerResponse
from clew_nl2sql.state import SubgraphExecutionState


@node(name="retry_handler", writes=("retry_count",))
def RetryHandlerNode(state: SubgraphExecutionState) -> dict[str, Any]:
    """One more try."""
    return {"retry_count": state.retry_count + 1}


@node(name="refiner", writes=("refiner_response", "reasoning"), after="retry_handler")
def RefinerNode(state: SubgraphExecutionState) -> dict[str, Any]:
    """What went wrong so far, and which queries are not to be proposed again."""
    plan = state.ast_planner_response.plan if state.ast_planner_response else None
    before = state.refiner_response or RefinerResponse()
    rejected = dict.fromkeys([*before.rejected, *([plan.sql] if plan and plan.sql else [])])
    feedback = tuple(f"{error.code.value}: {error.message}" for error in state.errors)
    return {
        "refiner_response": RefinerResponse(feedback=feedback, rejected=tuple(rejected)),
        "reasoning": [
            {"node": "refiner", "retry": state.retry_count, "feedback": feedback[-1] if feedback else ""}
        ],
    }
