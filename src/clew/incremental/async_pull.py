"""A pull that awaits: independent stale nodes at the same time, up to a bound.

Between its awaits other pulls go on, and values are set. Rules that keep each of them right:

- A pull captures its plan, and the rows of all nodes that it needs, before it first awaits. It answers for the
  revision that it began with, and stamps that one.
- It never replaces a row that was verified for a later revision. When one of its rows is refused for that reason,
  nothing that it computes from that value is stored.
- Whether a value changed is judged against the row that is there when it is written.
- A computation that runs already is joined if none of the node's sources was touched since it began; if its pull is
  cancelled, whoever joined it computes the node itself.
- When a computor fails, those that run beside it are awaited, and what they return is stored; then the error is raised.
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
from clew.incremental.pull_plan import plan_of
from clew.incremental.sync_pull import is_settled, never_set, resolved, settled, stamped, tell
from clew.state import decode


class Computation:
    """A computor that is being awaited."""

    __slots__ = ("future", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


Running = dict[ConcreteNode, Computation]


class ConcurrencyLimit:
    """How many async computors may run at the same time: one count for each event loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._semaphores: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """The semaphore of the running loop."""
        loop = asyncio.get_running_loop()
        semaphore = self._semaphores.get(loop)
        if semaphore is None:
            semaphore = self._semaphores[loop] = asyncio.Semaphore(self.size)
        return semaphore


class AsyncPull:
    """One pull. It is made with the graph's lock held."""

    def __init__(
        self,
        table: NodeTable,
        node: ConcreteNode,
        keeper: GraphPersistence | None,
        lock: Any,
        running: Running,
        slots: ConcurrencyLimit,
    ) -> None:
        self._table = table
        self._root = node
        self._keeper = keeper
        self._lock = lock
        self._running = running
        self._slots = slots
        self._revision = table.revision
        self._refused: set[ConcreteNode] = set()  # and all that is computed from them
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
        self._missing: dict[ConcreteNode, int] = {}  # how many inputs are not finished
        self._above: dict[ConcreteNode, list[ConcreteNode]] = {one: [] for one in todo}
        for one in todo:
            lowers = {lower for lower in one.inputs if lower in self._above}
            self._missing[one] = len(lowers)
            for lower in lowers:
                self._above[lower].append(one)

    async def run(self) -> NodeRecord:
        """The row of the node that was asked for."""
        ready = deque(node for node, count in self._missing.items() if not count)
        tasks: dict[asyncio.Task[None], ConcreteNode] = {}
        try:
            while (ready and self._failure is None) or tasks:
                while ready and self._failure is None and len(tasks) < self._slots.size:
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
        if self._keeper is not None:
            with self._lock:
                try:
                    self._keeper.flush()
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
                await work  # nothing could run beside it
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
        for above in self._above[node]:
            self._missing[above] -= 1
            if not self._missing[above]:
                ready.append(above)

    # -- one node ----------------------------------------------------------------------------------------

    def _work(self, node: ConcreteNode) -> Any:
        """Bring a node up to date; or what to await for it."""
        row = self._rows[node]
        verified = row.verified_at
        is_due = row.touched_at > verified or row.origin == PINNED
        if not is_due and all(self._rows[lower].changed_at <= verified for lower in node.inputs):
            self._store(node, stamped(row, self._revision))
            return None
        with self._lock:
            current = node.row
            if current is not row and self._is_untouched(node, current.verified_at):
                self._rows[node] = current  # another pull was quicker
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
        old = row.value if row.code is None else decode(row.code)
        try:
            return node.computor([self._rows[lower].get() for lower in node.inputs], old, {**node.bindings})
        except SourceNotSet:
            raise never_set(node) from None
        except BaseException as error:
            tell(error, node)
            raise

    async def _await(self, node: ConcreteNode, answer: Any) -> None:
        """Await a computor: what it returned, or, if it is an async function, a call of it."""
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
            future.exception()  # it is seen, whether somebody joined or not
            raise
        finally:
            with self._lock:
                if self._running.get(node) is computation:
                    del self._running[node]

    async def _answer(self, node: ConcreteNode, answer: Any) -> Any:
        try:
            async with self._slots.here():
                if answer is None:
                    answer = self._call(node)
                try:
                    return await answer
                except BaseException as error:
                    tell(error, node)
                    raise
        finally:
            if hasattr(answer, "close"):
                answer.close()  # it may never have begun

    def _joinable(self, node: ConcreteNode) -> Computation | None:
        """A computation of the node that gives what this pull would compute."""
        computation = self._running.get(node)
        if computation is None or computation.future.get_loop() is not asyncio.get_running_loop():
            return None
        return computation if self._is_untouched(node, computation.revision) else None

    def _is_untouched(self, node: ConcreteNode, revision: int) -> bool:
        """Whether what was computed for another revision is what this pull would compute."""
        since = min(revision, self._revision)
        sources = sources_of(self._table, node)
        return not (
            node.row.touched_at > since
            or any(source.row.touched_at > since for source in sources.few)
            or (sources.mask and touched_since(self._table, since) & sources.mask)
        )

    async def _join(self, node: ConcreteNode, computation: Computation) -> None:
        await asyncio.wait([computation.future])  # which does not cancel it, if this pull is cancelled
        if not computation.future.cancelled():
            self._computed(node, *computation.future.result())
            return
        work = self._work(node)
        if work is not None:
            await work

    # -- storing -----------------------------------------------------------------------------------------

    def _computed(self, node: ConcreteNode, value: Any, code: bytes | None) -> None:
        self._store(node, settled(value, code, self._rows[node], self._revision))

    def _store(self, node: ConcreteNode, row: NodeRecord) -> None:
        """Keep a row for this pull; and in the table, unless something newer is there."""
        seen, self._rows[node] = self._rows[node], row
        if not self._refused.isdisjoint(node.inputs):
            self._refused.add(node)
            return
        with self._lock:
            current = node.row
            if current.verified_at > self._revision:
                self._refused.add(node)
                return
            if current.verified_at < self._revision:
                node.row = row if current is seen else settled(row.value, row.code, current, self._revision)
                if self._keeper is not None and self._keeper.table is self._table:
                    self._keeper.finished(node)
            self._rows[node] = node.row
