"""`check_mutation=True`: a computor that modifies an input raises an error, and nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from clew import DependencyGraph, Unchanged, schema
from clew.errors import DependencyError, MutationError
from clew.incremental import NodeSchema


def append(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    inputs[1].append(3)
    return inputs[1]


async def append_later(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    await asyncio.sleep(0)
    return append(inputs, old, bindings)


def deferred(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    """No async function, but what it returns is awaited."""
    return append_later(inputs, old, bindings)


def future(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    answer = asyncio.get_running_loop().create_future()
    answer.set_result(append(inputs, old, bindings))
    return answer


def a_graph(computor: Callable[..., Any], *more: NodeSchema, check_mutation: bool = True) -> DependencyGraph:
    schemas = [schema("f(x)", ["name", "items(x)"], computor), schema("items(x)"), *more]
    graph = DependencyGraph(schemas, check_mutation=check_mutation)
    graph.set("name", "n")
    graph.set("items(1)", [1, 2])
    return graph


def test_node_and_input_are_named() -> None:
    graph = a_graph(append)
    with pytest.raises(MutationError, match=r"'f\(1\)' modified its input 'items\(1\)' in place") as caught:
        graph.pull("f(1)")
    assert caught.value.__notes__ == ["raised by the computor of 'f(1)' with {'x': 1}"]


def test_nothing_is_stored_and_the_inputs_are_as_they_were() -> None:
    graph = a_graph(append)
    for _ in range(2):
        with pytest.raises(MutationError):
            graph.pull("f(1)")
    assert graph.freshness("f(1)") is None
    assert graph.pull("items(1)") == [1, 2]


def test_without_the_check_the_stored_value_changes() -> None:
    """What the check is for."""
    graph = a_graph(append, check_mutation=False)
    assert graph.pull("f(1)") == graph.pull("items(1)") == [1, 2, 3]


@pytest.mark.parametrize("computor", [append_later, deferred, future])
def test_async_computors(computor: Callable[..., Any]) -> None:
    graph = a_graph(computor)
    with pytest.raises(MutationError, match=r"'f\(1\)' modified its input 'items\(1\)'"):
        asyncio.run(graph.apull("f(1)"))
    assert graph.pull("items(1)") == [1, 2]


def test_async_computors_that_leave_their_inputs_alone() -> None:
    async def sums(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return sum(inputs[1])

    assert asyncio.run(a_graph(sums).apull("f(1)")) == 3


@pytest.mark.parametrize("computor", [append_later, deferred])
def test_an_async_computor_in_a_pull_is_the_usual_mistake(computor: Callable[..., Any]) -> None:
    with pytest.raises(DependencyError, match="is async"):
        a_graph(computor).pull("f(1)")


def test_an_awaitable_that_cannot_be_closed() -> None:
    class Later:
        def __await__(self) -> Any:
            return iter(())

    with pytest.raises(DependencyError, match="is async"):
        a_graph(lambda i, o, b: Later()).pull("f(1)")


@pytest.mark.parametrize(
    "edit",
    [
        lambda items: items.reverse(),
        lambda items: items.append(object()),  # what has no encoding
        lambda items: items.__setitem__(0, True),  # equal to 1, and another value
    ],
)
def test_every_edit_counts(edit: Callable[[list[Any]], Any]) -> None:
    def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        edit(inputs[1])
        return 0

    with pytest.raises(MutationError):
        a_graph(computor).pull("f(1)")


def test_what_is_not_an_edit_of_an_input() -> None:
    def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        bindings.clear()
        items = inputs.pop()
        inputs.clear()
        if old is None:
            return [items]
        old.append(1)
        return Unchanged

    graph = a_graph(computor)
    assert graph.pull("f(1)") == [[1, 2]]
    graph.set("name", "m")
    assert graph.pull("f(1)") == [[1, 2]]


def test_a_computor_that_raises_has_the_word() -> None:
    def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
        inputs[1].clear()
        raise ValueError("no")

    graph = a_graph(computor)
    with pytest.raises(ValueError, match="no"):
        graph.pull("f(1)")
    assert graph.pull("items(1)") == [1, 2]


def test_the_inputs_of_a_pin() -> None:
    graph = a_graph(append, schema("g", ["f(1)"], lambda i, o, b: 0))
    with pytest.raises(MutationError, match=r"'f\(1\)' modified its input"):
        graph.set("g", 5)
    assert graph.freshness("g") is None


def test_schemas_are_not_touched_by_it() -> None:
    schemas = [schema("f", ["s"], lambda i, o, b: i[0].append(1))]
    graph = DependencyGraph(schemas, check_mutation=True)
    assert graph.schemas == tuple(schemas)
    careless = DependencyGraph(schemas)
    careless.set("s", [])
    assert careless.pull("f") is None
