"""What a function reads, as its signature says."""

from __future__ import annotations

import copy
import functools
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Optional

import pytest

from clew.errors import GraphError
from clew.graph import ABSENT, MISSING, Context, Param
from clew.graph.signature import mode_of, name_of_function, read_params, read_returns
from tests.messages import mentions

if TYPE_CHECKING:
    from nowhere import Unknown

    from clew.graph import Context as RunContext


def params(func: Callable[..., Any]) -> tuple[Param, ...]:
    return read_params(func, "node 'f'")


def kinds(func: Callable[..., Any]) -> list[str]:
    return [p.kind for p in params(func)]


@pytest.mark.parametrize("mark", [MISSING, ABSENT])
def test_a_mark_is_copied_and_pickled_to_itself(mark: Any) -> None:
    assert copy.deepcopy(mark) is mark
    assert pickle.loads(pickle.dumps(mark)) is mark


def test_a_mark_shows_its_name() -> None:
    assert repr(MISSING) == "MISSING"


def test_parameters_are_values_that_are_read() -> None:
    def f(query: str, *, k: int = 3) -> None: ...

    assert params(f) == (
        Param("query", "query", "value", keyword_only=False, annotation=str),
        Param("k", "k", "value", keyword_only=True, default=3, annotation=int),
    )


def test_positional_only_parameters_are_values() -> None:
    def f(a, /, b): ...

    assert [(p.name, p.keyword_only) for p in params(f)] == [("a", False), ("b", False)]


def test_a_parameter_named_state_is_the_whole_state() -> None:
    def f(state: dict[str, Any]) -> None: ...

    assert kinds(f) == ["state"]


class OwnContext(Context):
    """A context with more to it."""


def by_class(c: Context) -> None: ...
def by_subclass(c: OwnContext) -> None: ...
def by_union(c: Context | None) -> None: ...
def by_optional(c: Optional[Context]) -> None: ...  # noqa: UP045
def by_unresolved(c: RunContext) -> None: ...
def by_name(ctx): ...
def by_unresolved_union(c: Unknown | Context) -> None: ...
def by_module(c: clew.Context) -> None: ...  # noqa: F821


@pytest.mark.parametrize(
    "func", [by_class, by_subclass, by_union, by_optional, by_name, by_unresolved_union, by_module]
)
def test_a_parameter_annotated_context_is_the_context(func: Callable[..., Any]) -> None:
    assert kinds(func) == ["context"]


def test_another_name_for_context_that_cannot_be_found_is_a_value() -> None:
    assert kinds(by_unresolved) == ["value"]


def test_ctx_annotated_otherwise_is_a_value() -> None:
    def f(ctx: int) -> None: ...

    assert kinds(f) == ["value"]


def test_a_class_with_context_in_its_name_is_a_value() -> None:
    def f(c: Unknown[MyContext]) -> None: ...  # noqa: F821

    assert kinds(f) == ["value"]


def test_an_annotation_that_cannot_be_found_counts_as_any() -> None:
    def f(a: Unknown, b: int) -> None: ...

    assert [(p.annotation, p.hint) for p in params(f)] == [(Any, "Unknown"), (int, "")]


def test_an_annotation_inside_a_generic_that_cannot_be_found_counts_as_any() -> None:
    def f(a): ...

    f.__annotations__ = {"a": list["Unknown"]}
    assert [(p.annotation, p.hint) for p in params(f)] == [(Any, "list['Unknown']")]


def test_annotations_are_found_in_the_closure() -> None:
    class Local: ...

    def f(a: Local) -> Local:
        return Local()

    assert (params(f)[0].annotation, read_returns(f)) == (Local, Local)


def test_a_closure_that_is_not_filled_yet_is_no_hindrance() -> None:
    def f(a: int) -> int:
        return later

    assert params(f)[0].annotation is int
    later = 1
    assert f(0) == later


def test_a_return_annotation_that_cannot_be_found_counts_as_any() -> None:
    def f() -> Unknown: ...

    assert read_returns(f) is Any


def test_without_return_annotation_any() -> None:
    assert read_returns(lambda: None) is Any


class Service:
    def method(self, query: str) -> str:
        return query

    def __call__(self, query: str) -> str:
        return query

    async def later(self, query: str) -> str:
        return query


@pytest.mark.parametrize("func", [Service().method, Service()])
def test_methods_and_callable_objects_have_no_self(func: Callable[..., Any]) -> None:
    assert params(func) == (Param("query", "query", "value", annotation=str),)


def both(a: int, b: str, c: float = 1.0) -> None: ...


def test_what_a_partial_has_bound_by_position_is_no_input() -> None:
    assert params(functools.partial(both, 1)) == (
        Param("b", "b", "value", annotation=str),
        Param("c", "c", "value", default=1.0, annotation=float),
    )


def test_what_a_partial_has_bound_by_name_is_no_input() -> None:
    assert params(functools.partial(both, b="x")) == (
        Param("a", "a", "value", annotation=int),
        Param("c", "c", "value", keyword_only=True, default=1.0, annotation=float),
    )


def test_a_wrapped_function_shows_what_it_wraps() -> None:
    @functools.wraps(both)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    assert [p.annotation for p in params(wrapper)] == [int, str, float]


def test_a_builtin_function_with_signature_is_read() -> None:
    assert params(len) == (Param("obj", "obj", "value"),)


def test_a_builtin_function_without_signature_is_refused() -> None:
    with pytest.raises(GraphError, match="'f'"):
        params(max)


def test_star_args_are_refused() -> None:
    with pytest.raises(GraphError) as caught:
        params(lambda *args: args)
    assert mentions(str(caught.value), "'f'", "*args")


def test_star_star_kwargs_are_refused() -> None:
    with pytest.raises(GraphError) as caught:
        params(lambda **options: options)
    assert mentions(str(caught.value), "'f'", "**options", "'state'")


def test_a_mutable_default_is_kept_as_it_is() -> None:
    default: list[int] = []
    assert params(lambda a=default: a)[0].default is default


def test_a_mutable_default_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        params(lambda a=[threading.Lock()]: a)  # noqa: B008
    assert mentions(str(caught.value), "'f'", "'a'", "'_thread.lock'", "None")


async def coroutine() -> None: ...
async def async_generator() -> AsyncIterator[int]:
    yield 1


def generator() -> Iterator[int]:
    yield 1


@functools.wraps(coroutine)
def around_a_coroutine() -> Any:
    return coroutine()


@pytest.mark.parametrize(
    "func, mode",
    [
        (both, "sync"),
        (coroutine, "async"),
        (async_generator, "async_generator"),
        (generator, "generator"),
        (around_a_coroutine, "async"),
        (functools.partial(coroutine), "async"),
        (Service().later, "async"),
        (Service(), "sync"),
        (len, "sync"),
        (functools.lru_cache(both), "sync"),
    ],
)
def test_how_a_function_is_run(func: Callable[..., Any], mode: str) -> None:
    assert mode_of(func) == mode


@pytest.mark.parametrize(
    "func, name",
    [(both, "both"), (functools.partial(both, 1), "both"), (Service(), None), (lambda: 0, None)],
)
def test_what_a_function_is_called(func: Callable[..., Any], name: str | None) -> None:
    assert name_of_function(func) == name
