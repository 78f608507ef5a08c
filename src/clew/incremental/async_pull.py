"""An asynchronous pull: computes independent outdated nodes concurrently, up to a limit.

Other pulls and changes may happen while a pull awaits. These rules keep every pull consistent:

- A pull captures its plan, and the records of all nodes that it needs, before its first await. It answers for the
  revision at which it began, and verifies its records for that revision.
- It never replaces a record that was verified for a later revision. If one of its records is superseded in this way,
  nothing computed from that value is stored.
- A computed value is compared with the record that exists when it is stored.
- A pull joins a running computation of a node if none of the node's sources was touched since it began. If that
  computation is cancelled, the pull computes the node itself.
- If a computor fails, the other running ones are awaited and their results stored; then the error is raised.
"""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import isawaitable, iscoroutinefunction
from typing import Any
from weakref import WeakKeyDictionary

from clew.errors import StoreError
from clew.incremental.freshness import sources_of, touched_since
from clew.incremental.nodes import PINNED, ConcreteNode, NodeRecord, NodeTable, SourceNotSet
from clew.incremental.persistence import GraphPersistence
from clew.incremental.progress import PullProgress
from clew.incremental.pull_plan import plan_of
from clew.incremental.sync_pull import (
    add_location,
    computed_row,
    is_settled,
    never_set,
    resolved,
    verified_row,
)
from clew.state import unpacked


