"""The driver's part of one attempt: what is sent to the worker, and how the frames of the body are served.

Frames are served with the methods of the session that a node on a thread would use, on a thread that waits as that node
would. Async nodes are served in the same way; only their recorded calls say that they were awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from queue import SimpleQueue
from types import CoroutineType, MappingProxyType
from typing import Any, Protocol

from clew.engine.frame import Item
from clew.error_text import line_of
from clew.errors import NodeError
from clew.runtime.calls.arguments import arguments
from clew.runtime.calls.context import RunContext
from clew.runtime.calls.mutation_check import Input
from clew.runtime.calls.recorder import now
from clew.runtime.calls.scopes import Asking, NodeCall, Scope
from clew.runtime.remote.frames import Made, Method
from clew.runtime.remote.inputs import LargeInput, LargeInputs, is_small
from clew.runtime.remote.pickling import (
    Dumps,
    loads,
    pack_error,
    pack_raised,
    plain_dumps,
    reference,
    unpack_raised,
)
from clew.runtime.remote.tasks import NodeTask, TaskArgument, encode_task

Served = tuple[Any, bytes, bool]
"""How a reply is made, its data, and whether the recorded call was awaited."""


class BodyLostError(BaseException):
    """The worker that makes a recorded call is gone, or its attempt is over. Nothing is recorded."""


class QueueTimes(Protocol):
    """Knows when attempts that wait in a queue have started."""

    def queue(self, attempt: tuple[Item, int]) -> None:
        """Note that an attempt waits."""

    def start(self, attempt: tuple[Item, int], now: float) -> None:
        """Note that an attempt has started."""

    def end(self, attempt: tuple[Item, int]) -> None:
        """Forget an attempt."""


class Making:
    """The function of a recorded call that a worker makes: it says "make", and waits for the result."""

    awaited = False
    raised: BaseException | None = None
    scope: Scope | None = None

    def __init__(self, start: Callable[[], None], take_reports: Callable[[bytes], None]) -> None:
        self._start = start
        self._take_reports = take_reports
        self.made: SimpleQueue[tuple[Made, bytes] | None] = SimpleQueue()
        self.has_started = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.has_started = True
        self._start()
        found = self.made.get()
        if found is None:
            raise BodyLostError
        frame, data = found
        self.awaited = frame.awaited
        self._take_reports(frame.reports)
        if frame.how == "value":
            return loads(data)
        self.raised = unpack_raised(frame.how, data)
        if isinstance(self.raised, Asking) and self.scope is not None:
            self.scope.unwind(self.raised)
        raise self.raised


class Attempt:
    """One attempt of an item whose node runs in another process."""

    def __init__(self, session: Any, item: Item, times: QueueTimes) -> None:
        self._session = session
        self._item = item
        self._attempt = item.attempt
        self._times = times
        self._context = RunContext(session, item, item.attempt)
        context = object()
        guarded: list[Input] = []
        found = arguments(item, context, guarded)
        self._arguments: list[tuple[str, Any, str]] = []  # keyword, value and kind
        names = iter(found[0])
        for param in item.node.params:
            value = found[1][param.name] if param.keyword_only else next(names)
            keyword = param.name if param.keyword_only else ""
            self._arguments.append((keyword, value, param.kind))
        self._guarded = guarded
        self.is_small = all(kind == "context" or is_small(value) for _, value, kind in self._arguments)
        self.is_inner = session.outer is not None  # of a child
        # the only running node of a child has the worker of the node that waits for the child
        self.borrows = self.is_inner and session.machine.counters.active <= 1
        times.queue((item, self._attempt))

    @property
    def place(self) -> str:
        """The node and its path, for errors."""
        return f"node {self._item.node.name!r} at {self._item.path}"

    @property
    def has_effects(self) -> bool:
        """Whether something has to be durable before the start."""
        effects = self._item.node.side_effects
        return effects.recordable or effects.requires_idempotency

    def pack(self, inputs: LargeInputs, dumps: Dumps, *, is_cluster: bool) -> tuple[bytes, list[LargeInput]]:
        """Return the task, and the large inputs that it uses. Raises NodeError if something cannot be pickled."""
        item, session, node = self._item, self._session, self._item.node
        used: list[LargeInput] = []
        packed: list[TaskArgument] = []
        try:
            for (keyword, value, kind), param in zip(self._arguments, node.params, strict=True):
                packed.append(self._packed(inputs, dumps, used, keyword, value, kind, param))
            func: Any = reference(node.func, is_cluster=is_cluster)
            if func is None:
                func = self._by_value(dumps)
        except BaseException:
            for each in used:
                inputs.release(each)
            raise
        task = NodeTask(
            name=node.name,
            mode=node.mode,
            path=item.path,
            step=item.step,
            attempt=self._attempt,
            run_id=session.run_id,
            seed=session.machine.options.seed,
            func=func,
            arguments=packed,
            reduced=tuple({name for name, _ in self._guarded if item.is_reduced(name)}),
            check_mutation=session.settings.check_mutation,
            is_virtual=session.clock.virtual,
            around=self._around(),
        )
        return encode_task(task), used

    def _around(self) -> bytes:
        """Return the observers of the node in the other process, pickled."""
        observed = self._session.observed
        around = [] if observed is None else observed.elsewhere(self._item)
        return plain_dumps(around) if around else b""

    def around_call(self) -> bytes:
        """Return the observers of a recorded call that the worker makes, pickled."""
        observed = self._session.observed
        around = [] if observed is None else observed.elsewhere(None)
        return plain_dumps(around) if around else b""

    def take_reports(self, reports: bytes, *, of_node: bool = False) -> None:
        """Give the observers what they report from the worker: about the node, or a recorded call."""
        observed = self._session.observed
        if reports and observed is not None:
            observed.take_reports(self._item if of_node else None, loads(reports))

    def _packed(
        self,
        inputs: LargeInputs,
        dumps: Dumps,
        used: list[LargeInput],
        keyword: str,
        value: Any,
        kind: str,
        param: Any,
    ) -> TaskArgument:
        if kind == "context":
            return TaskArgument("context", keyword=keyword)
        if kind == "error":
            return TaskArgument("value", pack_error(value, dumps), keyword=keyword)
        argument = TaskArgument("value", keyword=keyword)
        if kind == "state":
            argument.fields = tuple(name for name, _ in self._guarded)
            if type(value) is MappingProxyType:
                argument.is_view, value = True, dict(value)
        elif any(name == param.source and each is value for name, each in self._guarded):
            argument.source = param.source
        try:
            found = inputs.pack(value)
        except Exception as error:
            raise NodeError(
                f"{self.place}: its argument {param.name!r} cannot be pickled for another process: {line_of(error)}; "
                f'keep the node in the driver with @node(on="driver"), or create the value inside the node'
            ) from error
        if isinstance(found, LargeInput):
            used.append(found)
            argument.kind, argument.number = "large", len(used) - 1
        else:
            argument.data = found
        return argument

    def _by_value(self, dumps: Dumps) -> bytes:
        try:
            return dumps(self._item.node.func)
        except Exception as error:
            raise NodeError(
                f"{self.place}: another process can neither import its function nor unpickle it: "
                f"{line_of(error)}; define it at the top of a module, or keep the node in the driver with "
                f'@node(on="driver")'
            ) from error

    # -- the life of an attempt --------------------------------------------------------------------------

    def before_start(self) -> tuple[Any, ...]:
        """Make durable what has to be; return () to start, or a tuple with the value that a user gave for the node."""
        found: tuple[Any, ...] = self._session.before_effects(self._item) if self.has_effects else ()
        return found

    def started(self, dumps: Dumps) -> bytes:
        """Start the time of the attempt; return what the grant carries."""
        self._times.start((self._item, self._attempt), self._session.clock.monotonic())
        session = self._session
        answers = dict(session.machine.answers(self._item))
        slept = () if session.waits is None else session.waits.slept(self._item, self._attempt)
        return dumps((answers, slept)) if answers or slept else b""

    def lost(self) -> None:
        """Undo what the body of a lost worker began."""
        self._times.queue((self._item, self._attempt))
        self._session.lost_body(self._item, self._attempt)

    def ended(self) -> None:
        """Forget the time of the attempt."""
        self._times.end((self._item, self._attempt))

    def event(self, kind: str, data: dict[str, Any]) -> None:
        """Send what the node emitted, or a chunk, to the listeners."""
        self._session.send_event(kind, self._item, **data)

    # -- frames ------------------------------------------------------------------------------------------

    def serve(self, method: Method, parts: tuple[Any, ...], making: Making, dumps: Dumps) -> Served:
        """Do what a body asks for."""
        observed = self._session.observed
        with nullcontext() if observed is None else observed.serve_elsewhere(self._item):
            return self._serve(method, parts, making, dumps)

    def _serve(self, method: Method, parts: tuple[Any, ...], making: Making, dumps: Dumps) -> Served:
        awaited = False
        try:
            if self._session.is_over(self._item, self._attempt):
                raise self._session.leave(self._item, self._attempt)
            value = getattr(self, f"_{method}")(*parts, *([making] if method == "record" else ()))
            if type(value) is CoroutineType:  # the recording of a call that was awaited
                awaited = True
                value = now(value)
        except BodyLostError:
            raise
        except BaseException as error:
            if error is making.raised:
                return "kept", b"", False  # it was logged, if it has to be; the worker raises it itself
            return (*pack_raised(error, dumps), awaited)
        if making.has_started:
            return "kept", b"", False
        return "value", dumps(value), awaited

    def _scope(self, place: tuple[int, ...]) -> Scope:
        return Scope(self._context, tuple(place))

    def _record(self, place: Any, name: str, args: Any, kwargs: Any, making: Making) -> Any:
        making.scope = scope = self._scope(place)
        return self._session.recorder.call(
            NodeCall(self._item, self._attempt, scope, name, making, args, kwargs)
        )

    def _now(self, place: Any) -> float:
        session = self._session
        call = NodeCall(self._item, self._attempt, self._scope(place), "clew.now", session.clock.time, (), {})
        found: float = session.recorder.call(call)
        return found

    def _key(self) -> str:
        return self._context.idempotency_key

    def _sleep(self, seconds: float) -> None:
        sleeping = self._session.sleeping_nodes
        if sleeping is not None:
            sleeping.sleep(self._item, self._attempt, seconds)

    def _wait(self, request: Any) -> Any:
        return self._session.durable_waits().wait(self._item, self._attempt, request, self._scope(()))

    def _ask(self, request: Any) -> Any:
        return self._session.ask(self._item, self._attempt, request)

    def _run(self, place: Any, graph: Any, values: Any, key: str | None) -> Any:
        session = self._session
        return session.start_child(
            session, self._item, self._attempt, self._scope(place), graph, values, key, blocks=True
        )

    def _transact(self, statements: Any) -> None:
        self._session.transact(self._item, self._attempt, statements)
