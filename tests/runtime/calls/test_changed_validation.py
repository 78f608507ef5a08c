"""Values are validated once: a rerun begins with validated values, and validates again only what has a new schema."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from clew import Context, Engine, Graph, MemoryStore, SQLiteStore, node
from clew.errors import InputError, OutputError
from clew.stores import Store
from tests.runtime.calls.test_changed_graphs import both, check, simple


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    found: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield found
    found.close()


class Before(pydantic.BaseModel):
    euros: int
    cents: int = 0

    @pydantic.field_validator("euros", mode="before")
    @classmethod
    def in_thousands(cls, value: Any) -> int:
        return int(value) * 1000


class After(pydantic.BaseModel):
    euros: int
    cents: int = 0

    @pydantic.field_validator("euros")
    @classmethod
    def in_thousands(cls, value: int) -> int:
        return value * 1000


CONVERT = simple("convert", "euros", "cents", "{} * 100")


@pytest.mark.parametrize("schema", [Before, After])
def test_a_rerun_begins_with_the_validated_values(store: Store, schema: type) -> None:
    engine = Engine(Graph([CONVERT], state=schema), store=store)
    first = engine.run({"euros": 2}, run_id="r")
    again = engine.rerun("r", run_id="s")
    assert dict(again.values) == dict(first.values) == {"euros": 2000, "cents": 200_000}
    assert again.metrics.total_cache_hits == 1
    assert engine.rerun("s", force=["convert"])["cents"] == 200_000
    assert engine.rerun("s", values={"euros": 3})["cents"] == 300_000  # a new value is validated


@pytest.mark.parametrize("schema", [Before, After])
def test_an_instance_has_been_validated(store: Store, schema: Any) -> None:
    engine = Engine(Graph([CONVERT], state=schema), store=store)
    assert engine.run(schema(euros=2))["cents"] == 200_000
    assert engine.start(schema(euros=2)).result()["cents"] == 200_000
    assert engine.run(schema(euros=2), thread="t")["cents"] == 200_000
    assert engine.run(schema(euros=3), thread="t")["cents"] == 300_000


def test_an_instance_for_a_child_has_been_validated() -> None:
    child = Graph([CONVERT], state=After, name="child")

    @node(output="cents")
    def pay(euros: int, ctx: Context) -> Any:
        return ctx.run(child, After(euros=euros))["cents"]

    engine = Engine(Graph([pay]))
    assert engine.run({"euros": 2}, run_id="r")["cents"] == 200_000
    assert engine.replay("r").ok


class Revalidated(After):
    model_config = pydantic.ConfigDict(revalidate_instances="always")


class Strict(msgspec.Struct):
    euros: int
    cents: int = 0


def test_other_instances_are_validated() -> None:
    assert Graph([CONVERT], state=Revalidated).run(Revalidated(euros=2))["euros"] == 2_000_000
    with pytest.raises(InputError):  # making a struct checks nothing
        Graph([CONVERT], state=Strict).run(Strict(euros="two"))


# -- changed schemas -------------------------------------------------------------------------------------------


def priced(version: Any, **fields: Any) -> Graph:
    model = pydantic.create_model("Prices", cents=(int, ...), label=(str, ""), **fields)
    nodes = [simple("convert", "cents", "price", "{} * 2 / 3"), simple("show", "price", "label", "repr({})")]
    return Graph(nodes, state=model, name="prices")


def by_type(version: int) -> Graph:
    return priced(version, price=(float if version == 1 else str | float, 0))


def by_constraint(version: int) -> Graph:
    return priced(version, price=(Annotated[float, pydantic.Field(gt=version)], 0))


def by_annotated_validator(version: int) -> Graph:
    rounded = pydantic.BeforeValidator(lambda value: round(value, version))
    return priced(version, price=(Annotated[float, rounded], 0))


def by_config(version: int) -> Graph:
    class Prices(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(coerce_numbers_to_str=version == 2)
        cents: int
        price: str | float = 0
        label: str = ""

    nodes = [simple("convert", "cents", "price", "{} * 2"), simple("show", "price", "label", "repr({})")]
    return Graph(nodes, state=Prices)


def by_validator(version: int) -> Graph:
    class Prices(pydantic.BaseModel):
        cents: int
        price: float = 0
        label: str = ""

        @pydantic.field_validator("price")
        @classmethod
        def scaled(cls, value: float) -> float:
            return value * version

    nodes = [simple("convert", "cents", "price", "{} * 2"), simple("show", "price", "label", "repr({})")]
    return Graph(nodes, state=Prices)


def in_a_subgraph(version: int) -> Graph:
    class Inner(pydantic.BaseModel):
        cents: int
        price: float = 0

        @pydantic.field_validator("price")
        @classmethod
        def scaled(cls, value: float) -> float:
            return value * version

    inner = Graph([simple("convert", "cents", "price", "{} * 2")], state=Inner, name="inner")
    return Graph([inner.as_node(outputs=("price",)), simple("show", "price", "label", "repr({})")])


def of_a_struct(version: int) -> Graph:
    # msgspec reads an int as a float, so its type changes
    made = msgspec.defstruct(
        "Prices", [("cents", int), ("price", int if version == 1 else float, 0), ("label", str, "")]
    )
    nodes = [simple("convert", "cents", "price", "{} * 2"), simple("show", "price", "label", "repr({})")]
    return Graph(nodes, state=made)


@pytest.mark.parametrize(
    "make",
    [
        by_type,
        by_constraint,
        by_annotated_validator,
        by_config,
        by_validator,
        in_a_subgraph,
        of_a_struct,
    ],
)
def test_results_of_a_changed_field_are_computed_again(store: Store, make: Callable[[int], Graph]) -> None:
    check(store, make, {"cents": 100})


def test_a_result_that_the_new_schema_rejects_fails(store: Store) -> None:
    def make(version: int) -> Graph:
        return priced(version, price=(Annotated[float, pydantic.Field(lt=100 if version == 1 else 10)], 0))

    with pytest.raises(OutputError):
        both(store, make, {"cents": 100})


@pytest.mark.parametrize("what", ["nothing", "other field", "docstring", "order"])
def test_results_of_an_unchanged_field_are_reused(store: Store, what: str) -> None:
    def make(version: int) -> Graph:
        is_new = version == 2

        class Prices(pydantic.BaseModel):
            cents: int
            price: float = 0
            label: str = ""

            @pydantic.field_validator("price")
            @classmethod
            def doubled(cls, value: float) -> float:
                return value * 2

        extra: dict[str, Any] = {"more": (int, 5)} if is_new and what == "other field" else {}
        model = pydantic.create_model("Prices", __base__=Prices, **extra)
        if is_new and what == "docstring":
            model.__doc__ = "What is paid."
        nodes = [simple("convert", "cents", "price"), simple("show", "price", "label", "repr({})")]
        return Graph(nodes[::-1] if is_new and what == "order" else nodes, state=model)

    again, fresh = both(store, make, {"cents": 100})
    assert dict(again.values) == dict(fresh.values)
    assert again.metrics.total_cache_hits == 2


def test_a_changed_input_field_is_validated_again(store: Store) -> None:
    def make(version: int) -> Graph:
        model = pydantic.create_model("Input", cents=(int if version == 1 else float, ...), label=(str, ""))
        return Graph([simple("show", "cents", "label", "repr({})")], state=model)

    assert check(store, make, {"cents": 100}) == 0


def test_a_reduced_field_of_an_unchanged_schema_is_reused(store: Store) -> None:
    class Rows(pydantic.BaseModel):
        n: int
        rows: Annotated[list[int], operator.add] = []

    def make(version: int) -> Graph:
        return Graph([simple("one", "n", "rows", "[{}]")], state=Rows)

    assert check(store, make, {"n": 1}) == 1
