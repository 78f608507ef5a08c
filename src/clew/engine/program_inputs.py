"""From a graph and the values given to it to a program and the values of S(0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.engine.program import Program
from clew.errors import InputError
from clew.graph import Graph
from clew.graph.interface import required_fields
from clew.graph.names import nearest


def program_of(graph: Graph, given: frozenset[str]) -> Program:
    """The program of a graph for a set of given names; it stays with the graph."""
    topology = graph.topology(given)
    program: Program | None = topology.program
    if program is None:
        program = topology.program = Program(graph, topology)
    return program


def check_values(graph: Graph, values: Mapping[str, Any]) -> tuple[frozenset[str], Mapping[str, Any]]:
    """The names given, and the values of S(0): those given, validated, and the schema's defaults."""
    given = frozenset(values)
    for name in given:
        if type(name) is not str:
            raise InputError(f"values are given by name, and {name!r} is no string")
    if not graph.has_topology(given):
        wrong = complaint(graph, given)
        if wrong:
            raise InputError(wrong)
    schema = graph.schema
    if schema is None:
        return given, values
    if schema.validates:
        checked: dict[str, Any] = {}
        for name, value in values.items():
            try:
                checked[name] = schema.validate(name, value)
            except ValueError as error:
                raise InputError(f"{name!r} does not fit the state schema: {error}") from error
        values = checked
    return given, {**schema.defaults(given), **values}


def complaint(graph: Graph, given: frozenset[str]) -> str:
    """What is wrong with giving exactly these names to a graph, or ""."""
    read = {value for node in graph.nodes.values() for value in node.inputs}
    written = {value for node in graph.nodes.values() for value in node.outputs}
    declared = set(graph.schema.fields) if graph.schema is not None else set()
    anything = any(node.reads_state for node in graph.nodes.values()) and graph.schema is None
    for name in sorted(given):
        if graph.schema is not None and name not in declared:
            return f"the state schema declares no {name!r}; {nearest(name, declared)}"
        if name not in read and name not in written and name not in declared and not anything:
            return f"the graph has no value {name!r}; {nearest(name, sorted(read | written))}"
    seeded = (
        {
            name
            for name, field in graph.schema.fields.items()
            if field.has_default or field.reducer is not None
        }
        if graph.schema is not None
        else set()
    )
    writers: dict[str, set[str]] = {}
    for node in graph.nodes.values():
        for value in node.outputs:
            writers.setdefault(value, set()).add(node.name)
    targeted = {target for node in graph.nodes.values() for target in node.targets}
    for node in graph.nodes.values():
        if node.name in targeted:
            continue  # a Send may bring what it needs
        for value in node.required:
            if (
                value not in given
                and not (writers.get(value, set()) - {node.name})
                and value not in seeded
                and value not in graph.bound
            ):
                hint = ""
                extra = sorted(given - read - written)
                if extra:
                    hint = f" (given: {', '.join(map(repr, extra))})"
                return (
                    f"{value!r} is missing: node {node.name!r} reads it and nothing writes it{hint}; "
                    f"give it to the run, bind it, or give the parameter a default"
                )
    for name in required_fields(graph):
        if name not in given:
            assert graph.schema is not None
            return (
                f"{name!r} is missing: {graph.schema.cls.__name__} requires it and no node writes it; give it to the "
                f"run, or give the field a default"
            )
    return ""
