"""Reading return values: turns what a function returned into an update and a decision.

The return value of a node becomes an update according to its shape: one output, a tuple that matches the outputs, or a
mapping of some of them. The return value of a gate becomes a decision: a tuple of target names, ``"END"`` and Sends. A
`Command` is both. A value that does not match the node's declaration is an error that names the node and says what is
expected; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.engine.program import Program
from clew.engine.records import Choice
from clew.engine.working_state import WorkingState
from clew.errors import DecisionError, OutputError
from clew.graph import END, Command, Node, Send
from clew.graph.analysis.loops import selects_off_loop
from clew.graph.names import name_of, nearest
from clew.graph_warnings import warn
from clew.state import Overwrite
from clew.state.type_names import a, with_article

Reading = tuple[Mapping[str, Any], tuple[Choice, ...] | None]


def read(program: Program, node: Node, value: Any, working: WorkingState) -> Reading:
    """Return the update and the decision that `value`, returned by `node`, stands for."""
    if node.kind == "route":
        return {}, choices(program, node, value, working)
    if node.kind == "ifelse":
        return {}, _branch(node, value)
    decision: tuple[Choice, ...] | None = () if node.targets else None
    if isinstance(value, Command):
        decision = _goto(program, node, value, working)
        update = _mapping(node, {} if value.update is None else value.update)
    elif value is END or isinstance(value, Send):
        raise OutputError(
            f"node {node.name!r} returned {_short(value)}, and only a gate decides what runs next; make it a gate with "
            f"@route(targets=[...]), or return Command(update=..., goto=...) and declare @node(goto=[...])"
        )
    elif node.shape == "one":
        update = {node.outputs[0]: value}
    elif node.shape == "tuple":
        update = _pairs(node, value)
    else:
        update = _mapping(node, value)
    if program.schema is not None and program.schema.validates:
        update = _validated(program, node, update)
    if node.cutoff is not None:
        update = _changed(program, node, update, working)
    return update, decision


def _branch(node: Node, value: Any) -> tuple[Choice, ...]:
    if value is not True and value is not False:
        raise DecisionError(
            f"gate {node.name!r} returned {_short(value)}, {with_article(_kind(type(value)))}; an ifelse gate returns "
            f"True or False (wrap it in bool(...))"
        )
    assert node.when is not None
    target = node.when[0] if value else node.when[1]
    return () if target in node.pruned else (target,)


def _goto(program: Program, node: Node, command: Command, working: WorkingState) -> tuple[Choice, ...] | None:
    if node.targets or node.pruned:
        return choices(program, node, command.goto, working, several=True)
    if command.goto is not None:
        raise DecisionError(
            f"node {node.name!r} returned a Command with goto={command.goto!r}, but declares no targets; "
            f"add @node(goto=[...])"
        )
    return None


def _pairs(node: Node, value: Any) -> Mapping[str, Any]:
    wanted = len(node.outputs)
    if type(value) is not tuple and not (isinstance(value, tuple) and hasattr(value, "_fields")):
        raise OutputError(
            f"node {node.name!r} returned {a(type(value))}, but declares output={node.outputs!r}; "
            f"return a tuple of {wanted}"
        )
    if len(value) != wanted:
        raise OutputError(
            f"node {node.name!r} returned a tuple of {len(value)}, but declares {wanted} outputs, {node.outputs!r}"
        )
    return dict(zip(node.outputs, value, strict=True))


def _mapping(node: Node, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OutputError(
            f"node {node.name!r} returned {a(type(value))}; return a dict of what it writes, any of "
            f"{tuple(node.writes)!r}"
        )
    update: dict[str, Any] = {}
    for own, item in value.items():
        name = node.writes.get(own)
        if name is None:
            if own in node.outputs and own not in node.writes:
                name = own  # a renamed output accepts both names
            else:
                raise OutputError(
                    f"node {node.name!r} returned {own!r}, which it does not declare; "
                    f"{nearest(str(own), node.writes)}"
                )
        update[name] = item
    return update


def _validated(program: Program, node: Node, update: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = program.schema
    assert schema is not None
    checked: dict[str, Any] = {}
    for name, value in update.items():
        try:
            checked[name] = schema.validate_update(name, value)
        except ValueError as error:
            raise OutputError(
                f"node {node.name!r} returned a value for {name!r} that the state schema rejects: {error}"
            ) from error
    return checked


def _changed(
    program: Program, node: Node, update: Mapping[str, Any], working: WorkingState
) -> Mapping[str, Any]:
    """Return the part of an update that differs from the state."""
    equal = node.cutoff
    assert equal is not None
    return {
        name: value
        for name, value in update.items()
        if name in program.reducers
        or isinstance(value, Overwrite)
        or not working.has(name)
        or not equal(working.values[name], value)
    }


def choices(
    program: Program, node: Node, value: Any, working: WorkingState, *, several: bool = False
) -> tuple[Choice, ...]:
    """Return the return value of a gate as a decision. `several` allows a list of targets, as for a Command."""
    if value is None:
        return ()
    if isinstance(value, Iterator):
        raise DecisionError(
            f"gate {node.name!r} returned {a(type(value))}, which can be read only once; return a list"
        )
    if not isinstance(value, (list, tuple)):
        return _without_pruned(node, (_choice(program, node, value, working),))
    decided = tuple([_choice(program, node, one, working) for one in value])
    names = [choice for choice in decided if isinstance(choice, str)]
    if len(names) > 1 and not several and not node.multi:
        raise DecisionError(
            f"gate {node.name!r} returned {len(names)} targets, {', '.join(map(repr, names))}; return one, "
            f"or declare it with multi=True"
        )
    if several and len(names) > 1:
        _warn_of_lost(program, node, names)
    return _without_pruned(node, decided)


def _warn_of_lost(program: Program, node: Node, names: Sequence[str]) -> None:
    """Warn of a Command that selects another turn of its loop and a node after it: the next turn withdraws the node.

    A `route(multi=True)` gets this warning when its graph is built. A node may name such targets and never select both.
    """
    index, on_loops = program.index, program.topology.on_loops
    mine = on_loops[index[node.name]]
    on = [name for name in names if name in index and on_loops[index[name]] & mine]
    off = [name for name in names if name in index and name not in on and not program.graph.nodes[name].eager]
    if mine and on and off:
        warn(selects_off_loop(node.name, on, off, verb="selects"))


def _without_pruned(node: Node, decided: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Return a decision without the targets that `Graph.select` removed."""
    if not node.pruned:
        return decided
    return tuple(c for c in decided if (c.target if isinstance(c, Send) else c) not in node.pruned)


