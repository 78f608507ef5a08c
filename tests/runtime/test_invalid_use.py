"""What is asked for in a wrong way is refused in words that say what to do; what can be meant is taken."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, SQLiteStore, node
from clew.errors import DefinitionError, GraphChangedError, InputError, StoreError, StoreUnavailableError
from clew.runtime.calls.transaction import StoreTransaction

ONE = node(lambda a: a + 1, name="one", output="b")
TWO = node(lambda b: b + 1, name="two", output="c")
GRAPH = Graph([ONE, TWO])


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(GRAPH, store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"a": 1}, run_id="r")
    return engine


@pytest.mark.parametrize("kind", [str, Path])
def test_a_store_may_be_a_path(tmp_path: Path, kind: Any) -> None:
    with Engine(GRAPH, store=kind(tmp_path / "runs.db")) as engine:
        engine.run({"a": 1}, run_id="r")
    assert Engine(GRAPH, store=SQLiteStore(tmp_path / "runs.db")).state("r").get("c") == 3


def test_a_store_is_a_store(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"store must be .* got 5"):
        Engine(GRAPH, store=5)


def test_a_run_id_has_an_encoding() -> None:
    with pytest.raises(InputError, match=r"run_id"):
        Engine(GRAPH).run({"a": 1}, run_id="\ud800")


@pytest.mark.parametrize("verb", ["fork", "rerun"])
def test_values_are_a_mapping(engine: Engine, verb: str) -> None:
    with pytest.raises(InputError, match=r"expected a mapping of names to values, got \[1\]"):
        getattr(engine, verb)("r", values=[1])


def test_why_asks_the_graph_of_the_run_not_that_of_the_engine(engine: Engine) -> None:
    assert str(Engine(Graph([TWO]), store=engine.store).why("r", "c")) == str(engine.why("r", "c"))


def test_whoever_resumes_without_a_node_is_told_ways_that_exist(tmp_path: Path) -> None:
    fails = node(lambda b: b / 0, name="two", output="c")
    engine = Engine(Graph([ONE, fails]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"a": 1}, run_id="r", check=False)
    with pytest.raises(GraphChangedError) as caught:
        Engine(Graph([fails]), store=engine.store).resume("r")
    assert str(caught.value) == (
        "run 'r' was made with a different graph ('one' was removed); add 'one' again, start a new run, or fork from a "
        "step before the node ran with engine.fork('r', step=...)"
    )


@pytest.mark.parametrize("name", [None, 5, "", "clew.now"])
def test_a_call_has_a_name_of_its_own(name: Any) -> None:
    @node(output="y")
    def act(x: int, ctx: Context) -> Any:
        return ctx.record(name, abs, x)

    error = Engine(Graph([act])).run({"x": 1}, check=False).error
    assert isinstance(error, ValueError)
    assert f"got {name!r}" in str(error)


@pytest.mark.parametrize(
    "sql",
    [
        "/* x */ COMMIT",
        "-- x\ncommit",
        "/* a */ /* b */\n -- c\n ROLLBACK;",
        "INSERT INTO p VALUES (1); COMMIT",
        "; COMMIT",
        "/* a /* b */ */ COMMIT",
        "/* a /* b */ COMMIT",
        "/* it's */ COMMIT /* it's */",
    ],
)
def test_a_node_does_not_end_the_transaction_in_any_disguise(sql: str) -> None:
    with pytest.raises(ValueError, match="transaction"):
        StoreTransaction().execute(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO p VALUES ('; COMMIT')",
        'INSERT INTO "commit; rollback" VALUES (1)',
        "INSERT INTO p VALUES (1) -- ; COMMIT",
        "CREATE TRIGGER t AFTER INSERT ON p BEGIN UPDATE p SET a = 1; END",
        "INSERT INTO p VALUES ('it''s; COMMIT')",
        "INSERT INTO p VALUES ($$; COMMIT$$)",
    ],
)
def test_what_only_looks_like_it_is_taken(sql: str) -> None:
    StoreTransaction().execute(sql)


def test_a_finished_run_is_returned_as_it_is(engine: Engine) -> None:
    before = engine.store.row("r")
    result = engine.resume("r")
    assert (result.status, result["c"]) == ("completed", 3)
    assert engine.store.row("r") == before
    assert engine.store.owner("r") is None


def test_a_finished_run_is_returned_while_another_engine_reads_it(engine: Engine) -> None:
    engine.store.claim("r", "somebody else", lease=1e6)
    assert Engine(GRAPH, store=engine.store).resume("r")["c"] == 3


# -- what may only be read -------------------------------------------------------------------------------------------


def unprivileged(do: Callable[[], str]) -> str:
    """What `do` says in a process that may not write everywhere, as root may."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65_534)
            told = do()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(there, told.encode())
        os._exit(0)
    os.close(there)
    os.waitpid(child, 0)
    with open(here, encoding="utf-8") as pipe:
        return pipe.read()


@pytest.fixture
def sealed(engine: Engine, tmp_path: Path) -> Iterator[Path]:
    """A store in a folder that anybody may look into, and nobody may write."""
    engine.close()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place, "sealed")
        folder.mkdir()
        file = folder / "runs.db"
        file.write_bytes((tmp_path / "runs.db").read_bytes())
        file.chmod(0o444)
        folder.chmod(0o555)
        yield file
        folder.chmod(0o755)


def test_a_file_that_may_only_be_read_is_read_and_replayed(sealed: Path) -> None:
    def look() -> str:
        engine = Engine(GRAPH, store=sealed)
        states = [engine.state("r").get("c"), engine.result("r")["c"], len(engine.runs())]
        return f"{states} {bool(engine.replay('r'))} {list(engine.store.check())} {engine.resume('r').status}"

    assert unprivileged(look) == "[3, 3, 1] True [] completed"


def test_a_file_that_may_only_be_read_in_an_open_folder_too(sealed: Path) -> None:
    sealed.parent.chmod(0o777)
    assert unprivileged(lambda: str(Engine(GRAPH, store=sealed).state("r").get("c"))) == "3"


def test_whoever_writes_there_is_told(sealed: Path) -> None:
    told = unprivileged(lambda: str(Engine(GRAPH, store=sealed).run({"a": 1}, run_id="new")))
    assert told.startswith(f"{StoreUnavailableError.__name__}: run 'new': {sealed} is read-only")


def test_a_folder_without_a_store_that_may_only_be_read(sealed: Path) -> None:
    told = unprivileged(lambda: str(SQLiteStore(sealed.parent / "new.db")))
    assert told.startswith(f"{StoreUnavailableError.__name__}: ")


def test_an_old_file_that_may_only_be_read_says_what_to_do(sealed: Path) -> None:
    sealed.chmod(0o644)
    sealed.parent.chmod(0o755)
    with closing(sqlite3.connect(sealed)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA user_version = 1")
    sealed.chmod(0o444)
    sealed.parent.chmod(0o555)
    told = unprivileged(lambda: str(SQLiteStore(sealed)))
    assert told.startswith(StoreError.__name__[:5])
    assert "was written by an older Clew" in told
