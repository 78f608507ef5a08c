"""Gates: nodes that decide what runs next, and what they decide with.

Rules:

- A gate reads values as any node does, writes none, and chooses among the targets that it lists.
- ``route`` returns one target, a list of ``Send``s, or (``multi=True``) several targets; ``None`` and an
  empty list select nothing. ``ifelse`` returns a bool, and nothing that merely looks like one.
- ``END`` ends the path it was decided on. It equals only itself; the name of it is ``"END"``.
- ``Send`` runs its target once with a payload that overlays the state for that item alone.
- ``Command`` is what a node returns that writes and routes in one go.
- ``interrupt`` is a node whose return value is a question; the answer is what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import msgspec

from clew.errors import GraphError
from clew.graph.names import END, check_output_name, name_of
from clew.graph.node import FunctionNode, check_options, check_targets, make_node, node_name

__all__ = ["END", "Command", "Send", "ifelse", "interrupt", "route"]

P = ParamSpec("P")
R = TypeVar("R")


class Send(msgspec.Struct, frozen=True):
    """Run ``target`` once with ``payload`` over the state."""

    target: str
    payload: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        target: Any = self.target
        name = target if type(target) is str else name_of(target, "Send")
        if name == "END":
            raise GraphError("a Send needs a node to run; return END itself to end the path.")
        if name is not target:
            msgspec.structs.force_setattr(self, "target", name)
        payload: Any = self.payload
        if type(payload) is not dict and not isinstance(payload, Mapping):
            raise GraphError(f"the payload of a Send to {name!r} maps names to values, not {payload!r}.")
        for key in payload:
            if not isinstance(key, str):
                raise GraphError(f"the payload of a Send to {name!r} maps names to values, not {payload!r}.")


@dataclass(frozen=True)
class Command:
    """Write ``update`` and go to ``goto``: a target, a ``Send``, or a list of them."""

    update: Mapping[str, Any] | None = None
    goto: Any = None

    def __post_init__(self) -> None:
        if self.update is not None and not isinstance(self.update, Mapping):
            raise GraphError(f"the update of a Command maps names to values, not {self.update!r}.")


def route(
    *, targets: Any, multi: bool = False, **options: Any
) -> Callable[[Callable[P, R]], FunctionNode[P, R]]:
    """A gate that returns one of ``targets``, a list of ``Send``s, or a tuple of targets with ``multi=True``.

    Options are those of ``@node``, except what it writes.
    """

    def decorate(func: Callable[P, R]) -> FunctionNode[P, R]:
        where = f"gate {node_name(func, options.get('name'))!r}"
        check_options(options, where, ("targets", "multi"))
        return make_node(
            func, "route", shape="none", targets=check_targets(targets, where), multi=multi, **options
        )

    return decorate


def ifelse(
    *, when_true: Any, when_false: Any, **options: Any
) -> Callable[[Callable[P, bool]], FunctionNode[P, bool]]:
    """A gate that returns a bool. Options are those of ``@node``, except what it writes."""

    def decorate(func: Callable[P, bool]) -> FunctionNode[P, bool]:
        where = f"gate {node_name(func, options.get('name'))!r}"
        check_options(options, where, ("when_true", "when_false"))
        when = (name_of(when_true, f"when_true of {where}"), name_of(when_false, f"when_false of {where}"))
        if when[0] == when[1]:
            raise GraphError(f"{where} goes to {when[0]!r} either way; give it two targets.")
        return make_node(func, "ifelse", shape="none", targets=when, when=when, **options)

    return decorate


def interrupt(*, output: str | None = None, **options: Any) -> Callable[[Callable[P, R]], FunctionNode[P, R]]:
    """A node that asks: it returns the question, and writes the answer. Options are those of ``@node``."""

    def decorate(func: Callable[P, R]) -> FunctionNode[P, R]:
        name = node_name(func, options.get("name"))
        asked = name if output is None else output
        written = check_output_name(asked, f"interrupt {name!r}")
        return make_node(func, "interrupt", shape="one", outputs=(written,), **options)

    return decorate
