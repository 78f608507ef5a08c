"""``clew explain``: which source changed, and what that means for a node."""

from __future__ import annotations

import pytest

from tests.cli.command import Folder
from tests.cli.commands.dependency_command import SOME, told, with_events


@pytest.fixture
def there(folder: Folder) -> Folder:
    with_events(folder)
    folder.clew("set", "events:graph", "events", SOME)
    folder.clew("pull", "events:graph", "context(a)")
    return folder


def test_what_is_up_to_date(there: Folder) -> None:
    said = there.clew("explain", "events:graph", "context(a)").stdout
    assert said.startswith("context(a) is up-to-date at revision 1: ")


def test_which_source_changed_at_which_revision(there: Folder) -> None:
    there.clew("set", "events:graph", "events", "[]")
    said = there.clew("explain", "events:graph", "context(a)").stdout
    assert said.startswith(
        "context(a) is potentially-outdated at revision 2: events was touched at revision 2"
    )


def test_as_json(there: Folder) -> None:
    there.clew("set", "events:graph", "events", "[]")
    found = there.json("explain", "events:graph", "context(a)")
    assert found["freshness"] == "potentially-outdated"
    assert [(cause["node"], cause["touched_at"]) for cause in found["causes"]] == [("events", 2)]
    assert there.json("explain", "events:graph", "context(b)")["freshness"] is None


def test_nothing_is_computed(there: Folder) -> None:
    there.clew("set", "events:graph", "events", "[]")
    there.clew("explain", "events:graph", "context(a)")
    assert there.lines("computed.log") == ["meta", "context a"]


def test_a_node_that_no_schema_knows(there: Folder) -> None:
    what, _ = told(there, "explain", "events:graph", "contxt(a)")
    assert "no schema matches 'contxt(a)'" in what
