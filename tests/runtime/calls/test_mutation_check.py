"""A node that changes its inputs in place: lengths are always compared, contents with `check_mutation=True`."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any

import pytest

from clew import Context, Engine, Graph, Send, node, route
from clew.errors import MutationError


def checked(function: Any, value: Any, **options: Any) -> Any:
    return Graph([node(function, name="f", output="n", **options)]).run(
        {"docs": value}, check_mutation=True, check=False
    )


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
    assert named(result.error, "docs", "f", "f#0")


def named(error: BaseException | None, value: str, name: str, path: str) -> bool:
    """Whether an error names value, node and path."""
    told = f"{value!r} changed while node {name!r} ran at {path}"
    return isinstance(error, MutationError) and told in str(error)


def test_a_change_that_keeps_the_length_is_only_seen_with_the_check() -> None:
    def turn(docs: list[int]) -> int:
        docs.reverse()
        return 1

    assert Graph([node(turn, name="f")]).run(docs=[1, 2]).status == "completed"
    assert isinstance(checked(turn, [1, 2]).error, MutationError)


def test_a_node_that_reads_the_whole_state_is_named_too() -> None:
    @node(output="n")
    def reads_all(state: Any) -> int:
        state["docs"].append(1)
        return 1

    result = Graph([reads_all]).run({"docs": [], "other": [1]}, check_mutation=True, check=False)
    assert named(result.error, "docs", "reads_all", "reads_all#0")


def test_a_node_with_a_schema_that_reads_the_whole_state_is_named_too() -> None:
    @dataclasses.dataclass
    class State:
        docs: list[int]
        n: int = 0

    @node(output="n")
    async def reads_all(state: State) -> int:
        state.docs.append(1)
        return 1

    result = Graph([reads_all], state=State).run({"docs": []}, check_mutation=True, check=False)
    assert named(result.error, "docs", "reads_all", "reads_all#0")


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

    __hash__ = None


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

        __hash__ = None

    assert checked(lambda docs: 1, Odd()).status == "completed"


def test_nodes_beside_each_other_are_checked() -> None:
    nodes = [node(sync, name="f", output="f"), node(lambda docs: 1, name="g", output="g")]
    assert isinstance(Graph(nodes).run({"docs": []}, check_mutation=True, check=False).error, MutationError)


# -- the guard, which is always on -----------------------------------------------------------------------


def quick(docs: Any) -> int:
    docs.append(1)
    return 1


def more_than_one(docs: Any, other: Any) -> int:
    other.append(1)
    return 1


FAMILIES = [*FUNCTIONS, quick]


def driven(driver: str, graph: Graph, values: dict[str, Any], **options: Any) -> Any:
    """Run a graph in one of the ways in which an item can be called."""
    engine = Engine(graph, **options)
    if driver == "run":
        return engine.run(values, check=False)
    if driver == "arun":
        return asyncio.run(engine.arun(values, check=False))
    run_id = "streamed"
    for _ in engine.stream(values, run_id=run_id, check=False):
        pass
    return engine.result(run_id)


@pytest.mark.parametrize("driver", ["run", "arun", "stream"])
@pytest.mark.parametrize("function", FAMILIES)
def test_a_change_of_length_is_always_noticed(driver: str, function: Any) -> None:
    graph = Graph([node(function, name="f", output="n")])
    assert named(driven(driver, graph, {"docs": []}).error, "docs", "f", "f#0")


@pytest.mark.parametrize("driver", ["run", "arun"])
@pytest.mark.parametrize("function", FAMILIES)
def test_it_is_noticed_beside_other_nodes_and_on_threads(driver: str, function: Any) -> None:
    nodes = [node(function, name="f", output="n"), node(lambda a: a, name="g", output="g")]
    assert named(driven(driver, Graph(nodes), {"docs": [], "a": 1}).error, "docs", "f", "f#0")
    timed = Graph([node(function, name="f", output="n", timeout=60)])
    assert named(driven(driver, timed, {"docs": []}).error, "docs", "f", "f#0")
    with ThreadPoolExecutor(2) as pool:
        assert named(driven(driver, timed, {"docs": []}, executor=pool).error, "docs", "f", "f#0")


class Bag(list[int]):
    """Lies about its length."""

    def __len__(self) -> int:
        return 7


@pytest.mark.parametrize("driver", ["run", "arun"])
@pytest.mark.parametrize(
    "value, change",
    [
        ({"a": 1}, lambda docs: docs.update(b=2)),
        ({1}, lambda docs: docs.add(2)),
        ([1], lambda docs: docs.clear()),
        (Bag([1]), lambda docs: docs.append(2)),
        (Counter("a"), lambda docs: docs.update("b")),
        (defaultdict(list), lambda docs: docs["a"]),
    ],
    ids=["dict", "set", "list", "subclass", "counter", "defaultdict"],
)
def test_every_container_is_watched(driver: str, value: Any, change: Any) -> None:
    graph = Graph([node(lambda docs: change(docs), name="f", output="n")])
    assert isinstance(driven(driver, graph, {"docs": copy(value)}).error, MutationError)


def test_the_input_that_changed_is_named_among_several() -> None:
    result = Graph([node(more_than_one, name="f", output="n")]).run({"docs": [1], "other": []}, check=False)
    assert named(result.error, "other", "f", "f#0")


@pytest.mark.parametrize("driver", ["run", "arun", "stream"])
@pytest.mark.parametrize("kind", ["sync", "async", "with context"])
def test_it_is_noticed_when_the_node_raised_and_there_is_no_retry(driver: str, kind: str) -> None:
    calls = []

    def spoil(docs: list[int]) -> int:
        calls.append(1)
        docs.append(1)
        raise OSError("gone")

    async def aspoil(docs: list[int]) -> int:
        return spoil(docs)

    def cspoil(docs: list[int], ctx: Context) -> int:
        return spoil(docs)

    function = {"sync": spoil, "async": aspoil, "with context": cspoil}[kind]
    graph = Graph([node(function, name="f", output="n", retry=3)])
    error = driven(driver, graph, {"docs": []}).error
    assert named(error, "docs", "f", "f#0")
    assert isinstance(error.__cause__, OSError)
    assert calls == [1]


def test_it_is_noticed_when_the_node_asked() -> None:
    def ask(docs: list[int], ctx: Context) -> Any:
        docs.append(1)
        return ctx.interrupt("?")

    assert isinstance(Graph([node(ask, name="f")]).run({"docs": []}, check=False).error, MutationError)


def test_an_error_of_a_node_that_changed_nothing_is_its_own() -> None:
    def fail(docs: list[int]) -> int:
        raise OSError("gone")

    assert isinstance(Graph([node(fail, name="f")]).run({"docs": [1]}, check=False).error, OSError)
    assert isinstance(
        asyncio.run(Graph([node(fail, name="f")]).arun({"docs": [1]}, check=False)).error, OSError
    )


def test_bound_values_and_defaults_are_not_watched() -> None:
    log: list[int] = []

    def use(log: list[int], mine: list[int] = [], *, a: int) -> int:  # noqa: B006
        log.append(a)
        mine.append(a)
        return a

    graph = Graph([node(use, name="f", output="n")]).bind(log=log)
    for options in ({}, {"check_mutation": True}):
        assert graph.run({"a": 1}, **options).status == "completed"
    assert log == [1, 1]


def test_a_payload_is_watched() -> None:
    @route(targets=["work"])
    def scatter(docs: list[int]) -> list[Send]:
        return [Send("work", {"item": [doc]}) for doc in docs]

    @node(output="n")
    def work(item: list[int]) -> int:
        item.append(1)
        return 1

    result = Graph([scatter, work]).run({"docs": [5]}, check=False)
    assert named(result.error, "item", "work", "work#0[0]")


def test_of_a_whole_state_sixty_four_fields_are_watched() -> None:
    @node(output="n")
    def reads_all(state: Any) -> int:
        state[state["which"]].append(1)
        return 1

    values: dict[str, Any] = {"which": "v0", **{f"v{i}": [] for i in range(100)}}
    assert isinstance(Graph([reads_all]).run(values, check=False).error, MutationError)
    assert isinstance(Graph([reads_all]).run({**values, "which": "v62"}, check=False).error, MutationError)
    assert Graph([reads_all]).run({**values, "which": "v63"}).status == "completed"


def test_with_the_check_a_list_that_cannot_be_compared_is_still_guarded() -> None:
    assert isinstance(checked(quick, [threading.Lock()]).error, MutationError)


def test_a_node_inside_a_subgraph_is_guarded() -> None:
    inner = Graph([node(quick, name="f", output="n")], name="inner")
    assert named(Graph([inner.as_node()]).run({"docs": []}, check=False).error, "docs", "f", "inner#0/f#0")


def test_what_a_node_did_not_change_is_not_held_against_it_when_another_did() -> None:
    """The message says when, and not who: beside others nobody can tell."""
    both = threading.Barrier(2)

    def one(docs: list[int]) -> int:
        both.wait(60)
        docs.append(1)
        both.wait(60)
        return 1

    def other(docs: list[int]) -> int:
        both.wait(60)
        both.wait(60)
        return 1

    result = Graph([node(one), node(other)]).run({"docs": []}, check=False)
    assert named(result.error, "docs", "one", "one#0")
    beside = result.failures[1].error
    assert named(beside, "docs", "other", "other#0")


def test_a_replay_reports_a_node_that_changes_its_input_now() -> None:
    changes = []

    def f(docs: list[int]) -> int:
        docs.extend(changes)
        return 1

    engine = Engine(Graph([node(f, name="f")]))
    engine.run({"docs": []}, run_id="r")
    changes.append(1)
    (found,) = engine.replay("r", strict=False).divergences
    assert (found.kind, found.node) == ("error", "f")
