"""The options that all kinds of nodes share, as type checkers and editors see them.

`make_node` has their defaults and checks them. A decorator or a method that makes a node takes
``**options: Unpack[NodeOptions]``, so that an editor completes the names and a type checker rejects others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from clew.graph.joins import AllOf
from clew.graph.policies import Cache, NodePolicy, RetryPolicy, SideEffectPolicy

if TYPE_CHECKING:
    from clew.graph.node import Node

Target: TypeAlias = "str | Node | Callable[..., Any]"
"""A node, its name or its function. END is also a target."""

Targets: TypeAlias = "Target | Sequence[Target]"


class SubgraphOptions(TypedDict, total=False):
    """The options of a node that is made from a graph, in addition to its own."""

    after: Targets | AllOf
    eager: bool
    retry: int | RetryPolicy | Sequence[RetryPolicy] | None
    timeout: float | None
    policy: NodePolicy | None
    rescue: Callable[..., Any] | None
    side_effects: SideEffectPolicy | None
    idempotency_key: Callable[..., str] | None
    cache: bool | Cache
    description: str | None


class NodeOptions(SubgraphOptions, total=False):
    """The options of all kinds of nodes."""

    name: str | None
    on: Literal["anywhere", "driver"]


OPTIONS = ("name", *SubgraphOptions.__annotations__, "on")
