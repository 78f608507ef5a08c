"""``clew pull``: values of a dependency graph, from the database that is asked for."""

from __future__ import annotations

import pytest

from clew import DependencyGraph
from tests.cli.command import Folder
from tests.cli.commands.dependency_command import SOME, told, with_events


@pytest.fixture
def there(folder: Folder) -> Folder:
    with_events(folder)
    folder.clew("set", "events:graph", "events", SOME)
    return folder


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder for commands that change nothing."""
    return with_events(Folder(tmp_path_factory.mktemp("unchanging")))


def test_the_value_is_said_as_json(there: Folder) -> None:
    assert there.clew("pull", "events:graph", "meta").stdout == '[\n  "a",\n  "b"\n]\n'


def test_with_json_the_node_and_the_revision_are_told_too(there: Folder) -> None:
    assert there.json("pull", "events:graph", "context( a )") == {
        "node": "context(a)",
        "value": {"id": "a", "known": True},
        "revision": 1,
    }


def test_what_was_computed_is_kept_for_the_next_command(there: Folder) -> None:
    there.clew("pull", "events:graph", "context(a)")
    there.clew("pull", "events:graph", "context(a)")
    there.clew("pull", "events:graph", "context(c)")
    assert there.lines("computed.log") == ["meta", "context a", "context c"]


def test_a_list_of_schemas_or_a_function_is_a_graph_too(there: Folder) -> None:
    there.clew("pull", "events:schemas", "meta")
    there.clew("pull", "events:made", "meta")
    assert there.lines("computed.log") == ["meta"]


def test_the_store_is_the_option_or_the_environment(there: Folder) -> None:
    there.clew("set", "events:graph", "events", "[]", "--store", "other.db")
    assert there.json("pull", "events:graph", "meta", CLEW_STORE="other.db")["value"] == []
    assert (
        there.json("pull", "events:graph", "meta", "--store", "other.db", CLEW_STORE="clew.db")["value"] == []
    )
    assert there.json("pull", "events:graph", "meta")["value"] == ["a", "b"]


def test_a_graph_keeps_its_name_in_the_store_that_is_told(folder: Folder) -> None:
    (folder.path / "named.py").write_text(
        "from clew import DependencyGraph\ngraph = DependencyGraph([], name='mine')\n"
    )
    folder.clew("set", "named:graph", "a", "5", "--store", "named.db")
    with DependencyGraph([], store=folder.path / "named.db", name="mine") as graph:
        assert graph.pull("a") == 5


def test_a_graph_with_a_store_of_its_own_uses_that_unless_told_otherwise(there: Folder) -> None:
    there.clew("set", "events:kept", "events", "[]")
    assert (there.path / "kept.db").exists()
    assert there.json("pull", "events:kept", "meta")["value"] == []
    assert there.json("pull", "events:kept", "meta", "--store", "clew.db")["value"] == ["a", "b"]


def test_a_computor_that_fails_is_told_with_its_node(there: Folder) -> None:
    what, hint = told(there, "pull", "events:graph", "broken", code=1)
    assert what == "error: ValueError: the pipe is broken (raised by the computor of 'broken')"
    assert "pull again" in hint
    there.clew("pull", "events:graph", "meta")
    assert there.lines("computed.log") == ["meta"]


def test_a_source_that_was_never_set(folder: Folder) -> None:
    what, hint = told(with_events(folder), "pull", "events:graph", "meta")
    assert what == "error: the source 'events' was never set"
    assert hint == "hint: set it with: clew set events:graph NODE VALUE"


@pytest.mark.parametrize("node", ["meta", "events", "context(a)", "nothing", "context(a"])
def test_no_database_is_made_for_what_cannot_be_pulled(folder: Folder, node: str) -> None:
    told(with_events(folder), "pull", "events:graph", node, "--store", "new.db")
    assert not (folder.path / "new.db").exists()


def test_a_database_is_made_for_what_needs_no_value_that_was_set(folder: Folder) -> None:
    (folder.path / "alone.py").write_text(
        "from clew import schema\ngraph = [schema('five', computor=lambda i, o, b: 5)]\n"
    )
    assert folder.json("pull", "alone:graph", "five", "--store", "new.db")["value"] == 5
    assert (folder.path / "new.db").exists()


@pytest.mark.parametrize(
    "words, what, hint",
    [
        (["events:graph", "mteta"], "no schema matches 'mteta'", "did you mean 'meta'?"),
        (["events:graph", "context(a"], "',' or ')'", "shell quotes"),
        (["events:graph", "context"], "'context' has one argument, not 0", "clew pull --help"),
        (["events:grahp", "meta"], "module 'events' has no 'grahp'", "did you mean 'graph'?"),
        (["events", "meta"], "'events'", "events:schemas, events:graph"),
        (["evnets:graph", "meta"], "module 'evnets' does not exist", "PYTHONPATH"),
        (["events.py:graph", "meta"], "'events.py:graph'", "MODULE:GRAPH"),
        (["events:SOME", "meta"], "module 'events' has no 'SOME'", "known names"),
        (
            ["events:DependencyGraph", "meta"],
            "must be a clew.incremental.DependencyGraph, got type",
            "known names",
        ),
        (["events:unmakeable", "meta"], "OSError: no such place", "clew pull --help"),
        (["events:overlapping", "meta"], "match the same node", "use another name"),
        (["events:graph", "meta", "--store", "ftp://x"], "'ftp://x'", "postgresql://"),
        (["events:graph"], "missing argument 'NODE'", "clew pull --help"),
    ],
)
def test_a_wrong_command_is_told_what_and_what_to_do(
    unchanging: Folder, words: list[str], what: str, hint: str
) -> None:
    first, second = told(unchanging, "pull", *words)
    assert what in first
    assert hint in second


def test_module_alone_will_do_where_it_has_one_graph(there: Folder) -> None:
    (there.path / "one.py").write_text("from events import graph\n")
    assert there.json("pull", "one", "meta")["value"] == ["a", "b"]


@pytest.mark.parametrize("verb", ["pull", "set", "invalidate", "explain"])
def test_help_has_examples(folder: Folder, verb: str) -> None:
    said = folder.clew(verb, "--help").stdout
    assert "Examples:" in said
    assert f"clew {verb} events:graph" in said
    assert "--json" in said


def test_help_lists_the_verbs(folder: Folder) -> None:
    said = folder.clew("--help").stdout
    assert [verb for verb in ("pull", "set", "invalidate", "explain") if f"\n  {verb} " not in said] == []
