"""State schemas: the same rules for a TypedDict, a dataclass, a pydantic model and a msgspec struct."""

from __future__ import annotations

import copy
import dataclasses
import functools
import operator
import pickle
import sys
import types
import uuid
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from clew.errors import GraphError, StateError, UnknownValueError
from clew.state.reducers import Overwrite, append, merge
from clew.state.schema import Field, StateSchema, read_schema

# -- one schema, four times ---------------------------------------------------------------------------------


def new_id() -> str:
    return uuid.uuid4().hex


def longest(current: str, update: str) -> str:
    return max(current, update, key=len)


class Query(msgspec.Struct):
    text: str


class TypedState(TypedDict, total=False):
    query: str
    retries: int
    note: str | None
    log: Annotated[list[str], operator.add]
    refs: Annotated[dict[str, int], merge]
    seen: Annotated[list[int], append]
    best: Annotated[str, longest]


@dataclasses.dataclass
class DataState:
    query: str
    retries: int = 0
    note: str | None = None
    trace: str = dataclasses.field(default_factory=new_id)
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=lambda: ["begin"])
    refs: Annotated[dict[str, int], merge] = dataclasses.field(kw_only=True)
    seen: Annotated[list[int], append] = dataclasses.field(kw_only=True)
    best: Annotated[str, longest] = ""

    def shout(self) -> str:
        return self.query.upper()


class ModelState(pydantic.BaseModel):
    query: str
    retries: int = pydantic.Field(default=0, ge=0, alias="retryCount")
    note: str | None = None
    trace: str = pydantic.Field(default_factory=new_id)
    log: Annotated[list[str], operator.add] = ["begin"]  # pydantic copies it
    refs: Annotated[dict[str, int], merge]
    seen: Annotated[list[int], append]
    best: Annotated[str, longest] = ""

    def shout(self) -> str:
        return self.query.upper()


class StructState(msgspec.Struct):
    query: str
    refs: Annotated[dict[str, int], merge]
    seen: Annotated[list[int], append]
    retries: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(default=0, name="retryCount")
    note: str | None = None
    trace: str = msgspec.field(default_factory=new_id)
    log: Annotated[list[str], operator.add] = msgspec.field(default_factory=lambda: ["begin"])
    best: Annotated[str, longest] = ""

    def shout(self) -> str:
        return self.query.upper()


CLASSES = [DataState, ModelState, StructState]
ALL = [TypedState, *CLASSES]
CHECKED = [ModelState, StructState]
every_kind = pytest.mark.parametrize("cls", ALL)
every_class = pytest.mark.parametrize("cls", CLASSES)
every_checked = pytest.mark.parametrize("cls", CHECKED)


