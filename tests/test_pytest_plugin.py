"""The pytest plugin, in pytest sessions of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

FLOW = """
    import os
    from clew import Context, Graph, SideEffectPolicy, node

    @node(output="reply", side_effects=SideEffectPolicy(recordable=True))
    def ask(prompt: str, ctx: Context) -> str:
        return ctx.record("model", str.upper, prompt + os.environ.get("MORE", ""))

    @node(output="length")
    def measure(reply: str) -> int:
        return len(reply) + int(os.environ.get("OFF", "0"))

    graph = Graph([ask, measure])
"""


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a graph, and a store with two runs of it."""
    pytester.makepyfile(flow=FLOW)
    pytester.makepyprojecttoml('[tool.clew]\ngraphs = ["flow:graph"]\n')
    pytester.makepyfile(
        record="""
        from clew import Engine, SQLiteStore
        from flow import graph

        with Engine(graph, store=SQLiteStore("recorded.db"), import_string="flow:graph") as engine:
            engine.run({"prompt": "hi"}, run_id="monday")
            engine.run({"prompt": "hello"}, run_id="tuesday")
        """
    )
    assert pytester.runpython("record.py").ret == 0
    return pytester


def run(pytester: pytest.Pytester, **env: str) -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # most of the time goes into plugins of others
        for name, value in env.items():
            patch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "clew.pytest_plugin", "-q")


def test_a_store_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        from clew import Engine, Graph, SQLiteStore

        def double(a): return 2 * a

        def test_store(clew_store, tmp_path):
            assert isinstance(clew_store, SQLiteStore)
            assert clew_store.path.parent == tmp_path
            engine = Engine(Graph([double]), store=clew_store)
            assert engine.run({"a": 1}, run_id="r")["double"] == 2

        def test_fresh(clew_store):
            assert clew_store.rows() == []
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_recorded_runs_replay(recorded: pytest.Pytester) -> None:
    recorded.makepyfile(
        test_it="""
        from clew import SQLiteStore
        from flow import graph

        def test_path(clew_replay):
            assert [report.run_id for report in clew_replay("recorded.db")] == ["monday", "tuesday"]

        def test_graph_and_runs(clew_replay):
            (report,) = clew_replay("recorded.db", graph=graph, runs=["monday"])
            assert report.calls == 1

        def test_one_run(clew_replay):
            assert len(clew_replay("recorded.db", runs="monday")) == 1

        def test_store(clew_replay):
            assert len(clew_replay(SQLiteStore("recorded.db"))) == 2
        """
    )
    run(recorded).assert_outcomes(passed=4)


@pytest.fixture
def one_test(recorded: pytest.Pytester) -> pytest.Pytester:
    recorded.makepyfile(test_it="def test_recorded(clew_replay): clew_replay('recorded.db')")
    return recorded


def test_a_changed_prompt_fails_with_both_texts(one_test: pytest.Pytester) -> None:
    result = run(one_test, MORE="!")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "2 of 2 recorded runs do not replay",
            "run 'monday' does not replay*",
            "*'ask' at ask#0*'model'*",
            '-*"hi"*',
            '+*"hi!"*',
            "run 'tuesday' does not replay*",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str()  # a report, not a traceback


def test_changed_code_fails_with_what_it_returns(one_test: pytest.Pytester) -> None:
    result = run(one_test, OFF="1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*measure#0*", "-*2*", "+*3*"])


def test_what_cannot_be_replayed_fails_with_the_reason(one_test: pytest.Pytester) -> None:
    (one_test.path / "flow.py").unlink()
    result = run(one_test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["run 'monday' was not replayed: module 'flow' does not exist*"])


@pytest.mark.parametrize(
    "call, told",
    [
        ("'none.db'", "store 'none.db' does not exist in *; use Path(__file__).with_name('recorded.db')"),
        ("'recorded.db', runs=['friday']", "run 'friday' does not exist*"),
        ("__import__('clew').SQLiteStore('new.db')", "*has no runs to replay"),
    ],
)
def test_nothing_to_replay_is_a_failure(recorded: pytest.Pytester, call: str, told: str) -> None:
    recorded.makepyfile(test_it=f"def test_recorded(clew_replay): clew_replay({call})")
    result = run(recorded)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([told])
    result.stdout.no_fnmatch_line("During handling of the above exception*")


def test_it_is_there_once_clew_is_installed(one_test: pytest.Pytester) -> None:
    if "clew.pytest_plugin" not in {each.name for each in entry_points(group="pytest11")}:
        if os.environ.get("CI"):
            pytest.fail("the entry point of the plugin is not installed")
        pytest.skip("the entry point is not installed here: `make test` installs it")
    one_test.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_it_costs_nothing_until_it_is_used() -> None:
    probe = "import sys, clew.pytest_plugin; print([m for m in ('sqlite3', 'clew.cli') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_a_store_holds_is_printed_without_control_characters(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        flow="""
        from clew import Graph, node

        EVIL = "\\x1b]0;title\\x07\\x1b[2J\\x9b31m"

        def graph_of(said):
            @node(output="y")
            def first(x: int) -> str:
                if said:
                    raise ValueError(said)
                return said
            return Graph([first])
        """,
        record="""
        from clew import Engine, SQLiteStore
        from flow import EVIL, graph_of

        with Engine(graph_of(EVIL), store=SQLiteStore("recorded.db")) as engine:
            engine.run({"x": 1}, run_id="r", check=False)
        """,
        test_it="""
        from flow import graph_of

        def test_differs(clew_replay):
            clew_replay("recorded.db", graph=graph_of(""))
        """,
    )
    assert pytester.runpython("record.py").ret == 0
    result = run(pytester)
    result.assert_outcomes(failed=1)
    assert "\\x1b" in str(result.stdout)
    assert not set(str(result.stdout)) & set("\x1b\x07\x9b")
