"""Child runs: a node runs another graph with `ctx.run`, and the child is as durable as its run.

A child is a recorded call whose function is a separate run in the same store. Its row names the run that contains it
and the place of the call (`RunRow.child_of`, `RunRow.place`). The recording in the outer run holds a digest of the
values and the id of the child; the values themselves are in its own log. Everything else follows from that:

- **Id.** The id is a hash of the outer run, the path of the item, the place of the call, the key, and a number: 0, or
  higher if the children with lower numbers have other values or another graph; these are ended as cancelled. The outer
  run of a child of a child is a child itself, so every id follows from the id of the root. A fork has a different id,
  so its children differ too.
- **After a crash** the node is called again and makes the same call. A recorded call gives the result. Without a
  recording, the child itself is found by its id: a finished child gives its result, an unfinished one is resumed.
- **Failure.** The child's exception is raised in the node and recorded like that of any call. A later attempt resumes
  the child. A failure that the outer run has not recorded yet is raised again: the crash came in between. The log of
  the child says how often it has failed, the recordings say how often the node has seen that.
- **Questions.** If the child waits, the node asks the child's questions. The path of each is the place of the call, "/"
  and the path in the child; an answer to the outer run is passed on when the node is called again. An answer that the
  child's state schema rejects is asked for again, at a new position.
- **Waits.** A child ends when all its branches wait, and its waits are waits of the node. When one ends, the node is
  called again and resumes the child.
- **A node that is left.** A node is left if another of its children asks, its run is cancelled, its attempt times out,
  or another process takes the run over. That stops its children, and so does the end of its attempt. `ctx.run` then
  raises `Leaving`, which is not an Exception; it is not recorded, and a value that the node still returns is discarded.
  When the node is called again, it resumes its children. Only a child that was cancelled by itself is a failure, with
  `RunCancelledError`.
- **Ownership.** The owner of the outer run also owns its children. Their leases have always expired, so the next owner
  can claim them at once; the fence of a child rejects the writes of the previous owner.
- **Slots**: ``clew.runtime.drivers.slots``. **Timeouts, cancellation**: ``clew.runtime.drivers.child_sessions``.

The child works in the thread of its caller, or on its event loop; `deep_children.py` says where a deeply nested one
works. A sync node runs a graph with async nodes on a separate loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from itertools import count
from typing import Any

from msgspec.structs import replace

from clew.engine.frame import Item
from clew.engine.program import check_values
from clew.engine.records import Question
from clew.error_links import set_child_place
from clew.errors import (
    CommitConflictError,
    EncodeError,
    InputError,
    RunCancelledError,
    RunOwnedError,
    StoreError,
    UnknownRunError,
)
from clew.graph import Graph
from clew.runtime.calls.ambiguity import about
from clew.runtime.calls.children import CHILD, child_id, child_seed, given_to
from clew.runtime.calls.host import Host
from clew.runtime.calls.recorder import now
from clew.runtime.calls.scopes import Asking, NodeCall, Scope
from clew.runtime.calls.waiting import Waiting
from clew.runtime.children.deep_children import in_task, is_deep, level_of_children, on_thread
from clew.runtime.children.ended_children import end_child
from clew.runtime.drivers.child_sessions import children_of
from clew.runtime.drivers.durable_waits import waits_of
from clew.runtime.drivers.hold import Hold
from clew.runtime.drivers.session import Session
from clew.runtime.inspection import read_result, result_so_far
from clew.runtime.log.checks.fingerprints import is_made_with
from clew.runtime.log.entries.wait_records import has_open_waits
from clew.runtime.log.frames import checked_answer
from clew.runtime.log.reader import StoredRun
from clew.runtime.log.run_log import RunLog
from clew.runtime.opener import NO_ANSWER, RunOpener
from clew.runtime.reporting.events import Event
from clew.runtime.result import RunResult
from clew.runtime.settings import Settings
from clew.state import position_of, same
from clew.stores.memory.store import NOWHERE

_LOST = (StoreError, RunOwnedError, UnknownRunError, CommitConflictError)
"""Errors of the child's log, not of its nodes: the outer run cannot continue either."""


