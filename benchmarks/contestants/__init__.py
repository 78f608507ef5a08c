"""Who takes part: one module a contestant, with a function of the same name for each workload that it can do.

A workload function builds what it needs and returns the run to be timed, which takes no arguments and returns
the answer. What a contestant cannot do is left out of its module and explained in its `ABSENT`. A contestant
whose library cannot be imported is missing, which is reported and is not an error.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

FLOOR = "floor"
CLEW = "Clew"

# Name, module in this package, distribution. The order is the order of the tables.
ENTRANTS = (
    (FLOOR, "floor", ""),
    (CLEW, "clew", "clew"),
    ("Hamilton", "hamilton", "sf-hamilton"),
    ("Burr", "burr", "burr"),
    ("pydantic-graph", "pydantic_graph", "pydantic-graph"),
    ("LangGraph", "langgraph", "langgraph"),
    ("DBOS", "dbos", "dbos"),
)


@dataclass(frozen=True)
class Contestant:
    name: str
    distribution: str
    version: str
    module: ModuleType | None
    problem: str = ""  # why it is missing

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


def load() -> tuple[Contestant, ...]:
    return tuple(_load(*entrant) for entrant in ENTRANTS)


def _load(name: str, module: str, distribution: str) -> Contestant:
    try:
        loaded = importlib.import_module(f"{__name__}.{module}")
    except ImportError as error:
        return Contestant(name, distribution, "", None, str(error))
    try:
        version = importlib.metadata.version(distribution) if distribution else ""
    except importlib.metadata.PackageNotFoundError:
        version = "from source"
    return Contestant(name, distribution, version, loaded)
