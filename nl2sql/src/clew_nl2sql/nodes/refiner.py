"""The retry path: retry_handler counts retries, refiner collects feedback for the next plan
from the errors and from the `reasoning` of the planner.

retry_handler writes `retry_count`, refiner writes `refiner_response`. The routes decide whether to retry.
"""

from __future__ import annotations

from typing import Any

from clew import node
from clew_nl2sql.schemas import RefinerResponse
from clew_nl2sql.state import SubgraphExecutionState


@node(name="retry_handler", writes=("retry_count",))
def RetryHandlerNode(state: SubgraphExecutionState) -> dict[str, Any]:
    """Count a retry."""
    return {"retry_count": state.retry_count + 1}


@node(name="refiner", writes=("refiner_response", "reasoning"), after="retry_handler")
def RefinerNode(state: SubgraphExecutionState) -> dict[str, Any]:
    """Return the errors so far, and the queries that must not be proposed again."""
    tried = [step["sql"] for step in state.reasoning if step.get("node") == "ast_planner" and step.get("sql")]
    rejected = dict.fromkeys(tried)
    feedback = tuple(f"{error.code.value}: {error.message}" for error in state.errors)
    return {
        "refiner_response": RefinerResponse(feedback=feedback, rejected=tuple(rejected)),
        "reasoning": [
            {"node": "refiner", "retry": state.retry_count, "feedback": feedback[-1] if feedback else ""}
        ],
    }