@every_kind
def test_fields_have_bare_types_and_reducers(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.cls is cls
    fields = {name: (field.type, field.reducer) for name, field in schema.fields.items() if name != "trace"}
    assert fields == {
        "query": (str, None),
        "retries": (int, None),
        "note": (str | None, None),
        "log": (list[str], operator.add),
        "refs": (dict[str, int], merge),
        "seen": (list[int], append),
        "best": (str, longest),
    }
    assert all(field.name == name and isinstance(field, Field) for name, field in schema.fields.items())


@every_kind
def test_fields_cannot_be_changed(cls: type) -> None:
    with pytest.raises(TypeError):
        read_schema(cls).fields["more"] = None


@every_kind
def test_a_class_is_read_once_and_says_what_it_is(cls: type) -> None:
    assert read_schema(cls) is read_schema(cls)
    assert cls.__name__ in repr(read_schema(cls))


@every_class
def test_defaults_and_empty_values_seed_the_state(cls: type) -> None:
    seed = read_schema(cls).defaults(given={"query"})
    trace = seed.pop("trace")
    assert len(trace) == 32
    assert seed == {"retries": 0, "note": None, "log": ["begin"], "refs": {}, "seen": [], "best": ""}


def test_a_typed_dict_seeds_its_reduced_fields_only() -> None:
    assert read_schema(TypedState).defaults(()) == {"log": [], "refs": {}, "seen": [], "best": ""}


@every_class
def test_given_names_are_not_seeded(cls: type) -> None:
    schema = read_schema(cls)
    assert set(schema.defaults({"trace", "log", "refs"})) == {"retries", "note", "seen", "best"}


@every_class
def test_each_default_is_made_anew(cls: type) -> None:
    schema = read_schema(cls)
    one, two = schema.defaults(()), schema.defaults(())
    assert one["trace"] != two["trace"]
    for name in ("log", "refs", "seen"):
        assert one[name] is not two[name]


@every_kind
def test_a_field_without_default_or_reducer_has_none_to_give(cls: type) -> None:
    field = read_schema(cls).fields["query"]
    assert not field.has_default
    with pytest.raises(GraphError, match=f"'query' of {cls.__name__} has no default"):
        field.default()


@every_kind
def test_an_undeclared_name_is_refused_with_the_nearest(cls: type) -> None:
    schema = read_schema(cls)
    schema.check_name("query", "node 'plan'")
    with pytest.raises(UnknownValueError) as caught:
        schema.check_name("retry", "node 'plan'")
    message = f"node 'plan': the schema {cls.__name__} declares no value 'retry'; did you mean 'retries'?"
    assert str(caught.value) == message
    with pytest.raises(UnknownValueError, match="it declares query, "):
        schema.check_name("zzzzzz", "input")


# -- checking values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [TypedState, DataState])
def test_without_a_checking_library_values_pass_unchanged(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.validates is False
    wrong = object()
    assert schema.validate("retries", wrong) is wrong
    assert schema.validate_update("log", wrong) is wrong
    assert schema.validate_update("log", Overwrite(wrong)) == Overwrite(wrong)


@every_checked
def test_a_wrong_value_is_refused_by_name(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.validates is True
    assert schema.validate("retries", 3) == 3
    assert schema.validate("note", None) is None
    with pytest.raises(ValueError, match=r"^retries: .*integer|^retries: Expected `int`"):
        schema.validate("retries", "many")
    with pytest.raises(ValueError, match=r"^retries: .*greater than or equal to 0|^retries: .*>= 0"):
        schema.validate("retries", -1)


@every_checked
def test_a_wrong_value_deep_inside_is_located(cls: type) -> None:
    with pytest.raises(ValueError, match=r"log\[1\]"):
        read_schema(cls).validate("log", ["a", 2])


def test_pydantic_coerces_and_msgspec_does_not() -> None:
    assert read_schema(ModelState).validate("retries", "3") == 3
    with pytest.raises(ValueError, match="Expected `int`, got `str`"):
        read_schema(StructState).validate("retries", "3")


@every_checked
def test_an_update_is_checked_as_its_reducer_takes_it(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.validate_update("retries", 1) == 1
    assert schema.validate_update("log", ["a"]) == ["a"]
    assert schema.validate_update("refs", {"a": 1}) == {"a": 1}
    assert schema.validate_update("seen", 7) == 7
    assert schema.validate_update("best", 12) == 12, "only longest knows what it takes"
    for name, wrong in {"retries": [], "log": "a", "refs": {"a": "x"}, "seen": [7]}.items():
        with pytest.raises(ValueError, match=f"^{name}"):
            schema.validate_update(name, wrong)


@every_checked
def test_an_overwrite_is_checked_as_a_whole_value(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.validate_update("seen", Overwrite([1])) == Overwrite([1])
    assert schema.validate_update("best", Overwrite("x")) == Overwrite("x")
    for name, wrong in {"seen": 1, "best": 2, "retries": -1}.items():
        with pytest.raises(ValueError, match=f"^{name}"):
            schema.validate_update(name, Overwrite(wrong))


class BoundedModel(pydantic.BaseModel):
    log: Annotated[list[str], operator.add, pydantic.Field(min_length=1, max_length=2)]
    balance: Annotated[int, operator.add, annotated_types.Ge(0)] = 0


class BoundedStruct(msgspec.Struct):
    log: Annotated[list[str], operator.add, msgspec.Meta(min_length=1, max_length=2)]
    balance: Annotated[int, operator.add, msgspec.Meta(ge=0)] = 0


@pytest.mark.parametrize("cls", [BoundedModel, BoundedStruct])
def test_constraints_speak_of_whole_values_not_of_what_is_added(cls: type) -> None:
    schema = read_schema(cls)
    assert schema.validate_update("balance", -5) == -5
    assert schema.validate_update("log", []) == []
    for name, wrong in {"balance": -5, "log": []}.items():
        with pytest.raises(ValueError, match=f"^{name}"):
            schema.validate(name, wrong)


class InnerModel(pydantic.BaseModel):
    code: str


class Nested(msgspec.Struct):
    query: Query | None
    queries: Annotated[list[Query], append]
    loose: Annotated[list, append]
    either: Query | DataState | None = None  # msgspec cannot describe this union
    anything: Any = None


def test_msgspec_keeps_instances_and_converts_mappings() -> None:
    schema, query = read_schema(Nested), Query("x")
    assert schema.validate("query", query) is query
    assert schema.validate("query", {"text": "x"}) == query
    assert schema.validate("queries", [query])[0] is query
    assert schema.validate_update("queries", query) is query
    assert schema.validate_update("loose", "as it is") == "as it is"
    assert schema.validate("either", "as it is") == "as it is"
    assert schema.validate("anything", query) is query
    with pytest.raises(ValueError, match=r"^queries: Expected `str`, got `int` - at `queries.text`"):
        schema.validate_update("queries", {"text": 1})


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Rich(pydantic.BaseModel):
    """A model that uses more of pydantic."""

    model_config = pydantic.ConfigDict(
        arbitrary_types_allowed=True, str_strip_whitespace=True, alias_generator=str.upper, extra="allow"
    )
    name: str
    count: int = pydantic.Field(default=1, validation_alias="howMany")
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    inner: InnerModel | None = None
    raw: Query | None = None
    total: Annotated[int, operator.add] = 0
    _cache: dict[str, int] = pydantic.PrivateAttr(default_factory=dict)
    _unset: int = pydantic.PrivateAttr()

    @pydantic.field_validator("count", "total")
    @classmethod
    def even(cls, value: int, info: pydantic.ValidationInfo) -> int:
        assert info.data == {}
        if value % 2 and value != 1:
            raise ValueError(f"{info.field_name} is odd")
        return value

    @pydantic.field_validator("*", mode="before")
    @staticmethod
    def no_ellipsis(value: Any) -> Any:
        return None if value is ... else value

    @pydantic.model_validator(mode="after")
    def whole(self) -> Rich:
        raise ValueError("a partial state is no model")


def test_pydantic_fields_are_checked_as_the_model_would() -> None:
    schema = read_schema(Rich)
    inner, query = InnerModel(code="a"), Query("x")
    assert schema.validate("name", "  Ann ") == "Ann"
    assert schema.validate("count", "4") == 4
    assert schema.validate("inner", inner) is inner
    assert schema.validate("inner", {"code": "a"}) == inner
    assert schema.validate("inner", ...) is None
    assert schema.validate("raw", query) is query
    assert schema.validate("pet", {"kind": "dog"}) == Dog(kind="dog")
    assert schema.validate_update("total", 3) == 3
    with pytest.raises(ValueError, match=r"^count: Value error, count is odd; got 3 \(int\)$"):
        schema.validate("count", 3)
    with pytest.raises(ValueError, match=r"^pet: Input tag 'cow'"):
        schema.validate("pet", {"kind": "cow"})
    with pytest.raises(
        ValueError, match=r"^inner.code: Input should be a valid string; got \[0, 1, .*\.\.\. \(list\)$"
    ):
        schema.validate("inner", {"code": list(range(100))})


def test_private_attributes_and_extras_of_a_model() -> None:
    schema = read_schema(Rich)
    state = schema.instance({"name": "x"})
    assert state._cache == {}
    with pytest.raises(AttributeError):
        _ = state._unset
    given = Rich.model_construct(NAME="x", undeclared=1)
    assert schema.dump(given)["undeclared"] == 1


# -- instances ----------------------------------------------------------------------------------------------

VALUES = {"query": "why", "retries": 1, "log": ["a"], "undeclared": 0}


@every_class
def test_an_instance_is_one_of_the_class(cls: type) -> None:
    state = read_schema(cls).instance(VALUES)
    assert isinstance(state, cls)
    assert (state.query, state.retries, state.shout()) == ("why", 1, "WHY")
    assert state.log is VALUES["log"]
    assert (type(state).__name__, type(state).__module__) == (cls.__name__, cls.__module__)


@every_class
def test_an_instance_is_read_only(cls: type) -> None:
    state = read_schema(cls).instance(VALUES)
    with pytest.raises(AttributeError, match="read-only, so 'query'"):
        state.query = "how"
    with pytest.raises(AttributeError, match="the state is read-only"):
        del state.query
    assert state.query == "why"


@every_class
def test_a_missing_value_says_so(cls: type) -> None:
    state = read_schema(cls).instance(VALUES)
    with pytest.raises(AttributeError, match="no value 'refs'"):
        _ = state.refs
    with pytest.raises(AttributeError, match="has no attribute 'undeclared'"):
        _ = state.undeclared


@every_class
def test_an_instance_shows_what_it_has(cls: type) -> None:
    shown = repr(read_schema(cls).instance(VALUES))
    assert shown.startswith(f"{cls.__name__}(query='why'")
    assert "log=['a']" in shown
    assert "refs" not in shown


@every_class
def test_an_instance_can_be_pickled_and_copied(cls: type) -> None:
    schema = read_schema(cls)
    state = schema.instance(VALUES)
    for twin in (pickle.loads(pickle.dumps(state)), copy.copy(state), copy.deepcopy(state)):
        assert isinstance(twin, cls)
        assert schema.dump(twin) == schema.dump(state)
        with pytest.raises(AttributeError, match="read-only"):
            twin.query = "how"


@every_class
def test_dump_gives_back_what_the_instance_holds(cls: type) -> None:
    schema = read_schema(cls)
    complete = {**schema.defaults(()), "query": "why"}
    assert schema.dump(schema.instance(complete)) == complete


@every_kind
def test_dump_takes_a_mapping_as_it_is(cls: type) -> None:
    dumped = read_schema(cls).dump(types.MappingProxyType(VALUES))
    assert dumped == VALUES
    assert type(dumped) is dict


@every_kind
def test_dump_refuses_a_stranger(cls: type) -> None:
    with pytest.raises(
        StateError, match=rf"state of {cls.__name__}: expected an instance or a mapping, got 3 \(int\)"
    ):
        read_schema(cls).dump(3)


def test_dump_of_the_users_own_instances() -> None:
    refs, seen = {"a": 1}, [1]
    assert read_schema(DataState).dump(DataState("q", refs=refs, seen=seen))["refs"] is refs
    assert read_schema(StructState).dump(StructState("q", refs, seen))["seen"] is seen
    assert (
        read_schema(ModelState).dump(ModelState(query="q", refs=refs, seen=seen, retryCount=2))["retries"]
        == 2
    )


def test_a_typed_dict_gives_a_read_only_mapping() -> None:
    state = read_schema(TypedState).instance({"query": "why"})
    assert isinstance(state, Mapping)
    assert state == {"query": "why"}
    with pytest.raises(TypeError):
        state["query"] = "how"


def test_dataclass_replace_gives_a_plain_instance() -> None:
    schema = read_schema(DataState)
    state = schema.instance({**schema.defaults(()), "query": "why"})
    other = dataclasses.replace(state, query="how")
    other.query += "?"
    assert (type(other), other.query) == (DataState, "how?")


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: int
    b: int = 2


class FrozenStruct(msgspec.Struct, frozen=True):
    a: int
    b: int = 2

    def __post_init__(self) -> None:
        raise AssertionError("a state is not validated when it is shown")


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    a: int
    b: int = 2


@pytest.mark.parametrize("cls", [FrozenSlots, FrozenStruct, FrozenModel])
def test_frozen_classes_say_the_same(cls: type) -> None:
    state = read_schema(cls).instance({"b": 3})
    assert state.b == 3
    with pytest.raises(AttributeError, match="the state is read-only"):
        state.b = 4
    with pytest.raises(AttributeError, match=r"has no value 'a'.*binds it"):
        _ = state.a


class Fallback:
    def __getattr__(self, name: str) -> str:
        return f"<{name}>"


@dataclasses.dataclass
class WithFallback(Fallback):
    a: int


def test_a_class_with_its_own_getattr_keeps_it() -> None:
    state = read_schema(WithFallback).instance({})
    assert state.other == "<other>"
    with pytest.raises(AttributeError, match="has no value 'a'"):
        _ = state.a


# -- reading annotations ------------------------------------------------------------------------------------


class Parent(TypedDict):
    base: int
    log: Annotated[list[str], operator.add]


class Child(Parent, total=False):
    inside: NotRequired[Annotated[list[int], append]]
    outside: Annotated[NotRequired[list[int]], append]
    plain: NotRequired[str]


class Extended(typing_extensions.TypedDict):
    fixed: typing_extensions.ReadOnly[Annotated[str, longest]]


def test_typed_dicts_inherit_and_may_leave_out() -> None:
    fields = read_schema(Child).fields
    assert list(fields) == ["base", "log", "inside", "outside", "plain"]
    assert (fields["inside"].type, fields["inside"].reducer) == (list[int], append)
    assert (fields["outside"].type, fields["outside"].reducer) == (list[int], append)
    assert (fields["plain"].type, fields["plain"].has_default) == (str, False)
    assert read_schema(Extended).fields["fixed"].reducer is longest


class Level(IntEnum):
    LOW = 0


class Unstarted(TypedDict):
    level: Annotated[Level | Query, max]
    query: Annotated[Query, max]


def test_a_reduced_field_that_cannot_start_asks_for_a_default() -> None:
    schema = read_schema(Unstarted)
    with pytest.raises(
        GraphError, match="'query' of Unstarted has a reducer, but its type Query has no empty value"
    ):
        schema.defaults({"level"})
    with pytest.raises(GraphError, match="has no empty value"):
        schema.defaults({"query"})
    assert schema.defaults({"level", "query"}) == {}


class HiddenTyped(TypedDict):
    log: Annotated[list[str], operator.add] | None


class HiddenDeep(TypedDict):
    log: NotRequired[Annotated[Annotated[list[str], operator.add] | None, "doc"]]


@dataclasses.dataclass
class HiddenData:
    log: Annotated[list[str], operator.add] | None = None


class HiddenModel(pydantic.BaseModel):
    log: Annotated[list[str], operator.add] | None = None


class HiddenStruct(msgspec.Struct):
    log: Annotated[list[str], operator.add] | None = None


class OutsideModel(pydantic.BaseModel):
    log: Annotated[list[str] | None, operator.add] = None
    name: Annotated[str, pydantic.Field(max_length=3)] | None = None


@pytest.mark.parametrize("cls", [HiddenTyped, HiddenDeep, HiddenData, HiddenModel, HiddenStruct])
def test_a_reducer_inside_a_union_is_an_error(cls: type) -> None:
    with pytest.raises(GraphError, match=rf"'log' of {cls.__name__} .*Annotated\[T \| None, add\]"):
        read_schema(cls)
    fields = read_schema(OutsideModel).fields
    assert (fields["log"].reducer, fields["name"].reducer) == (operator.add, None)


async def later(current: list[int], update: list[int]) -> list[int]:
    return current + update


class Later:
    async def __call__(self, current: list[int], update: list[int]) -> list[int]:
        return current + update


@pytest.mark.parametrize("reducer", [later, Later(), functools.partial(later)])
def test_an_async_reducer_is_an_error(reducer: Any) -> None:
    with pytest.raises(GraphError, match="'log' of Slow has an async reducer"):
        read_schema(dataclasses.make_dataclass("Slow", [("log", Annotated[list[int], reducer])]))


# -- what is no schema --------------------------------------------------------------------------------------


Number = TypeVar("Number")


class Plain:
    a: int


class Box(Generic[Number]):
    pass


@pytest.mark.parametrize("cls", [Plain, int, dict, Box])
def test_other_classes_are_refused(cls: type) -> None:
    with pytest.raises(
        GraphError, match=f"{cls.__name__} cannot be a state schema: use a TypedDict, a dataclass"
    ):
        read_schema(cls)


@pytest.mark.parametrize("thing", [{"a": int}, "State", Box[int], None])
def test_what_is_no_class_is_refused(thing: Any) -> None:
    with pytest.raises(GraphError, match="a state schema is a class; got"):
        read_schema(thing)


@dataclasses.dataclass
class GenericData(Generic[Number]):
    first: Number
    log: Annotated[list[Number], operator.add]


class GenericStruct(msgspec.Struct, Generic[Number]):
    first: Number
    log: Annotated[list[Number], operator.add]


class GenericTyped(TypedDict, Generic[Number]):
    first: Number
    log: NotRequired[Annotated[list[Number], operator.add]]


class GenericModel(pydantic.BaseModel, Generic[Number]):
    first: Number
    log: Annotated[list[Number], operator.add]


@pytest.mark.parametrize("cls", [GenericData, GenericStruct, GenericTyped, GenericModel])
def test_a_generic_class_with_arguments(cls: Any) -> None:
    schema = read_schema(cls[int])
    assert [(field.type, field.reducer) for field in schema.fields.values()] == [
        (int, None),
        (list[int], operator.add),
    ]
    assert schema.defaults({"first"}) == {"log": []}
    if schema.validates:
        with pytest.raises(ValueError, match="first"):
            schema.validate("first", "x")
    assert read_schema(cls[int]) is schema


def test_without_pydantic_a_class_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pydantic")

    @dataclasses.dataclass
    class Local:
        a: int

    assert list(read_schema(Local).fields) == ["a"]


@dataclasses.dataclass
class Unresolved:
    a: Missing  # noqa: F821


class UnresolvedModel(pydantic.BaseModel):
    a: Missing  # noqa: F821


class UnresolvedStruct(msgspec.Struct):
    a: Missing  # noqa: F821


class UnresolvedDict(TypedDict):
    a: Missing  # noqa: F821


@pytest.mark.parametrize("cls", [Unresolved, UnresolvedModel, UnresolvedStruct, UnresolvedDict])
def test_an_annotation_that_cannot_be_resolved_is_named(cls: type) -> None:
    with pytest.raises(GraphError, match=rf"of the state schema {cls.__name__} cannot be resolved .*Missing"):
        read_schema(cls)


class Later(pydantic.BaseModel):
    after: Defined | None = None


class Defined(pydantic.BaseModel):
    a: int


def test_a_model_that_was_defined_before_its_parts() -> None:
    assert read_schema(Later).validate("after", {"a": 1}) == Defined(a=1)


def test_a_default_made_from_other_fields_is_refused() -> None:
    class Derived(pydantic.BaseModel):
        a: int
        b: int = pydantic.Field(default_factory=lambda data: data["a"])

    with pytest.raises(GraphError, match="the default of 'b' in Derived depends on other fields"):
        read_schema(Derived)


def test_an_empty_schema_declares_nothing() -> None:
    class Empty(msgspec.Struct):
        pass

    schema = read_schema(Empty)
    assert isinstance(schema, StateSchema)
    with pytest.raises(UnknownValueError, match="it declares nothing"):
        schema.check_name("a", "input")


class Unequal:
    """Compares with nothing, like an array of numbers."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None


def test_a_value_that_cannot_be_compared_with_its_default_counts_as_given():
    @dataclasses.dataclass
    class State:
        a: Any = dataclasses.field(default_factory=Unequal)
        b: int = 1

    assert list(read_schema(State).given(State())) == ["a"]
