"""The program of a path: a process with a real engine, and a store whose operations can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew import Engine
from clew.explore.checking.faulty_store import WRITES, FaultyStore
from tests.explore.checking.driving.stage import Hands, Loop

if TYPE_CHECKING:
    from tests.explore.checking.driving.path import Path

RUN = "driven"
PARENT = "parent"
LEASE = 30.0


class Stopped(BaseException):
    """The path ends here: what comes next has not been chosen."""


class Died(BaseException):
    """The process is killed."""


class Process:
    """A program with an engine, while it lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hands = Hands(path.clock)
        case = path.case
        options = {"seed": 0, "default_node_timeout": None, "lease": LEASE, "check": False, **case.options}
        self.engine = Engine(case.graph, store=path.line, clock=path.clock, executor=self.hands, **options)

    def __call__(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Run or resume, with the driver of the case."""
        path, engine = self.path, self.engine
        is_stream = path.case.streams and verb == "run"
        if path.case.driver == "blocking":
            if not is_stream:
                return getattr(engine, verb)(*args, **kwargs)
            for _ in engine.stream(*args, **kwargs):
                pass
            return engine.result(RUN)
        driven = (
            self._streamed(*args, **kwargs) if is_stream else getattr(engine, f"a{verb}")(*args, **kwargs)
        )
        return Loop(path, self.hands, path.clock).finish(driven)

    async def _streamed(self, *args: Any, **kwargs: Any) -> Any:
        async for _ in self.engine.astream(*args, **kwargs):
            pass
        return self.engine.result(RUN)


class Checked(FaultyStore):
    """A line to the disk on which each operation is a choice."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.disk)
        self._path = path
        self.on_operation = self._asked
        self._dies = False

    def _asked(self, operation: str) -> str | None:
        how = self._path.operation(operation)
        self._dies = how == "and die"
        return None if self._dies else how or None

    def _pass(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        try:
            done = super()._pass(operation, *args, **kwargs)
        finally:
            if self._path.witness.is_new and operation in WRITES:
                self._path.check()
        if self._dies:
            self._dies = False
            self._path.die()
        return done

    def close(self) -> None:
        """What is kept outlives the process."""


LOOKS: tuple[Callable[[Engine], Any], ...] = (
    lambda engine: engine.result(RUN).state,
    lambda engine: engine.history(RUN, nested=True),
    lambda engine: engine.runs(),
    lambda engine: engine.frontier(RUN),
    lambda engine: engine.why(RUN, next(iter(engine.graph.nodes))),
    lambda engine: engine.export_run(RUN),
    lambda engine: engine.resume(RUN) if not engine.graph.has_async_nodes else None,
)
