"""What is sent to a worker to call one node: the function, its arguments, and the data for its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from clew.graph.signature import Mode
from clew.runtime.calls.mutation_check import Input
from clew.runtime.remote.pickling import FunctionRef, loads, plain_dumps, resolve
from clew.runtime.reporting.observers import WorkerObserver


class TaskArgument(msgspec.Struct, array_like=True):
    """One argument: pickled, or large and by reference, or the context."""

    kind: Literal["value", "large", "context"]
    data: bytes = b""
    number: int = 0  # of the reference
    keyword: str = ""
    source: str = ""  # the value of the state that is guarded against changes
    fields: tuple[str, ...] = ()  # of a whole state, the guarded fields
    is_view: bool = False  # a whole state without a schema, which is read-only


class NodeTask(msgspec.Struct, array_like=True):
    """The call of a node."""

    name: str
    mode: Mode
    path: str
    step: int
    attempt: int
    run_id: str
    seed: int
    func: FunctionRef | bytes
    arguments: list[TaskArgument]
    reduced: tuple[str, ...] = ()  # inputs with a reducer
    check_mutation: bool = False
    is_virtual: bool = False  # the clock of the run
    around: bytes = b""  # the observers that surround the call, pickled

    @property
    def takes_context(self) -> bool:
        """Whether the function has a parameter for the context."""
        return any(argument.kind == "context" for argument in self.arguments)


encode_task = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(NodeTask).decode


class Around:
    """The observers of a call: entered around it, in this process."""

    def __init__(self, pickled: bytes) -> None:
        self._observers: list[WorkerObserver] = loads(pickled) if pickled else []
        self._entered = ExitStack()

    def __enter__(self) -> None:
        with ExitStack() as entering:
            for each in self._observers:
                entering.enter_context(each)
            self._entered = entering.pop_all()

    def __exit__(self, *error: object) -> None:
        self._entered.close()

    def reports(self) -> bytes:
        """Return what the observers report to the driver, pickled."""
        try:
            found = [report for each in self._observers if (report := each.report()) is not None]
            return plain_dumps(found) if found else b""
        except Exception:  # an observer does not break a run
            return b""


class Body:
    """A task that a worker has read: the function and its arguments."""

    def __init__(self, task: NodeTask, blobs: Sequence[Any]) -> None:
        self.task = task
        self.around = Around(task.around)
        self.func = loads(task.func) if isinstance(task.func, bytes) else resolve(task.func)
        self._values = [
            None
            if each.kind == "context"
            else loads(each.data if each.kind == "value" else blobs[each.number])
            for each in task.arguments
        ]

    def arguments(self, context: Any) -> tuple[list[Any], dict[str, Any], list[Input]]:
        """Return the arguments, and those that are guarded."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        inputs: list[Input] = []
        for each, known in zip(self.task.arguments, self._values, strict=True):
            value: Any = context if each.kind == "context" else known
            if each.source:
                inputs.append((each.source, value))
            inputs.extend((name, _field(value, name)) for name in each.fields)
            if each.is_view:
                value = MappingProxyType(value)
            if each.keyword:
                kwargs[each.keyword] = value
            else:
                args.append(value)
        self._values = []
        return args, kwargs, inputs


def _field(state: Any, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)