class ChildRun:
    """One call of `ctx.run`."""

    def __init__(
        self,
        outer: Any,  # the `RunExecution` of the run that contains the child
        session: Session,
        item: Item,
        attempt: int,
        scope: Scope,
        graph: Graph,
        values: Any,
        key: str | None,
    ) -> None:
        self._given = given_to(graph, values, key)
        self._request = self._recorded(session, item, graph, key)
        self._session = session
        self._item = item
        self._attempt = attempt
        self._scope = scope
        self._graph = graph
        self._key = key
        self._about = about(scope.place)
        self._path = item.path + self._about
        self._children = children_of(session)
        self._hold = Hold("", session.owner)
        self._result: RunResult | None = None
        self._has_slot = False
        listeners = (self._forward,) if session.listening or session.settings.publish else ()
        self._execution = outer.for_child(graph, self._settings(), listeners, (session.run_id, self._path))
        self._opener: RunOpener = self._execution.opener

    def _recorded(self, session: Session, item: Item, graph: Graph, key: str | None) -> tuple[Any, ...]:
        """Return the arguments that the call is recorded with."""
        try:
            return graph.name or "", graph.structure_hash, session.writer.image_of(self._given), key
        except EncodeError as error:
            raise EncodeError(
                f"node {item.node.name!r} at {item.path} cannot give these values to a child: {error}"
            ) from error

    def _settings(self) -> Settings:
        """Return the settings of the outer run, without what belongs to it alone."""
        from concurrent.futures import ThreadPoolExecutor

        session = self._session
        settings, seed = session.settings, session.machine.options.seed
        executor = settings.executor
        if isinstance(executor, ThreadPoolExecutor):
            executor = None  # the waiting node may have its last thread
        seed = child_seed(seed, self._item.path, self._scope.place, self._key)
        # a failure inside is raised by `ctx.run`, so the node decides what follows
        return replace(settings, seed=seed, executor=executor, import_string="", on_error="stop")

    def start(self, *, blocks: bool = False) -> Any:
        """Return the result of the child; in an async node that it must not block, an awaitable of it."""
        run: Any = self._run
        if self._item.node.mode in ("async", "async_generator"):
            if not blocks:
                return self._later()
            run = _BlockingChild(self._run)
        run_id = self._call(run)
        if isawaitable(run_id):
            run_id = now(run_id)  # the recording of a child that was awaited
        return self._finished(run_id) or read_result(self._opener, run_id)

    async def _later(self) -> RunResult:
        run_id = self._call(self._arun)
        if isawaitable(run_id):
            run_id = await run_id
        result = self._finished(run_id)
        if result is None and self._session.off_loop is not None:
            result = await self._session.off_loop.submit(read_result, self._opener, run_id)
        return result or read_result(self._opener, run_id)

    def _call(self, run: Callable[..., Any]) -> Any:
        call = NodeCall(self._item, self._attempt, self._scope, CHILD, run, self._request, {})
        return self._session.recorder.call(call)

    def _finished(self, run_id: str) -> RunResult | None:
        """Return the result of a child that this process has run."""
        return self._result or self._children.results.get(run_id)

    # -- running -----------------------------------------------------------------------------------------

    def _run(self, *_: Any) -> str:
        self._session.before_call()
        with self:
            self._enter(self._children.slots.enter(*self._entering))
            drive = partial(self._execution.drive, self._hold, self._open, check=False)
            return self._ended(on_thread(drive, self._stop) if self._is_deep else drive())

    async def _arun(self, *_: Any) -> str:
        await self._session.abefore_call()
        with self:
            await self._children.take_over((self._item, self._attempt))
            self._enter(await self._children.slots.aenter(*self._entering))
            drive = self._execution.adrive(self._hold, self._open, check=False)
            return self._ended(await (in_task(drive) if self._is_deep else drive))

    @property
    def _is_deep(self) -> bool:
        return is_deep(level_of_children(self._session))

    def _stop(self) -> None:
        if self._hold.session is not None:
            self._hold.session.stop()

    @property
    def _entering(self) -> tuple[tuple[Item, int], Callable[[], bool]]:
        return (self._item, self._attempt), self._is_left

    def _enter(self, has_slot: bool) -> None:
        self._has_slot = has_slot
        if not has_slot:
            raise self._leaving()

    def __enter__(self) -> None:
        """Let the item wait for the child. ``contextlib`` would change the exception, which may be frozen."""
        self._children.wait((self._item, self._attempt))

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        """Let the item continue; replace the error of a child that the node must not see."""
        attempt = (self._item, self._attempt)
        try:
            if error is not None:
                self._check_error(error)
        finally:
            if self._has_slot:
                self._children.slots.leave(attempt)
            if self._hold.session is not None:
                self._children.remove(attempt, self._hold.session)
            self._children.go_on(attempt)

    def _check_error(self, error: BaseException) -> None:
        if issubclass(type(error), _LOST):
            if self._result is not None:  # an error of its nodes
                return
            if self._has_ended() and self._session.lost is None:
                raise self._leaving() from error  # a later attempt has taken the child
            self._session.writer.fail(error)  # a node that catches it must not continue: the session fails
            if self._is_left():
                raise self._leaving() from error
        elif not issubclass(type(error), (Exception, Asking)) and self._is_left():
            self._leaving()  # also if it catches a CancelledError

    def _ended(self, result: RunResult) -> str:
        """Return the id of a completed child; otherwise raise what the node gets."""
        self._result = result
        if result.status == "completed":
            if self._opener.store is NOWHERE:
                self._children.results[result.run_id] = result
            return result.run_id
        child = self._hold.session
        if child is not None and child.waits is not None and result.status in ("sleeping", "waiting"):
            own = [replace(wait, path=f"{self._path}/{wait.path}") for wait in child.waits.listed()]
            waits_of(self._session).add(self._item, self._attempt, own)
        if result.status == "waiting":
            raise self._asking(result.questions)
        if result.status == "sleeping":
            raise self._scope.unwind(Waiting())
        if result.status == "failed":
            raise self._located(result)
        if self._is_left():
            raise self._leaving()
        raise RunCancelledError(
            f"child {result.run_id!r} of node {self._item.node.name!r} at {self._item.path} was cancelled; resume run "
            f"{self._session.run_id!r} to continue it"
        )

    def _located(self, result: RunResult) -> BaseException:
        """Return the error of a failed child, with its place there."""
        failure = result.failures[0]
        run_id, path, name = result.run_id, failure.path, failure.node
        if failure.inside is not None:  # in a child of the child
            run_id, path, name = failure.inside.run_id, failure.inside.path, failure.inside.node
        set_child_place(failure.error, run_id, f"{self._path}/{path}" if path else self._path, name)
        return failure.error

    def _is_left(self) -> bool:
        """Return whether the node must not continue: its attempt, its run or its session has ended."""
        session = self._session
        return session.cancelled or session.lost is not None or self._children.is_stopped or self._has_ended()

    def _has_ended(self) -> bool:
        """Return whether the attempt has ended: it timed out, or the node returned or raised before its child."""
        item = self._item
        return (
            not item.live or item.attempt != self._attempt or self._children.has_ended((item, self._attempt))
        )

    def _leaving(self) -> BaseException:
        """Return the exception that unwinds the node, or a task or thread of a node that has ended before its child."""
        session, item = self._session, self._item
        if not self._children.has_ended((item, self._attempt)):
            return session.leave(item, self._attempt)
        if item.node.mode in ("async", "async_generator"):
            from asyncio import CancelledError

            return CancelledError()  # asyncio reports other exceptions of a task that is never awaited
        return Host.leave(session, item, self._attempt)

    # -- opening -----------------------------------------------------------------------------------------

    def _open(self) -> Session | RunResult:
        """Open the child: a new one, or the one that an earlier call has left."""
        session, item = self._session, self._item
        store, opener = self._opener.store, self._opener
        for number in count():
            run_id = child_id(session.run_id, item.path, self._scope.place, self._key, number)
            self._hold.run_id = run_id
            try:
                run = opener.runs.open(run_id)
            except UnknownRunError:
                return self._adopted(opener.new(self._given, run_id, owner=self._hold.owner))
            if not store.encodes and self._children.is_live(run_id):
                continue  # of an attempt that was abandoned; without fences, only one may write
            if self._is_same(run):
                return self._again(run)
            end_child(opener, run.row, self._hold.owner)
        raise AssertionError("unreachable")

    def _is_same(self, run: StoredRun) -> bool:
        """Return whether a child has these values and this graph. One that has not ended may have an older graph."""
        start = run.start()
        names, seeded = check_values(self._graph, self._given)
        was = {name: start.get(name) for name in position_of(start).given}
        has_ended = run.row.status in ("completed", "failed")
        return same(was, {name: seeded[name] for name in names}) and (
            not has_ended or is_made_with(run.accepted, self._graph)
        )

    def _again(self, run: StoredRun) -> Session | RunResult:
        """Resume a child; return its result if there is nothing to do."""
        status, log = run.row.status, run.log()
        answers = self._answers(log)
        is_waiting = status == "waiting" and not answers and not has_open_waits(log)
        if status == "completed" or is_waiting or self._is_news(log):
            return result_so_far(self._opener, run)
        found = self._opener.again(
            run.row.run_id,
            NO_ANSWER,
            answers,
            self._session.accepts_changes,
            self._hold.owner,
            unless_completed=True,
        )
        if isinstance(found, Session):
            return self._adopted(found)
        return result_so_far(self._opener, found)

    def _is_news(self, log: RunLog) -> bool:
        """Return whether the child has failed and the node has not seen that."""
        if log.row.status != "failed":
            return False
        seen = self._session.recorder.failures(self._item, self._scope.place, CHILD, (self._request, {}))
        return log.resumption + 1 > seen

    def _adopted(self, child: Session) -> Session:
        """Make a session the child of the outer session."""
        child.outer, child.accepts_changes = self._session, self._session.accepts_changes
        child.place, child.releases = self._path, self._opener.store is not NOWHERE
        self._hold.session = child
        self._children.add((self._item, self._attempt), child)
        if self._session.cancelled:
            child.stop()
        return child

    # -- questions ---------------------------------------------------------------------------------------

    def _asking(self, questions: tuple[Question, ...]) -> Asking:
        """Return the exception that makes the node ask the questions of its child."""
        first, *others = [
            (asked.carried(), f"{self._about}/{asked.path}", self._answer(asked)[0]) for asked in questions
        ]
        asking = Asking(*first)
        asking.others = others
        if (calls := self._scope.of.in_flight) is not None:
            calls.asked.append((self._scope.place, asking))
        return self._scope.unwind(asking)

    def _answers(self, log: RunLog) -> dict[str, Any]:
        """Return the answers to the child's open questions that the outer run has."""
        found = {asked.path: self._answer(asked)[1] for asked in log.questions}
        return {path: answer[0] for path, answer in found.items() if answer}

    def _answer(self, asked: Question) -> tuple[str, tuple[Any, ...]]:
        """Return the position of a question in the outer run, and its answer there, if it has a valid one."""
        given = self._session.machine.answers(self._item, f"{self._about}/{asked.path}")
        position = asked.position
        for number in count(1):
            if position not in given:
                return position, ()
            try:
                checked_answer(self._graph, asked, given[position], is_json=False)
            except InputError:
                position = f"{asked.position}.-{number}"
            else:
                return position, (given[position],)
        raise AssertionError("unreachable")

    # -- events ------------------------------------------------------------------------------------------

    def _forward(self, event: Event) -> None:
        """Send an event of the child to the listeners of the outer run, with its path there; publish its data there.

        The start and the end of a child have separate kinds, so that readers do not mistake them for those of the run.
        Cursors belong to the child. Its questions are asked by the outer run.
        """
        if event.kind != "interrupted":
            kind, data = _KINDS.get(event.kind, event.kind), dict(event.data)
            publishes = data.pop("number", None) is not None
            path = f"{self._path}/{event.path}" if event.path else self._path
            forwarded = replace(event, kind=kind, path=path, data=data, cursor="")
            self._session.relay(forwarded, publishes=publishes)


class _BlockingChild:
    """Runs a child in this thread, for an async node in another process."""

    awaited = True

    def __init__(self, run: Callable[..., str]) -> None:
        self._run = run

    def __call__(self, *request: Any) -> str:
        return self._run(*request)


_KINDS = {"run_started": "child_started", "run_finished": "child_finished"}
