"""`check_mutation=True` names the node and the value that it changed in place."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from clew import Context, Graph, node
from clew.errors import MutationError


def checked(function: Any, value: Any, **options: Any) -> Any:
    return Graph([node(function, name="f", output="n", **options)]).run({"docs": value}, check_mutation=True)


def sync(docs: list[int]) -> int:
    docs.append(1)
    return 1


async def asynchronous(docs: list[int]) -> int:
    await asyncio.sleep(0)
    docs.append(1)
    return 1


def generator(docs: list[int]) -> Iterator[int]:
    yield 1
    docs.append(1)


async def async_generator(docs: list[int]) -> AsyncIterator[int]:
    yield 1
    docs.append(1)


def keyword(*, docs: list[int]) -> int:
    docs.append(1)
    return 1


def with_context(docs: list[int], ctx: Context) -> int:
    docs.append(1)
    return 1


FUNCTIONS = [sync, asynchronous, generator, async_generator, keyword, with_context]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_node_that_changes_its_input_is_named(function: Any) -> None:
    result = checked(function, [])
    assert isinstance(result.error, MutationError)
    assert str(result.error).startswith("node 'f' at f#0 changed its input 'docs' in place; work on a copy")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_the_check_nothing_is_said(function: Any) -> None:
    assert Graph([node(function, name="f", output="n")]).run(docs=[]).status == "completed"


def test_a_node_that_reads_the_whole_state_is_named_too() -> None:
    @node(output="n")
    def reads_all(state: Any) -> int:
        state["docs"].append(1)
        return 1

    result = Graph([reads_all]).run({"docs": [], "other": [1]}, check_mutation=True)
    assert "node 'reads_all' at reads_all#0 changed its input 'docs' in place" in str(result.error)


def test_a_node_with_a_schema_that_reads_the_whole_state_is_named_too() -> None:
    @dataclasses.dataclass
    class State:
        docs: list[int]
        n: int = 0

    @node(output="n")
    async def reads_all(state: State) -> int:
        state.docs.append(1)
        return 1

    result = Graph([reads_all], state=State).run({"docs": []}, check_mutation=True)
    assert "changed its input 'docs' in place" in str(result.error)


def test_a_node_that_leaves_its_inputs_alone_passes() -> None:
    def good(docs: list[int]) -> list[int]:
        return [*docs, 1]

    async def agood(docs: list[int]) -> list[int]:
        return [*docs, 1]

    assert checked(good, [5])["n"] == checked(agood, [5])["n"] == [5, 1]


class Client:
    """Can be copied and compared, and not encoded."""

    def __init__(self) -> None:
        self.calls = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Client) and other.calls == self.calls

    __hash__ = None  # type: ignore[assignment]


def test_what_cannot_be_encoded_is_compared_with_a_copy() -> None:
    def use(docs: Client) -> None:
        docs.calls += 1

    assert isinstance(checked(use, Client()).error, MutationError)
    assert checked(lambda docs: 1, Client()).status == "completed"


def test_what_cannot_be_encoded_any_more_was_changed() -> None:
    def spoil(docs: list[Any]) -> None:
        docs.append(object())

    assert isinstance(checked(spoil, []).error, MutationError)


def test_what_can_be_neither_encoded_nor_copied_is_not_checked() -> None:
    assert checked(lambda docs: 1, threading.Lock()).status == "completed"


def test_what_cannot_be_compared_is_not_checked() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    assert checked(lambda docs: 1, Odd()).status == "completed"


def test_nodes_beside_each_other_are_checked() -> None:
    nodes = [node(sync, name="f", output="f"), node(lambda docs: 1, name="g", output="g")]
    assert isinstance(Graph(nodes).run({"docs": []}, check_mutation=True).error, MutationError)
