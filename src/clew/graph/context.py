"""The protocol `Context`: the interface between a node and its run.

A node receives a context in a parameter annotated ``Context``. Everything that a context returns (time, random numbers,
ids, answers, recorded calls) is stored with the run, so a replay returns the same. This module has only the interface,
for annotations and for fakes in tests; the runtime implements it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from clew.graph.graph import Graph
    from clew.runtime.result import RunResult
    from clew.state.input_types import Values

    class ChildResult(RunResult):
        """What editors know of `Context.run`: a `RunResult` in a sync node, an awaitable of one in an async node."""

        def __await__(self) -> Generator[Any, Any, RunResult]: ...


P = ParamSpec("P")
T = TypeVar("T")


class Transaction(Protocol):
    """Collects SQL statements for the store's database; they are executed after the node has returned."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ..., /) -> None:
        """Execute a statement."""

    def executemany(self, sql: str, values: Sequence[Any], /) -> None:
        """Execute a statement once for each of `values`."""


class Context(Protocol):
    """The interface of a run for one work item."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def step_id(self) -> int:
        """The step that this item belongs to."""

    @property
    def path(self) -> str:
        """The item's identity in the run: ``scan#1[3]``. It does not depend on timing."""

    @property
    def attempt(self) -> int:
        """0 for the first execution, 1 and up for retries."""

    @property
    def idempotency_key(self) -> str:
        """A key for external calls; the same in all attempts."""

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled or this item has timed out. Check it in long loops.

        Once it was True, what the node returns or raises is discarded, and a resumed run calls the node again.
        """

    @property
    def random(self) -> Random:
        """A random stream for this item, seeded from the run's seed, the path and the attempt."""

    def now(self) -> datetime:
        """Return the time in UTC; in a replay, the recorded time."""

    def uuid4(self) -> UUID:
        """Return a random UUID from the item's random stream."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Sleep. An async node awaits the result; in a sync node the call blocks. A replay does not sleep.

        A sleep of more than 5 seconds is a durable wait: the node ends here, and starts over when the time has come,
        possibly in another process. Its recorded calls then return the logged responses.
        """

    def wait_for(self, name: str, *, timeout: float | None = None) -> Any:
        """Wait for a signal and return its value; an async node awaits the result. It is a durable wait.

        If the signal has already arrived, return at once. Raises WaitTimeoutError after `timeout` seconds.
        """

    def emit(self, name: str, data: Any = None) -> None:
        """Emit a custom event into the run's event stream."""

    def interrupt(
        self, question: Any, *, type: Any = ..., timeout: float | None = ..., default: Any = ...
    ) -> Any:
        """Ask a question and return the answer; the run pauses until it is resumed with one. Do not await it.

        With a `type`, its JSON Schema is stored with the question, so that a page can show a form. The answer is
        converted to the type: JSON becomes an instance. An answer that does not match is refused, and the question
        is asked again, with the error.
        If no answer comes within `timeout` seconds, return the `default`; without one, raise WaitTimeoutError. A worker
        continues the run at that time. A run that is in no queue continues when it is next resumed.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open a transaction on the store's database that commits together with the output of this node."""

    def run(self, graph: Graph, values: Values | None = None, *, key: str | None = None) -> ChildResult:
        """Run a graph as a child of this run, and return its `RunResult`; an async node awaits it.

        The child has its own chain in the same store. After a crash, the result of a finished child is used, and an
        unfinished child is resumed. Its questions are questions of this run, and its failure is raised here.
        If this run is cancelled, an exception that does not derive from `Exception` ends the node.
        """

    def record(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``fn`` and record the request and the response; resume and replay return the recorded response.

        For an async function this returns an awaitable.
        """
