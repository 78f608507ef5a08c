"""Classes change: what stored objects of an older definition become."""

from __future__ import annotations

import dataclasses
import enum
import pickle
import subprocess
import sys
import textwrap
import types
import uuid
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from clew.errors import CheckpointError, ClassChangedError, DecodeError, DefinitionError, GraphWarning
from clew.state import GraphState, canonical, decode, encode, register_type, stored_values


@dataclass
class Doc:
    title: str
    tags: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


class Pair(NamedTuple):
    title: Any
    tags: Any = ()


class Move(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    tags: tuple[str, ...] = ()
    path: list[str] = []


class User(pydantic.BaseModel):
    title: str = pydantic.Field(alias="theTitle")
    tags: tuple[str, ...] = ()
    path: list[str] = pydantic.Field(default_factory=list)


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    title: str
    _seen: list[int] = pydantic.PrivateAttr(default_factory=list)
    _later: int = pydantic.PrivateAttr()


class Color(enum.Enum):
    RED = 1


class Access(enum.Flag):
    READ = enum.auto()


KINDS = pytest.mark.parametrize("cls", [Doc, Pair, Move, User], ids=lambda cls: cls.__name__)


def stored(fields: Any, name: str = "c") -> bytes:
    return encode({"$object": [name, fields], "": 0}, ordered=True).replace(b',"":0}', b"}")


def read(cls: type, fields: Any, **options: Any) -> Any:
    register_type(cls, name="c", **options)
    return decode(stored(fields))


class TestFields:
    @KINDS
    def test_a_gained_field_takes_its_default(self, cls):
        found = read(cls, {"title": "a"})
        assert type(found) is cls
        assert (found.title, found.tags) == ("a", ())
        assert found == (cls(theTitle="a") if cls is User else cls(title="a"))

    @pytest.mark.parametrize("cls, name", [(Doc, "notes"), (Move, "path"), (User, "path")])
    def test_a_factory_makes_a_default_for_each(self, cls, name):
        one, other = read(cls, {"title": "a"}), read(cls, {"title": "a"})
        assert getattr(one, name) == []
        assert getattr(one, name) is not getattr(other, name)

    @KINDS
    def test_a_lost_field_is_dropped_with_a_warning(self, cls):
        with pytest.warns(GraphWarning) as caught:
            found = read(cls, {"gone": 1, "title": "a", "tags": ["x"], "old": 2})
        assert found.tags == ["x"]
        assert not hasattr(found, "gone")
        told = [str(warning.message) for warning in caught]
        assert len(told) == 2
        assert all("'c'" in message for message in told)
        assert "'gone'" in told[0]
        assert "'old'" in told[1]
        assert caught[0].filename == __file__

    def test_a_field_is_told_once(self):
        register_type(Doc, name="c")
        one = stored({"title": "a", "gone": 1})
        with pytest.warns(GraphWarning) as caught:
            assert len(decode(b"[" + b",".join([one] * 1_000) + b"]")) == 1_000
        assert len(caught) == 1

    def test_a_warning_that_is_an_error_is_raised_as_it_is(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(GraphWarning):
                read(Doc, {"title": "a", "gone": 1})

    @KINDS
    def test_a_field_without_a_default_is_missing(self, cls):
        with pytest.raises(ClassChangedError) as caught:
            read(cls, {"tags": ()})
        assert (caught.value.name, caught.value.missing) == ("c", ("title",))
        assert "'title'" in str(caught.value)
        assert cls.__qualname__ in str(caught.value)
        assert "damaged" not in str(caught.value)
        assert isinstance(caught.value, DecodeError)

    def test_all_missing_fields_are_named(self):
        cls = dataclasses.make_dataclass("Three", ["a", "b", ("c", int, 3)])
        with pytest.raises(ClassChangedError) as caught:
            read(cls, {})
        assert caught.value.missing == ("a", "b")

    @KINDS
    @pytest.mark.parametrize("fields", [[1], "RED", 5, None, {1: 2}], ids=str)
    def test_fields_are_a_mapping_by_name(self, cls, fields):
        with pytest.raises(ClassChangedError) as caught:
            read(cls, fields)
        assert caught.value.missing == ()
        assert isinstance(caught.value.__cause__, TypeError)

    def test_one_kind_may_become_another(self):
        data = encode(read(Doc, {"title": "a", "tags": ("x",)}))
        for cls in (Pair, Move, User):
            with pytest.warns(GraphWarning):
                found = _registered_anew(cls, data)
            assert (found.title, found.tags) == ("a", ("x",))

    def test_a_default_that_is_new_each_time_does_not_reach_the_digest(self):
        cls = dataclasses.make_dataclass("Tagged", [("id", Any, field(default_factory=uuid.uuid4))])
        register_type(cls, name="c")
        data = b'{"a":' + stored({}) + b"}"
        assert decode(data)["a"].id != decode(data)["a"].id
        assert canonical(data) == data

    def test_the_error_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(ClassChangedError("why", name="c", missing=("a",))))
        assert (str(error), error.name, error.missing) == ("why", "c", ("a",))

    def test_in_a_checkpoint(self, monkeypatch):
        register_type(Doc, name="c")
        data = GraphState({"doc": Doc("a")}).to_checkpoint()
        _redefine(monkeypatch, ["title", "needed"])
        with pytest.raises(CheckpointError) as caught:
            GraphState.from_checkpoint(data)
        assert isinstance(caught.value.__cause__, ClassChangedError)
        _redefine(monkeypatch, ["title", ("tags", tuple, ())])
        with pytest.warns(GraphWarning, match="'notes'"):
            assert GraphState.from_checkpoint(data).get("doc") == Doc("a")


def _redefine(monkeypatch: Any, fields: Any) -> None:
    """Put another class in the place of `Doc`."""
    cls = dataclasses.make_dataclass("Doc", fields)
    cls.__module__, cls.__qualname__ = Doc.__module__, Doc.__qualname__
    monkeypatch.setitem(globals(), "Doc", cls)


def _registered_anew(cls: type, data: bytes) -> Any:
    from clew.state import registry

    registry._by_name.clear()
    register_type(cls, name="c")
    return decode(data)


class TestModels:
    def test_a_gained_field_was_not_set(self):
        assert read(User, {"title": "a"}).model_fields_set == {"title"}
        assert read(User, {"title": "a", "tags": (), "_unset": ["tags"]}).model_fields_set == {"title"}

    def test_what_was_extra_may_become_a_field(self):
        found = read(Open, {"_extra": {"title": "a", "more": 1}})
        assert (found.title, found.model_extra) == ("a", {"more": 1})
        assert found.model_fields_set == {"title", "more"}

    def test_extra_values_that_are_not_allowed_any_more(self):
        with pytest.warns(GraphWarning, match="'more'"):
            found = read(User, {"title": "a", "_extra": {"more": 1}})
        assert found == User(theTitle="a")

    def test_a_default_that_is_made_of_other_fields(self):
        class Named(pydantic.BaseModel):
            title: str
            slug: str = pydantic.Field(default_factory=lambda data: data["title"].lower())

        assert read(Named, {"title": "A"}).slug == "a"

    def test_private_attributes(self):
        assert read(Open, {"title": "a"})._seen == []
        assert read(Open, {"title": "a", "_private": {"_seen": [1], "_later": 2}})._later == 2
        with pytest.warns(GraphWarning, match="'_gone'"):
            assert read(Open, {"title": "a", "_private": {"_gone": 1}})._seen == []

    def test_private_attributes_that_are_all_gone(self):
        with pytest.warns(GraphWarning, match="'_gone'"):
            assert read(User, {"title": "a", "_private": {"_gone": 1}}).__pydantic_private__ is None

    @pytest.mark.parametrize("inner", ["_unset", "_extra", "_private"])
    def test_inner_parts_of_another_shape(self, inner):
        with pytest.raises(ClassChangedError):
            read(Open, {"title": "a", inner: 5})


class TestEnums:
    def test_a_member_that_is_gone(self):
        with pytest.raises(ClassChangedError) as caught:
            read(Color, "BLUE")
        assert (caught.value.name, caught.value.missing) == ("c", ("BLUE",))

    def test_a_member_that_was_renamed(self):
        assert read(Color, "CRIMSON", upgrade=lambda name: {"CRIMSON": "RED"}.get(name, name)) is Color.RED

    @pytest.mark.parametrize("parts", [5, None, ["RED"], {"name": "RED"}], ids=str)
    def test_a_member_is_a_name(self, parts):
        with pytest.raises(ClassChangedError):
            read(Color, parts)

    def test_a_flag_that_is_gone(self):
        assert read(Access, 1) is Access.READ
        with pytest.raises(ClassChangedError) as caught:
            read(Access, 8)
        assert isinstance(caught.value.__cause__, ValueError)


class TestUpgrade:
    @KINDS
    def test_it_gets_the_stored_fields_and_returns_those_of_today(self, cls):
        seen = []

        def upgrade(fields: dict[str, Any]) -> dict[str, Any]:
            seen.append(dict(fields))
            if "name" in fields:
                fields["title"] = fields.pop("name")
            return fields

        assert read(cls, {"name": "a", "tags": (1,)}, upgrade=upgrade).title == "a"
        assert seen == [{"name": "a", "tags": (1,)}]
        assert decode(encode(decode(stored({"title": "b"})))).title == "b"

    def test_it_does_not_see_what_a_model_keeps_beside_its_fields(self):
        seen = []

        def upgrade(fields: dict[str, Any]) -> dict[str, Any]:
            seen.append(dict(fields))
            return {"title": fields["name"]}

        found = read(Open, {"name": "a", "_private": {"_seen": [1]}, "_unset": ["x"]}, upgrade=upgrade)
        assert seen == [{"name": "a"}]
        assert (found.title, found._seen, found.model_fields_set) == ("a", [1], {"title"})

    def test_for_a_class_with_functions_of_its_own(self):
        cls = type("Celsius", (), {"__init__": lambda self, degrees: setattr(self, "degrees", degrees)})
        found = read(
            cls, 5, encode=lambda c: [c.degrees], decode=lambda parts: cls(*parts), upgrade=lambda old: [old]
        )
        assert found.degrees == 5

    @pytest.mark.parametrize("result", [None, 5, [("title", "a")]], ids=str)
    def test_it_returns_a_dict(self, result):
        with pytest.raises(ClassChangedError) as caught:
            read(Doc, {"title": "a"}, upgrade=lambda fields: result)
        assert isinstance(caught.value.__cause__, TypeError)


class TestHooksThatRaise:
    def fail(self, *args: Any) -> Any:
        raise OSError("no")

    def test_each(self):
        factory = dataclasses.make_dataclass("F", [("x", int, field(default_factory=self.fail))])

        class Strict(msgspec.Struct):
            x: int = msgspec.field(default_factory=self.fail)

        class Model(pydantic.BaseModel):
            x: int = pydantic.Field(default_factory=self.fail)

        for name, cls, options in (
            ("upgrade", Doc, {"upgrade": self.fail}),
            ("factory", factory, {}),
            ("struct", Strict, {}),
            ("model", Model, {}),
            ("decode", type("Own", (), {}), {"encode": vars, "decode": self.fail}),
        ):
            register_type(cls, name=name, **options)
            with pytest.raises(ClassChangedError) as caught:
                decode(b'[{"$tuple":[' + stored({}, name) + b"]}]")
            assert caught.value.name == name
            assert isinstance(caught.value.__cause__, OSError)

    def test_a_class_that_cannot_be_hashed_any_more(self):
        register_type(Doc, name="c")
        for data in (b'{"$set":[1,%s]}', b'{"$dict":[[%s,1]]}'):
            with pytest.raises(ClassChangedError) as caught:
                decode(data % stored({"title": "a"}))
            assert caught.value.name == "c"
        with pytest.raises(DecodeError) as other:
            decode(b'{"$set":[[1]]}')
        assert not isinstance(other.value, ClassChangedError)

    def test_one_that_never_ends(self):
        def endless(fields: Any) -> Any:
            return endless(fields)

        with pytest.raises(DecodeError) as caught:
            read(Doc, {"title": "a"}, upgrade=endless)
        assert not isinstance(caught.value, ClassChangedError)  # as when a caller left no room on the stack


class TestAliases:
    @pytest.mark.parametrize("alias", ["old.module:Outer.Old", "old.module.Outer.Old"])
    def test_both_spellings(self, alias):
        register_type(Doc, aliases=(alias,))
        assert decode(stored({"title": "a"}, "old.module:Outer.Old")) == Doc("a")
        assert encode(Doc("a")).startswith(f'{{"$object":["{__name__}:Doc"'.encode())

    def test_a_given_name(self):
        register_type(Doc, name="doc.v2", aliases=("doc", "document"))
        assert [decode(stored({"title": "a"}, name)) for name in ("doc", "document", "doc.v2")] == [
            Doc("a")
        ] * 3

    def test_errors_name_what_is_stored(self):
        register_type(Doc, aliases=("old:Doc",))
        with pytest.raises(ClassChangedError) as caught:
            decode(stored({}, "old:Doc"))
        assert caught.value.name == "old:Doc"

    def test_an_alias_is_taken_once(self):
        register_type(Doc, aliases=("old:Doc",))
        with pytest.raises(DefinitionError):
            register_type(Move, aliases=("old.Doc",))
        with pytest.raises(DefinitionError):
            register_type(Move, name="old:Doc")
        register_type(Doc, aliases=("old:Doc",))

    def test_an_alias_wins_over_the_class_that_had_the_name(self):
        """In a notebook the old class is still there after it was renamed."""
        register_type(Pair)
        register_type(Doc, aliases=(f"{__name__}:Pair",))
        assert decode(encode(Pair("a"))) == Doc("a")

    @pytest.mark.parametrize("aliases", ["old:Doc", ("",), ("a\nb",), (5,)], ids=str)
    def test_aliases_are_names(self, aliases):
        with pytest.raises(DefinitionError):
            register_type(Doc, aliases=aliases)

    def test_as_a_decorator(self):
        @register_type(aliases=("old:Doc",), upgrade=lambda fields: {"x": 1})
        @dataclass
        class New:
            x: int

        assert decode(stored({}, "old:Doc")) == New(1)


CELL = """
from dataclasses import dataclass
@dataclass
class Note:
    text: str
    {more}
class Outer:
    @dataclass
    class Inner:
        x: int = 0
"""


class TestDefinedAgain:
    @pytest.fixture
    def notebook(self, monkeypatch):
        module = types.ModuleType("notebook_under_test")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        self.run(module)
        return module

    def run(self, module: Any, more: str = "") -> None:
        exec(CELL.format(more=more), module.__dict__)

    def test_instances_of_both_definitions_are_stored_and_read_as_the_newest(self, notebook):
        register_type(notebook.Note)
        old = notebook.Note("a")
        data = encode(old)
        self.run(notebook, "stars: int = 5")
        new = notebook.Note("b", 1)
        assert decode(data) == notebook.Note("a", 5)  # read before anything of the new class was stored
        assert decode(encode(new)) == new
        assert decode(encode(old)) == notebook.Note("a", 5)

    def test_also_when_the_new_one_is_registered(self, notebook):
        old = notebook.Note
        register_type(old)
        self.run(notebook, "stars: int = 5")
        register_type(notebook.Note)
        assert type(decode(encode(old("a")))) is notebook.Note
        register_type(old)  # a graph that was built before registers what its annotations name
        assert type(decode(encode(old("a")))) is notebook.Note

    def test_options_stay(self, notebook):
        register_type(
            notebook.Note, name="note", aliases=("memo",), upgrade=lambda f: {"text": f["text"] + "!"}
        )
        self.run(notebook)
        assert encode(notebook.Note("a")) == b'{"$object":["note",{"text":"a"}]}'
        assert decode(stored({"text": "a"}, "memo")) == notebook.Note("a!")

    def test_an_older_definition_that_was_never_stored(self, notebook):
        old = notebook.Note("a")
        self.run(notebook)
        register_type(notebook.Note)
        assert type(decode(encode(old))) is notebook.Note
        assert type(decode(encode(notebook.Note("b")))) is notebook.Note

    def test_a_nested_class(self, notebook):
        register_type(notebook.Outer.Inner)
        old = notebook.Outer.Inner(1)
        self.run(notebook)
        assert decode(encode(old)) == notebook.Outer.Inner(1)
        assert decode(encode(notebook.Outer.Inner(2))) == notebook.Outer.Inner(2)

    def test_a_class_inside_a_function(self):
        def make() -> Any:
            @dataclass
            class Local:
                x: int

            return Local

        one, two = make(), make()
        register_type(one)
        assert type(decode(encode(one(1)))) is one
        assert type(decode(encode(two(1)))) is two
        assert type(decode(encode(one(1)))) is two

    def test_a_class_with_functions_of_its_own(self, notebook):
        source = "class Own:\n    def __init__(self, x): self.x = x"
        exec(source, notebook.__dict__)
        old = notebook.Own
        register_type(old, encode=lambda own: own.x, decode=lambda x: notebook.Own(x))
        exec(source, notebook.__dict__)
        assert type(decode(encode(notebook.Own(1)))) is notebook.Own
        assert type(decode(encode(old(1)))) is notebook.Own

    def test_something_else_under_that_name_is_not_the_class(self, notebook):
        register_type(notebook.Note)
        data, old = encode(notebook.Note("a")), notebook.Note
        for other in (None, "text", Doc, type("Other", (), {}), len):
            notebook.Note = other
            assert type(decode(data)) is old

    def test_one_that_cannot_be_stored_any_more(self, notebook):
        register_type(notebook.Note)
        data, old = encode(notebook.Note("a")), notebook.Note
        exec("class Note: pass", notebook.__dict__)
        assert type(decode(data)) is old
        with pytest.raises(Exception, match="a Note cannot be stored"):
            encode(notebook.Note())

    def test_no_code_runs_to_find_it(self, notebook):
        register_type(notebook.Note)
        data = encode(notebook.Note("a"))
        del notebook.Note
        notebook.__getattr__ = lambda name: pytest.fail("code of the module ran")
        assert decode(data).text == "a"

    def test_in_main(self):
        script = """
            from dataclasses import dataclass
            from clew import Graph, node
            from clew.state import decode, encode
            CELL = "@dataclass\\nclass Note:\\n    text: str\\n"
            exec(CELL, globals())
            @node(output="note")
            def write(text: str) -> Note:
                return Note(text)
            graph = Graph([write])  # which registers the class
            one = encode(graph.run(text="a")["note"])
            exec(CELL + "    stars: int = 5", globals())
            two = encode(graph.run(text="b")["note"])
            print(one, two, decode(one), decode(two), type(decode(one)) is Note)
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert '\'{"$object":["__main__:Note",{"text":"a"}]}\'' in done.stdout
        assert "Note(text='a', stars=5) Note(text='b', stars=5) True" in done.stdout


def test_a_stored_update_keeps_its_digest_whatever_became_of_the_class(monkeypatch):
    register_type(Doc, name="c")
    data, form = stored_values({"b": Doc("a"), "a": {2: Doc("b"), 1: 0}}, at="state", blobs={})
    _redefine(monkeypatch, [("other", int, 0)])
    with pytest.warns(GraphWarning):
        decode(data)
    assert canonical(data) == form
