"""``clew invalidate``: a node that is computed again at its next pull."""

from __future__ import annotations

import pytest

from tests.cli.command import Folder
from tests.cli.commands.dependency_command import SOME, told, with_events


@pytest.fixture
def there(folder: Folder) -> Folder:
    with_events(folder)
    folder.clew("set", "events:graph", "events", SOME)
    return folder


def test_it_is_computed_again_and_what_depends_on_it_only_if_it_changed(there: Folder) -> None:
    there.clew("pull", "events:graph", "context(a)")
    said = there.clew("invalidate", "events:graph", "meta").stdout
    assert said == "meta is potentially-outdated at revision 2\n"
    there.clew("pull", "events:graph", "context(a)")
    assert there.lines("computed.log") == ["meta", "context a", "meta"]


def test_a_node_without_a_value(there: Folder) -> None:
    assert (
        there.clew("invalidate", "events:graph", "meta").stdout
        == "meta has no value; nothing to invalidate\n"
    )
    assert there.json("invalidate", "events:graph", "meta") == {
        "node": "meta",
        "freshness": None,
        "revision": 1,
    }


def test_a_database_that_is_not_there_is_not_made(there: Folder) -> None:
    what, hint = told(there, "invalidate", "events:graph", "meta", "--store", "none.db")
    assert what == "error: store 'none.db' does not exist"
    assert "--store or CLEW_STORE" in hint
    assert not (there.path / "none.db").exists()
