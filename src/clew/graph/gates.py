"""Gates: nodes that decide what runs next, and the values that express a decision.

Rules:

- A gate reads values like any node, writes none, and chooses among its declared targets.
- ``route`` returns one target, a list of ``Send``s, or several targets with ``multi=True``. ``None`` and an
  empty list select nothing. ``ifelse`` returns a bool; other truthy values are rejected.
- ``END`` ends its path. It equals only itself; its name is ``"END"``.
- ``Send`` runs its target once. Its payload overlays the state for that item only.
- ``Command`` is the return value of a node that writes and routes.
- ``interrupt`` is a node that returns a question and writes the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, Unpack, overload

import msgspec

from clew.errors import GraphError
from clew.graph.names import END, check_output_name, name_of
from clew.graph.node import FunctionNode, check_options, check_targets, make_node, node_name
from clew.graph.node_options import NodeOptions, Target, Targets
from clew.graph.option_checks import check_bare

__all__ = ["END", "Command", "Send", "ifelse", "interrupt", "route"]

P = ParamSpec("P")
R = TypeVar("R")


class Send(msgspec.Struct, frozen=True):
    """A return value of a gate: run ``target`` once, with the state and, over it, the values of ``payload``."""

    target: str
    payload: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        target: Any = self.target
        name = target if type(target) is str else name_of(target, "Send")
        if name == "END":
            raise GraphError("Send needs a node as its target; return END itself to end the path.")
        if name is not target:
            msgspec.structs.force_setattr(self, "target", name)
        payload: Any = self.payload
        if type(payload) is not dict and not isinstance(payload, Mapping):
            raise GraphError(
                f"payload of a Send to {name!r}: expected a mapping of names to values, got {payload!r}."
            )
        msgspec.structs.force_setattr(self, "payload", dict(payload))  # the caller may change its own later
        for key in payload:
            if not isinstance(key, str):
                raise GraphError(f"payload of a Send to {name!r}: expected names as keys, got {key!r}.")


@dataclass(frozen=True)
class Command:
    """A return value of a node: write ``update``, then run ``goto``: a target, a ``Send``, or a list of them."""

    update: Mapping[str, Any] | None = None
    goto: Any = None

    def __post_init__(self) -> None:
        if self.update is not None and not isinstance(self.update, Mapping):
            raise GraphError(
                f"update of a Command: expected a mapping of names to values, got {self.update!r}."
            )
        goto = self.goto
        if goto is not None and type(goto) is not str:
            for one in goto if isinstance(goto, (list, tuple)) else (goto,):
                if not isinstance(one, Send):
                    name_of(one, "goto of a Command")


@overload
def route(
    func: Callable[P, R], /, *, targets: Targets, multi: bool = ..., **options: Unpack[NodeOptions]
) -> FunctionNode[P, R]: ...
@overload
def route(
    *, targets: Targets, multi: bool = ..., **options: Unpack[NodeOptions]
) -> Callable[[Callable[P, R]], FunctionNode[P, R]]: ...
def route(
    func: Callable[..., Any] | None = None,
    /,
    *,
    targets: Targets | None = None,
    multi: bool = False,
    **options: Unpack[NodeOptions],
) -> Any:
    """Make a gate that returns one of ``targets``, a list of ``Send``s, or a tuple of targets with ``multi=True``.

    Options are those of ``@node``, except ``output`` and ``writes``.
    """

    check_bare(func, f"@route(targets={func!r})")

    def decorate(func: Callable[..., Any]) -> FunctionNode[..., Any]:
        where = f"gate {node_name(func, options.get('name'))!r}"
        check_options(options, where, ("targets", "multi"))
        if targets is None:
            raise GraphError(f"{where} needs targets; write @route(targets=[...]).")
        return make_node(
            func, "route", shape="none", targets=check_targets(targets, where), multi=multi, **options
        )

    return decorate if func is None else decorate(func)


@overload
def ifelse(
    func: Callable[P, bool], /, *, when_true: Target, when_false: Target, **options: Unpack[NodeOptions]
) -> FunctionNode[P, bool]: ...
@overload
def ifelse(
    *, when_true: Target, when_false: Target, **options: Unpack[NodeOptions]
) -> Callable[[Callable[P, bool]], FunctionNode[P, bool]]: ...
def ifelse(
    func: Callable[..., bool] | None = None,
    /,
    *,
    when_true: Target | None = None,
    when_false: Target | None = None,
    **options: Unpack[NodeOptions],
) -> Any:
    """Make a gate that returns a bool. Options are those of ``@node``, except ``output`` and ``writes``."""

    check_bare(func, "@ifelse(when_true=..., when_false=...)")

    def decorate(func: Callable[..., bool]) -> FunctionNode[..., bool]:
        where = f"gate {node_name(func, options.get('name'))!r}"
        check_options(options, where, ("when_true", "when_false"))
        if when_true is None or when_false is None:
            raise GraphError(
                f"{where} needs two targets; write @ifelse(when_true=..., when_false=...), with END to end the path."
            )
        when = (name_of(when_true, f"when_true of {where}"), name_of(when_false, f"when_false of {where}"))
        if when[0] == when[1]:
            raise GraphError(
                f"when_true= and when_false= of {where} are both {when[0]!r}; give two different targets."
            )
        return make_node(func, "ifelse", shape="none", targets=when, when=when, **options)

    return decorate if func is None else decorate(func)


@overload
def interrupt(
    func: Callable[P, R], /, *, output: str | None = ..., **options: Unpack[NodeOptions]
) -> FunctionNode[P, R]: ...
@overload
def interrupt(
    *, output: str | None = ..., **options: Unpack[NodeOptions]
) -> Callable[[Callable[P, R]], FunctionNode[P, R]]: ...
def interrupt(
    func: Callable[..., Any] | None = None, /, *, output: str | None = None, **options: Unpack[NodeOptions]
) -> Any:
    """Make a node that returns a question and writes the answer. Options are those of ``@node``.

    Without ``output``, the node writes a value with the name of the node.
    """

    check_bare(func, f"@interrupt(output={func!r})")

    def decorate(func: Callable[..., Any]) -> FunctionNode[..., Any]:
        name = node_name(func, options.get("name"))
        check_options(options, f"interrupt {name!r}", ("output",))
        asked: Any = name if output is None else output
        if not isinstance(asked, str):
            raise GraphError(f"output= of interrupt {name!r}: expected the name of one value, got {asked!r}.")
        written = check_output_name(asked, f"interrupt {name!r}")
        return make_node(func, "interrupt", shape="one", outputs=(written,), **options)

    return decorate if func is None else decorate(func)
