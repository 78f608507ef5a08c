"""``clew set``: values for nodes of a dependency graph."""

from __future__ import annotations

import pytest

from tests.cli.command import Folder
from tests.cli.commands.dependency_command import SOME, told, with_events


@pytest.fixture
def there(folder: Folder) -> Folder:
    return with_events(folder)


def test_the_revision_is_told(there: Folder) -> None:
    assert there.clew("set", "events:graph", "events", SOME).stdout == "events is set at revision 1\n"
    assert there.json("set", "events:graph", "events", "[]") == {
        "node": "events",
        "origin": "set",
        "revision": 2,
    }


def test_values_are_json_or_else_text(there: Folder) -> None:
    for value, meant in (
        ('{"a": null, "b": [1, 2.5]}', {"a": None, "b": [1, 2.5]}),
        ("three", "three"),
        ("3", 3),
    ):
        there.clew("set", "events:graph", "any_source", value)
        assert there.json("pull", "events:graph", "any_source")["value"] == meant


def test_a_value_from_a_file_and_from_standard_input(there: Folder) -> None:
    (there.path / "some.json").write_text(SOME)
    there.clew("set", "events:graph", "events", "@some.json")
    assert there.json("pull", "events:graph", "meta")["value"] == ["a", "b"]
    there.clew("set", "events:graph", "events", "-", stdin='[{"id": "c"}]')
    assert there.json("pull", "events:graph", "meta")["value"] == ["c"]


def test_a_computed_node_is_pinned(there: Folder) -> None:
    there.clew("set", "events:graph", "events", SOME)
    assert (
        there.clew("set", "events:graph", "context(a)", "7").stdout == "context(a) is pinned at revision 2\n"
    )
    assert there.json("pull", "events:graph", "context(a)")["value"] == 7
    there.clew("set", "events:graph", "events", SOME)
    assert there.json("pull", "events:graph", "context(a)")["value"] == {"id": "a", "known": True}


@pytest.mark.parametrize(
    "words, what, hint",
    [
        (["events:graph", "context(e)", "1"], "'context(e)' is the pattern of a schema", "quote a word"),
        (["events:graph", "unknown(a)", "1"], "no schema matches 'unknown(a)'", "clew set --help"),
        (
            ["events:graph", "events", '{"a'],
            "the value of events is not valid JSON",
            "quote it for the shell",
        ),
        (["events:graph", "events", "@none.json"], "none.json cannot be read", "file"),
        (
            ["events:graph", "context(a)", "1"],
            "the source 'events' was never set",
            "clew set events:graph",
        ),
        (["events:graph", "events"], "missing argument 'VALUE'", "clew set --help"),
    ],
)
def test_a_wrong_command_is_told_what_and_what_to_do(
    there: Folder, words: list[str], what: str, hint: str
) -> None:
    first, second = told(there, "set", *words)
    assert what in first
    assert hint in second


def test_a_word_in_quotes_is_a_node_and_no_pattern(there: Folder) -> None:
    there.clew("set", "events:graph", "events", SOME)
    there.clew("set", "events:graph", 'context("e")', "1")
    assert there.json("pull", "events:graph", "context(e)")["value"] == 1
