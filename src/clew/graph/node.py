"""The class `Node`: a function, the values that it reads and the values that it writes.

Rules:

- The signature of the function names the values to read (``signature.py``). One of these options names the values to
  write: ``output="docs"`` (the return value), ``output=("lo", "hi")`` (a tuple, in order) or
  ``writes=("errors", "plan")`` (a mapping with any of these names). Without them, a node writes a value of its own
  name; with ``goto=[...]`` alone it writes nothing.
- ``goto`` lists the possible targets of a ``Command`` that the node returns.
- A node is immutable and callable: calling it calls its function, ``node.func``.
- ``rename`` changes names in the graph, never the function.

Gates are nodes of other kinds; their decorators are in ``gates.py``. A parameter that is annotated with the schema of
the graph becomes a ``state`` parameter when the graph is built.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from clew.errors import GraphError
from clew.graph.joins import read_after
from clew.graph.names import check_node_name, check_output_name, check_value_name, names_of, nearest
from clew.graph.node_options import OPTIONS, NodeOptions, Targets
from clew.graph.option_checks import (
    check_bare,
    check_cache,
    check_flag,
    check_on,
    check_renaming,
    check_side_effects,
    check_text,
)
from clew.graph.policies import Cache, NodePolicy, RetryPolicy, SideEffectPolicy, policy_of
from clew.graph.rescue import Rescue, read_rescue
from clew.graph.signature import MISSING, Mode, Param, mode_of, name_of_function, read_params, read_returns
from clew.graph.subgraph import Subgraph

__all__ = ["MISSING", "FunctionNode", "Node", "Param", "as_node", "make_node", "node"]

P = ParamSpec("P")
R = TypeVar("R")
NodeKind = Literal["node", "route", "ifelse", "interrupt", "subgraph", "rescue"]
Shape = Literal["one", "tuple", "update", "none"]
Where = Literal["anywhere", "driver"]


@dataclass(frozen=True, eq=False)
class Node:
    """A function in a graph, made by ``@node``, a gate's decorator or ``Graph.as_node``."""

    name: str
    func: Callable[..., Any]
    kind: NodeKind
    params: tuple[Param, ...]
    outputs: tuple[str, ...]
    shape: Shape
    writes: Mapping[str, str]
    targets: tuple[str, ...] = ()
    multi: bool = False
    when: tuple[str, str] | None = None
    mode: Mode = "sync"
    after: tuple[str, ...] = ()
    is_join: bool = False
    """Whether all nodes of ``after`` have to run before each run of this one (`all_of`)."""
    eager: bool = False
    policy: NodePolicy = NodePolicy()
    side_effects: SideEffectPolicy = SideEffectPolicy()
    cache: Cache | None = None
    cutoff: Callable[[Any, Any], bool] | None = None
    description: str = ""
    returns: Any = Any
    subgraph: Subgraph | None = None
    rescue: Rescue | None = None
    on: Where = "anywhere"
    """Where the function may run: in any process that the executor has, or only in the driver's."""
    pruned: tuple[str, ...] = ()
    """Targets removed by ``Graph.select``. If the function chooses one of them, it selects nothing."""

    def __post_init__(self) -> None:
        for name in ("__doc__", "__name__", "__qualname__", "__module__"):
            if hasattr(self.func, name):
                object.__setattr__(self, name, getattr(self.func, name))
        object.__setattr__(self, "__wrapped__", self.func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        leads_to = self.outputs or self.targets
        return f"<{self.kind} {self.name!r}: {', '.join(self.inputs)} -> {', '.join(leads_to)}>"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The values that the node reads by name, in order."""
        return tuple(dict.fromkeys(p.source for p in self.params if p.kind == "value"))

    @property
    def required(self) -> tuple[str, ...]:
        """The inputs without a default."""
        reads = [p for p in self.params if p.kind == "value" and p.default is MISSING]
        return tuple(dict.fromkeys(p.source for p in reads))

    @property
    def reads_state(self) -> bool:
        """Whether the node reads the whole state."""
        return any(p.kind == "state" for p in self.params)

    @property
    def is_called_again(self) -> bool:
        """Whether a resumed run calls the node again if its step was not committed, even if it had returned."""
        effects = self.side_effects
        return effects.requires_idempotency and not effects.recordable and self.subgraph is None

    @cached_property
    def rescuer(self) -> Node | None:
        """The node that runs in the place of this one after its last attempt has failed, or None."""
        rescue = self.rescue
        if rescue is None:
            return None
        return replace(
            self,
            kind="rescue",
            func=rescue.func,
            params=rescue.params_for(self.params),
            mode=rescue.mode,
            policy=NodePolicy(timeout=self.policy.timeout),
            side_effects=SideEffectPolicy(),
            cache=None,
            subgraph=None,
            rescue=None,
        )

    @property
    def is_gate(self) -> bool:
        """Whether the node decides what runs next and writes nothing."""
        return self.kind in ("route", "ifelse")

    def rename(
        self,
        *,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Node:
        """Return a node that reads and writes under other names: ``{old: new}``."""
        inputs = check_renaming(inputs, f"inputs= of the rename of {self.name!r}")
        outputs = check_renaming(outputs, f"outputs= of the rename of {self.name!r}")
        for old in inputs:
            if old not in self.inputs:
                raise GraphError(f"{self.name!r} has no input {old!r} to rename; {nearest(old, self.inputs)}")
        for old in outputs:
            if old not in self.outputs:
                raise GraphError(
                    f"{self.name!r} has no output {old!r} to rename; {nearest(old, self.outputs)}"
                )
        params = tuple(
            replace(p, source=check_value_name(inputs[p.source], f"rename of {self.name!r}"))
            if p.kind == "value" and p.source in inputs
            else p
            for p in self.params
        )
        writes = {own: outputs.get(value, value) for own, value in self.writes.items()}
        return replace(
            self,
            name=self.name if name is None else check_node_name(name),
            params=params,
            outputs=_outputs(tuple(writes.values()), f"rename of {self.name!r}"),
            writes=MappingProxyType(writes),
        )


class FunctionNode(Node, Generic[P, R]):
    """A node as type checkers see it: it has the signature of its function."""

    if TYPE_CHECKING:
        func: Callable[P, R]

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


@overload
def node(
    func: Callable[P, R],
    /,
    *,
    output: str | Sequence[str] | None = ...,
    writes: str | Sequence[str] | None = ...,
    goto: Targets | None = ...,
    cutoff: bool | Callable[[Any, Any], bool] | None = ...,
    **options: Unpack[NodeOptions],
) -> FunctionNode[P, R]: ...
@overload
def node(
    *,
    output: str | Sequence[str] | None = ...,
    writes: str | Sequence[str] | None = ...,
    goto: Targets | None = ...,
    cutoff: bool | Callable[[Any, Any], bool] | None = ...,
    **options: Unpack[NodeOptions],
) -> Callable[[Callable[P, R]], FunctionNode[P, R]]: ...
def node(
    func: Callable[..., Any] | None = None,
    /,
    *,
    output: str | Sequence[str] | None = None,
    writes: str | Sequence[str] | None = None,
    goto: Targets | None = None,
    cutoff: bool | Callable[[Any, Any], bool] | None = None,
    **options: Unpack[NodeOptions],
) -> Any:
    """Make a node from a function: ``@node``, ``@node(output=...)`` or ``node(f, output=...)``.

    Options: ``name, after, eager, retry, timeout, policy, rescue, side_effects, idempotency_key, cache, cutoff, on,
    description``. With ``on="driver"``, the node runs in the process of the driver even if the executor has others.
    With ``cache=True`` or ``cache=Cache(ttl=..., key=...)``, the engine's store keeps the results for all runs and
    processes: calls with equal code and equal inputs (by their canonical encoding) share one result.
    """

    check_bare(func, f"@node(output={func!r})")

    def decorate(func: Callable[..., Any]) -> FunctionNode[..., Any]:
        name = node_name(func, options.get("name"))
        where = f"node {name!r}"
        check_options(options, where, ("output", "writes", "goto", "cutoff"))
        if output is not None and writes is not None:
            raise GraphError(f"{where}: output= and writes= exclude each other; give one of them.")
        shape, names = _shape(name, output, writes, goto)
        for named in names:
            if not isinstance(named, str):
                option = "output" if writes is None else "writes"
                raise GraphError(
                    f"{option}= of {where}: expected the name of a value or a list of names, got {named!r}."
                )
        return make_node(
            func,
            "node",
            shape=shape,
            outputs=_outputs(names, where),
            targets=() if goto is None else check_targets(goto, where, "goto"),
            cutoff=_cutoff(cutoff, where),
            **options,
        )

    return decorate if func is None else decorate(func)


def check_options(options: Mapping[str, Any], where: str, own: Sequence[str] = ()) -> None:
    """Raise GraphError for an unknown option. `own` are the additional options of this kind of node."""
    for name in options:
        if name not in OPTIONS:
            raise GraphError(f"{where} has no option {name!r}; {nearest(name, (*own, *OPTIONS))}")


def as_node(func: Any) -> Node:
    """Return a node unchanged, or make one from a function; it writes a value of the function's name."""
    if func is None:
        raise GraphError("None is not a function, so it cannot be a node.")
    made_by, _, inner = getattr(func, "__qualname__", "").partition(".")
    if inner == "<locals>.decorate" and getattr(func, "__module__", "").startswith("clew.graph."):
        raise GraphError(
            f"{made_by}(...) was not given a function; write {made_by}(...)(function), or use @{made_by}(...)."
        )
    return func if isinstance(func, Node) else node(func)


def _check_not_wrapping(func: Any, where: str) -> None:
    """Raise GraphError for a wrapper of a node (``functools.wraps``): the options of that node would be lost."""
    inner = func
    while inner is not None:
        inner = inner.func if isinstance(inner, partial) else getattr(inner, "__wrapped__", None)
        if isinstance(inner, Node):
            raise GraphError(
                f"{where}: it wraps the node {inner.name!r}, and would drop its options; put @{inner.kind} above the"
                f" other decorators, or wrap {inner.name}.func."
            )


def make_node(
    func: Callable[P, R],
    kind: NodeKind,
    *,
    shape: Shape,
    outputs: tuple[str, ...] = (),
    targets: tuple[str, ...] = (),
    multi: bool = False,
    when: tuple[str, str] | None = None,
    cutoff: Callable[[Any, Any], bool] | None = None,
    params: tuple[Param, ...] | None = None,
    subgraph: Subgraph | None = None,
    name: str | None = None,
    after: Any = (),
    eager: bool = False,
    retry: int | RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: float | None = None,
    policy: NodePolicy | None = None,
    rescue: Callable[..., Any] | None = None,
    side_effects: SideEffectPolicy | None = None,
    idempotency_key: Callable[..., str] | None = None,
    cache: bool | Cache = False,
    on: Where = "anywhere",
    description: str | None = None,
) -> FunctionNode[P, R]:
    """Make a node of any kind, with the options that all kinds share."""
    name = node_name(func, name)
    where = f"node {name!r}"
    _check_not_wrapping(func, where)
    earlier, is_join = read_after(after, f"after= of {where}")
    params = read_params(func, where) if params is None else params
    return FunctionNode(
        name=name,
        func=func,
        kind=kind,
        params=params,
        outputs=outputs,
        shape=shape,
        writes=MappingProxyType({output: output for output in outputs}),
        targets=targets,
        multi=check_flag(multi, f"multi= of {where}"),
        when=when,
        mode=mode_of(func),
        after=earlier,
        is_join=is_join,
        eager=check_flag(eager, f"eager= of {where}"),
        policy=policy_of(policy=policy, timeout=timeout, retry=retry, idempotency_key=idempotency_key),
        side_effects=check_side_effects(side_effects, f"side_effects= of {where}"),
        cache=check_cache(cache, f"cache= of {where}"),
        cutoff=cutoff,
        description=_first_line(func)
        if description is None
        else check_text(description, f"description= of {where}"),
        returns=read_returns(func),
        subgraph=subgraph,
        rescue=read_rescue(rescue, kind, params, where),
        on=check_on(on, f"on= of {where}"),
    )


def check_targets(targets: Any, where: str, option: str = "targets") -> tuple[str, ...]:
    """Return the names of a gate's targets. Raises GraphError for an empty list or a duplicate."""
    names = names_of(targets, f"{option} of {where}")
    if not names:
        raise GraphError(f"{where} has no {option}; list at least one node, or END.")
    for name in names:
        if names.count(name) > 1:
            raise GraphError(f"{where} lists the target {name!r} twice; remove one.")
    return names


def node_name(func: Any, name: str | None) -> str:
    """Return the name of a node. Raises GraphError if `func` cannot be the function of a node."""
    if isinstance(func, Node):
        raise GraphError(f"{func.name!r} is already a node; use rename to change its names.")
    if isinstance(func, type):
        raise GraphError(f"{func.__name__} is a class; wrap it in a function that creates an instance.")
    if not callable(func):
        raise GraphError(f"{func!r} is not a function, so it cannot be a node.")
    if name is None:
        name = name_of_function(func)
        if name is None:
            raise GraphError(f"{func!r} has no name; give it one with node(..., name=...).")
    return check_node_name(name)


def _shape(name: str, output: Any, writes: Any, goto: Any) -> tuple[Shape, tuple[Any, ...]]:
    if writes is not None:
        return "update", tuple(writes) if isinstance(writes, (list, tuple)) else (writes,)
    if output is None:
        return ("one", (name,)) if goto is None else ("update", ())
    return ("tuple", tuple(output)) if isinstance(output, (list, tuple)) else ("one", (output,))


def _outputs(names: tuple[Any, ...], where: str) -> tuple[str, ...]:
    for name in names:
        check_output_name(name, where)
        if names.count(name) > 1:
            raise GraphError(f"{where} writes {name!r} twice; give each output a different name.")
    return names


def _cutoff(cutoff: Any, where: str) -> Callable[[Any, Any], bool] | None:
    if cutoff is None or isinstance(cutoff, bool):
        return operator.eq if cutoff else None
    if not callable(cutoff):
        raise GraphError(
            f"{where}: cutoff: expected True, False or a function of two values, got {cutoff!r}."
        )
    result: Callable[[Any, Any], bool] = cutoff
    return result


def _first_line(func: Callable[..., Any]) -> str:
    return (getattr(func, "__doc__", None) or "").strip().partition("\n")[0]
