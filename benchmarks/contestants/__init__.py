"""Who takes part: one module a contestant, with a function of the same name for each workload that it can do.

A workload function builds what it needs and returns the run to be timed, which takes no arguments and returns
the answer. What a contestant cannot do is left out of its module and explained in its `ABSENT`. A contestant
whose library cannot be imported is missing, which is reported and is not an error.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

FLOOR = "floor"
CLEW = "Clew"

# Name, module in this package, distribution, and the workload that it takes part in, if that is only one. The order is
# the order of the tables.
ENTRANTS = (
    (FLOOR, "floor", "", None),
    (CLEW, "clew", "clew", None),
    ("Hamilton", "hamilton", "sf-hamilton", None),
    ("Burr", "burr", "burr", None),
    ("pydantic-graph", "pydantic_graph", "pydantic-graph", None),
    ("LangGraph", "langgraph", "langgraph", None),
    ("DBOS", "dbos", "dbos", None),
    ("VenomQA", "venomqa", "venomqa", "explore"),
    ("Hypothesis", "hypothesis", "hypothesis", "explore"),
    ("reaktiv", "reaktiv", "reaktiv", "incremental"),
    ("loman", "loman", "loman", "incremental"),
    ("redun", "redun", "redun", "incremental"),
)


@dataclass(frozen=True)
class Contestant:
    name: str
    distribution: str
    version: str
    module: ModuleType | None
    problem: str = ""  # why it is missing
    only: str | None = None  # it has nothing to do with other workloads

    def workload(self, name: str) -> Callable[..., Any] | None:
        return getattr(self.module, name, None)

    def excuse(self, workload: str) -> str:
        """Why this contestant does not do a workload."""
        absent: dict[str, str] = getattr(self.module, "ABSENT", {})
        return absent.get(workload, "not written")

    @property
    def imports(self) -> str:
        """The module that its users import."""
        return str(getattr(self.module, "IMPORTS", ""))

    @property
    def runs(self) -> str:
        """The same, with what it loads when something is run for the first time."""
        return str(getattr(self.module, "RUNS", self.imports))


def load(workloads: Collection[str]) -> tuple[Contestant, ...]:
    """All who take part in some of these workloads."""
    return tuple(_load(*entrant) for entrant in ENTRANTS if entrant[3] is None or entrant[3] in workloads)


def _load(name: str, module: str, distribution: str, only: str | None) -> Contestant:
    try:
        loaded = importlib.import_module(f"{__name__}.{module}")
    except ImportError as error:
        return Contestant(name, distribution, "", None, str(error), only)
    try:
        version = importlib.metadata.version(distribution) if distribution else ""
    except importlib.metadata.PackageNotFoundError:
        version = "from source"
    return Contestant(name, distribution, version, loaded, only=only)