def _choice(program: Program, node: Node, value: Any, working: WorkingState) -> Choice:
    if isinstance(value, Send):
        if value.target not in node.targets:
            _check_target(node, value.target, value)
        if not node.pruned or value.target not in node.pruned:
            _check_payload(program, node, value, working)
        return value
    if value is END:
        name = "END"
    elif isinstance(value, str) or callable(value):
        name = name_of(value, f"gate {node.name!r}")
    else:
        name = ""
    _check_target(node, name, value)
    return name


def _check_target(node: Node, name: str, value: Any) -> None:
    if name in node.targets or name in node.pruned:
        return
    what = "gate" if node.kind == "route" else "node"
    valid = (*node.targets, *node.pruned)
    similar = nearest(name, valid)
    hint = f" ({similar})" if similar.startswith("did you mean") else ""  # the message lists all names
    raise DecisionError(
        f"{what} {node.name!r} chose {_short(value)}, which is not one of its targets: "
        f"{', '.join(valid)}{hint}"
    )


def _check_payload(program: Program, node: Node, send: Send, working: WorkingState) -> None:
    """Reject a payload that can never satisfy its target."""
    number = program.index[send.target]
    payload, allowed = send.payload, program.sendable[number]
    if allowed is not None and not payload.keys() <= allowed:
        name = next(name for name in payload if name not in allowed)
        raise DecisionError(
            f"gate {node.name!r} sends {name!r} to {send.target!r}, which does not read it; "
            f"{nearest(name, sorted(allowed))}"
        )
    for name in program.needs[number]:
        if name not in payload and name not in working.values and name not in program.written:
            raise DecisionError(
                f"gate {node.name!r} sends {sorted(payload)} to {send.target!r}, which also needs {name!r}, "
                f"and no node writes that; add it to the payload"
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(cls: type) -> str:
    """Return the name of a class; with its module, because numpy has a bool too."""
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
