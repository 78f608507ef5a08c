"""What nodes and values may be called, and which name somebody meant."""

from __future__ import annotations

import copy
import pickle

import pytest

from clew.errors import GraphError
from clew.graph import END, Graph, name_of, node
from clew.graph.names import check_node_name, check_output_name, check_value_name, names_of, nearest


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
    assert str(caught.value) == (
        f"edges=: {target!r} names no node; give a node's name, the node itself, or END."
    )


def test_one_target_stands_for_a_list_of_one() -> None:
    assert names_of("a", "here") == ("a",)


def test_a_set_of_targets_has_no_order() -> None:
    with pytest.raises(GraphError, match=r"^here: a set has no order; give a list or a tuple\.$"):
        names_of({"a"}, "here")


@pytest.mark.parametrize(
    "name, message",
    [
        ("", "a node's name cannot be empty; give it one with name=."),
        (3, "a node's name is a string, not 3."),
        ("END", "a node cannot be called 'END': that is where a path ends; choose another name."),
        ("a/b", "a node cannot be called 'a/b': '/' is used in paths; choose another name."),
        ("a#1", "a node cannot be called 'a#1': '#' is used in paths; choose another name."),
        ("a[1", "a node cannot be called 'a[1': '[' is used in paths; choose another name."),
        ("a]", "a node cannot be called 'a]': ']' is used in paths; choose another name."),
    ],
)
def test_what_a_node_cannot_be_called(name: object, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_node_name(name)
    assert str(caught.value) == message


def test_a_node_may_have_a_name_that_is_no_identifier() -> None:
    assert check_node_name("web search") == "web search"


@pytest.mark.parametrize("name", ["two words", "", 3, None])
def test_a_value_is_an_identifier(name: object) -> None:
    with pytest.raises(GraphError) as caught:
        check_value_name(name, "node 'f'")
    assert str(caught.value) == (
        f"node 'f': {name!r} cannot be the name of a value; use a Python identifier."
    )


@pytest.mark.parametrize("name", ["state", "ctx"])
def test_what_a_node_is_given_cannot_be_written(name: str) -> None:
    with pytest.raises(GraphError) as caught:
        check_output_name(name, "node 'f'")
    assert str(caught.value) == (
        f"node 'f': {name!r} is reserved for what a node is given; write another value."
    )


def test_the_nearest_name_is_suggested() -> None:
    assert nearest("serach", ["write", "search"]) == "did you mean 'search'?"


def test_without_a_near_name_all_are_listed() -> None:
    assert nearest("zzz", ["write", "search", "write"]) == "there are: 'write', 'search'."


def test_without_any_name_that_is_said() -> None:
    assert nearest("zzz", []) == "there are none."