class Computation:
    """A computor that is being awaited."""

    __slots__ = ("future", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


Running = dict[ConcreteNode, Computation]


class ConcurrencyLimit:
    """The maximum number of concurrent async computors, per event loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._semaphores: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """Return the semaphore of the running loop."""
        loop = asyncio.get_running_loop()
        semaphore = self._semaphores.get(loop)
        if semaphore is None:
            semaphore = self._semaphores[loop] = asyncio.Semaphore(self.size)
        return semaphore


class AsyncPull:
    """One pull. Create it while holding the lock of the graph."""

    def __init__(
        self,
        table: NodeTable,
        node: ConcreteNode,
        persistence: GraphPersistence | None,
        lock: Any,
        running: Running,
        limit: ConcurrencyLimit,
    ) -> None:
        self._table = table
        self._root = node
        self._persistence = persistence
        self._lock = lock
        self._running = running
        self._limit = limit
        self._revision = table.revision
        self._superseded: set[ConcreteNode] = set()  # and all nodes computed from them
        self._failure: BaseException | None = None
        plan = plan_of(table, node)
        first = node.row.verified_at
        self._rows: dict[ConcreteNode, NodeRecord] = {}
        todo = []
        for one in plan:
            row = self._rows[one] = one.row
            for lower in one.inputs:
                self._rows.setdefault(lower, lower.row)
            verified = row.verified_at
            is_asked = verified != first or row.origin == PINNED
            if verified != self._revision and not (is_asked and is_settled(table, one, row)):
                todo.append(one)
        self._missing: dict[ConcreteNode, int] = {}  # number of unfinished inputs
        self._above: dict[ConcreteNode, list[ConcreteNode]] = {one: [] for one in todo}
        for one in todo:
            lowers = {lower for lower in one.inputs if lower in self._above}
            self._missing[one] = len(lowers)
            for lower in lowers:
                self._above[lower].append(one)

    async def run(self, progress: PullProgress | None = None) -> NodeRecord:
        """Return the record of the requested node."""
        self._finished = None if progress is None else progress.watch(len(self._missing))
        ready = deque(node for node, count in self._missing.items() if not count)
        tasks: dict[asyncio.Task[None], ConcreteNode] = {}
        try:
            while (ready and self._failure is None) or tasks:
                while ready and self._failure is None and len(tasks) < self._limit.size:
                    await self._begin(ready.popleft(), ready, tasks)
                if tasks:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        self._end(task, tasks.pop(task), ready)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._flush()
        if self._failure is not None:
            raise self._failure
        return self._rows[self._root]

    def _flush(self) -> None:
        if self._persistence is not None:
            with self._lock:
                try:
                    self._persistence.flush()
                except StoreError:
                    if self._failure is None:
                        raise

    async def _begin(
        self, node: ConcreteNode, ready: deque[ConcreteNode], tasks: dict[asyncio.Task[None], ConcreteNode]
    ) -> None:
        try:
            work = self._work(node)
            if work is not None:
                if ready or tasks:
                    tasks[asyncio.create_task(work)] = node
                    return
                await work  # nothing can run concurrently
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._failure = error
            return
        self._finish(node, ready)

    def _end(self, task: asyncio.Task[None], node: ConcreteNode, ready: deque[ConcreteNode]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._finish(node, ready)
        elif self._failure is None:
            self._failure = error

    def _finish(self, node: ConcreteNode, ready: deque[ConcreteNode]) -> None:
        if self._finished is not None:
            self._finished(node)
        for above in self._above[node]:
            self._missing[above] -= 1
            if not self._missing[above]:
                ready.append(above)

    # -- one node ----------------------------------------------------------------------------------------

    def _work(self, node: ConcreteNode) -> Any:
        """Bring a node up to date, or return an awaitable that does."""
        row = self._rows[node]
        verified = row.verified_at
        is_due = row.touched_at > verified or row.origin == PINNED
        if not is_due and all(self._rows[lower].changed_at <= verified for lower in node.inputs):
            self._store(node, verified_row(row, self._revision))
            return None
        with self._lock:
            current = node.row
            if current is not row and self._is_untouched(node, current.verified_at):
                self._rows[node] = current  # another pull stored it first
                return None
            running = self._joinable(node)
        if running is not None:
            return self._join(node, running)
        if iscoroutinefunction(node.computor):
            return self._await(node, None)
        answer = self._call(node)
        if isawaitable(answer):
            return self._await(node, answer)
        self._computed(node, *resolved(node, row, answer))
        return None

    def _call(self, node: ConcreteNode) -> Any:
        row = self._rows[node]
        old = row.value if row.code is None else unpacked(row.code)
        try:
            return node.computor([self._rows[lower].get() for lower in node.inputs], old, {**node.bindings})
        except SourceNotSet:
            raise never_set(node) from None
        except BaseException as error:
            add_location(error, node)
            raise

    async def _await(self, node: ConcreteNode, answer: Any) -> None:
        """Await a computor: `answer`, or a call of the async function if it is None."""
        computation = Computation(self._revision)
        future = computation.future
        with self._lock:
            self._running[node] = computation
        try:
            value, code = resolved(node, self._rows[node], await self._answer(node, answer))
            self._computed(node, value, code)
            future.set_result((value, code))
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # mark it as retrieved, even if no pull joined
            raise
        finally:
            with self._lock:
                if self._running.get(node) is computation:
                    del self._running[node]

    async def _answer(self, node: ConcreteNode, answer: Any) -> Any:
        try:
            async with self._limit.here():
                if answer is None:
                    answer = self._call(node)
                try:
                    return await answer
                except BaseException as error:
                    add_location(error, node)
                    raise
        finally:
            if hasattr(answer, "close"):
                answer.close()  # it may not have started

    def _joinable(self, node: ConcreteNode) -> Computation | None:
        """Return a running computation whose result this pull can use."""
        computation = self._running.get(node)
        if computation is None or computation.future.get_loop() is not asyncio.get_running_loop():
            return None
        return computation if self._is_untouched(node, computation.revision) else None

    def _is_untouched(self, node: ConcreteNode, revision: int) -> bool:
        """Return whether a result for another revision is also valid for this pull."""
        since = min(revision, self._revision)
        sources = sources_of(self._table, node)
        return not (
            node.row.touched_at > since
            or any(source.row.touched_at > since for source in sources.few)
            or (sources.mask and touched_since(self._table, since) & sources.mask)
        )

    async def _join(self, node: ConcreteNode, computation: Computation) -> None:
        await asyncio.wait([computation.future])  # does not cancel the computation if this pull is cancelled
        if not computation.future.cancelled():
            self._computed(node, *computation.future.result())
            return
        work = self._work(node)
        if work is not None:
            await work

    # -- storing -----------------------------------------------------------------------------------------

    def _computed(self, node: ConcreteNode, value: Any, code: bytes | None) -> None:
        self._store(node, computed_row(value, code, self._rows[node], self._revision))

    def _store(self, node: ConcreteNode, row: NodeRecord) -> None:
        """Keep a record for this pull, and store it in the table unless a newer one exists."""
        seen, self._rows[node] = self._rows[node], row
        if not self._superseded.isdisjoint(node.inputs):
            self._superseded.add(node)
            return
        with self._lock:
            current = node.row
            if current.verified_at > self._revision:
                self._superseded.add(node)
                return
            if current.verified_at < self._revision:
                node.row = (
                    row if current is seen else computed_row(row.value, row.code, current, self._revision)
                )
                if self._persistence is not None and self._persistence.table is self._table:
                    self._persistence.finished(node)
            self._rows[node] = node.row
