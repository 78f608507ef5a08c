"""A case to explore: a graph, how its run is driven, and the possible faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from clew import Graph
from clew.state import GraphState

if TYPE_CHECKING:
    from tests.explore.checking.driving.path import Path

Driver = Literal["blocking", "asyncio"]


class Outside:
    """What nodes call: a stand-in that the graph is made with, for the outside of whichever path is executed."""

    path: Path

    def call(self, name: str, key: str = "") -> str:
        """Something happens outside, once for each time that this is called."""
        answer = self.path.call(name, key)
        self.path.witness.answer(name)
        return answer

    async def acall(self, name: str, key: str = "") -> str:
        """The same, and its answer is waited for."""
        answer = self.path.call(name, key)
        await self.path.process.hands.awaited(name)
        self.path.witness.answer(name)
        return answer

    async def pause(self, name: str) -> None:
        """An async body waits for something."""
        await self.path.process.hands.awaited(name)

    def begin(self, path: str, attempt: int) -> None:
        """A body begins."""
        self.path.witness.begin(path, attempt)

    def end(self, path: str, value: Any) -> Any:
        """A body is about to return a value."""
        self.path.witness.end(path)
        return value


class Case(msgspec.Struct, kw_only=True):
    """What is explored."""

    graph: Graph
    outside: Outside
    values: Mapping[str, Any]
    driver: Driver = "blocking"
    max_faults: int = 1
    faults: frozenset[str] = frozenset({"store", "crash", "call"})
    splits: bool = False  # that a body is run and that its driver hears of it are two events
    together: bool = False  # a driver may hear of several at once
    looks: bool = False  # when the run has completed, it is looked at in every way
    streams: bool = False  # the run is started as a stream of events
    merges: bool = True  # else a state is its whole path
    answers: Mapping[str, Any] = {}
    is_right: Callable[[Path, GraphState], bool] | None = (
        None  # of an end; without: it is that of the unbroken run
    )
    options: Mapping[str, Any] = {}
    place: Callable[[], Any] | None = None  # where runs are kept, empty; without: a disk in memory
    begins: tuple[str, tuple[Any, ...], Mapping[str, Any]] = (
        "run",
        (),
        {},
    )  # the verb that the run begins with
    check: Callable[[Path], None] | None = None  # after each write
