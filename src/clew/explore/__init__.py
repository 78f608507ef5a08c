"""Exploration: run every action in every state that a system can reach, and check invariants after each one.

::

    World              what actions change: systems that can be rolled back, a context, an api
    Action             an operation on the world
    Invariant          a rule that must hold in every state, with a Severity
    Finding            a rule that a transition breaks; actions return findings
    Agent              explores a world with a strategy: BFS, DFS, RandomWalk, CoverageGuided, Weighted
    ExplorationResult  states, transitions, violations, coverage; writes reports
    systems            systems that can be rolled back: databases, Redis, directories, in-memory fakes
    explore_api        explores a service from its OpenAPI document
    check_graph        checks a workflow under every schedule and fault; Check, CheckResult, at_end

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.explore.agent import Agent as Agent
    from clew.explore.api.explorer import explore_api as explore_api
    from clew.explore.api.reports.outcome import ServiceExplorationResult as ServiceExplorationResult
    from clew.explore.checking.check import Check as Check
    from clew.explore.checking.check import CheckResult as CheckResult
    from clew.explore.checking.check import check_graph as check_graph
    from clew.explore.checking.guarantees import at_end as at_end
    from clew.explore.checking.run_system import RunSystem as RunSystem
    from clew.explore.model.actions import Action as Action
    from clew.explore.model.context import WorldContext as WorldContext
    from clew.explore.model.invariants import Invariant as Invariant
    from clew.explore.model.invariants import Severity as Severity
    from clew.explore.model.state_graph import StateGraph as StateGraph
    from clew.explore.model.states import Checkpoint as Checkpoint
    from clew.explore.model.states import State as State
    from clew.explore.model.states import Transition as Transition
    from clew.explore.model.system import Observation as Observation
    from clew.explore.model.system import System as System
    from clew.explore.model.violations import Finding as Finding
    from clew.explore.model.violations import Violation as Violation
    from clew.explore.model.world import World as World
    from clew.explore.reports.result import Coverage as Coverage
    from clew.explore.reports.result import ExplorationResult as ExplorationResult
    from clew.explore.search.strategies import BFS as BFS
    from clew.explore.search.strategies import DFS as DFS
    from clew.explore.search.strategies import CoverageGuided as CoverageGuided
    from clew.explore.search.strategies import RandomWalk as RandomWalk
    from clew.explore.search.strategies import SearchFrontier as SearchFrontier
    from clew.explore.search.strategies import Strategy as Strategy
    from clew.explore.search.strategies import Weighted as Weighted

_MODULES = {
    "Action": "model.actions",
    "Agent": "agent",
    "BFS": "search.strategies",
    "Check": "checking.check",
    "CheckResult": "checking.check",
    "Checkpoint": "model.states",
    "Coverage": "reports.result",
    "CoverageGuided": "search.strategies",
    "DFS": "search.strategies",
    "ExplorationResult": "reports.result",
    "Finding": "model.violations",
    "Invariant": "model.invariants",
    "Observation": "model.system",
    "RandomWalk": "search.strategies",
    "RunSystem": "checking.run_system",
    "SearchFrontier": "search.strategies",
    "Severity": "model.invariants",
    "ServiceExplorationResult": "api.reports.outcome",
    "State": "model.states",
    "StateGraph": "model.state_graph",
    "Strategy": "search.strategies",
    "System": "model.system",
    "Transition": "model.states",
    "Violation": "model.violations",
    "Weighted": "search.strategies",
    "World": "model.world",
    "WorldContext": "model.context",
    "at_end": "checking.guarantees",
    "check_graph": "checking.check",
    "explore_api": "api.explorer",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
