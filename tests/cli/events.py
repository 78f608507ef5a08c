"""The dependency graphs that the tests of the command line ask; it is copied into their folder."""

from __future__ import annotations

from typing import Any

from clew import DependencyGraph, schema


def note(name: str) -> None:
    with open("computed.log", "a") as computed:
        computed.write(f"{name}\n")


def meta(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    note("meta")
    return sorted(event["id"] for event in inputs[0])


async def context(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    note(f"context {bindings['e']}")
    return {"id": bindings["e"], "known": bindings["e"] in inputs[0]}


def broken(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    raise ValueError("the pipe is\nbroken")


schemas = [
    schema("meta", inputs=["events"], computor=meta),
    schema("context(e)", inputs=["meta"], computor=context),
    schema("broken", inputs=["meta"], computor=broken),
]
graph = DependencyGraph(schemas)


def made() -> list[Any]:
    return schemas


def kept() -> DependencyGraph:
    return DependencyGraph(schemas, store="kept.db")


def unmakeable() -> DependencyGraph:
    raise OSError("no such place")


def overlapping() -> DependencyGraph:
    return DependencyGraph([*schemas, schema("context(x)")])
