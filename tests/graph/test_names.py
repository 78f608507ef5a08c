"""What nodes and values may be called, and which name somebody meant."""

from __future__ import annotations

import copy
import pickle

import pytest

from clew.errors import GraphError
from clew.graph import END, Graph, name_of, node
from clew.graph.names import check_node_name, check_output_name, check_value_name, names_of, nearest
from tests.messages import mentions


def test_end_is_called_end() -> None:
    assert (str(END), repr(END)) == ("END", "END")


def test_end_equals_only_itself() -> None:
    same: object = "END"
    assert same != END


def test_there_is_one_end() -> None:
    assert type(END)() is END


def test_end_is_copied_to_itself() -> None:
    assert copy.deepcopy(END) is END


def test_end_is_pickled_to_itself() -> None:
    assert pickle.loads(pickle.dumps(END)) is END


def search(query: str) -> str:
    return query


@pytest.mark.parametrize(
    "target, name", [("a", "a"), (END, "END"), (node(search), "search"), (search, "search")]
)
def test_a_target_is_a_name_a_node_a_function_or_end(target: object, name: str) -> None:
    assert name_of(target, "here") == name


@pytest.mark.parametrize("target", [3, int, lambda x: x, None, Graph([search])])
def test_anything_else_names_no_node(target: object) -> None:
    with pytest.raises(GraphError) as caught:
        name_of(target, "edges=")
    assert mentions(str(caught.value), "edges=", "END", repr(target))


def test_one_target_stands_for_a_list_of_one() -> None:
    assert names_of("a", "here") == ("a",)


def test_a_set_of_targets_has_no_order() -> None:
    with pytest.raises(GraphError, match=r"here.*list.*tuple"):
        names_of({"a"}, "here")


@pytest.mark.parametrize(
    "name, part",
    [
        ("", "empty"),
        (3, "got 3"),
        ("END", "'END'"),
        ("a/b", "'a/b': '/'"),
        ("a#1", "'a#1': '#'"),
        ("a[1", "'a[1': '['"),
        ("a]", "'a]': ']'"),
        ("a\udcff", "surrogate"),
    ],
)
def test_an_invalid_node_name_is_rejected(name: object, part: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_node_name(name)
    assert part in str(caught.value)


def test_the_name_of_a_graph_can_be_stored() -> None:
    with pytest.raises(GraphError):
        Graph([node(output="b", name="n")(lambda a: a)], name="a\udcff")


def test_a_node_may_have_a_name_that_is_no_identifier() -> None:
    assert check_node_name("web search") == "web search"


@pytest.mark.parametrize("name", ["two words", "", 3, None])
def test_a_value_is_an_identifier(name: object) -> None:
    with pytest.raises(GraphError) as caught:
        check_value_name(name, "node 'f'")
    assert mentions(str(caught.value), "'f'", repr(name))


@pytest.mark.parametrize("name", ["state", "ctx"])
def test_what_a_node_is_given_cannot_be_written(name: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_output_name(name, "node 'f'")
    assert mentions(str(caught.value), "'f'", repr(name))


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("serach", ["write", "search"]) == "did you mean 'search'?"


def test_without_a_near_name_all_are_listed() -> None:
    assert nearest("zzz", ["write", "search", "write"]) == "known names: 'write', 'search'."


def test_without_any_name_that_is_said() -> None:
    assert nearest("zzz", []) == "none are defined."
