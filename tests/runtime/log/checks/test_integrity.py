"""An entry that is lost from a store is missed, and its run and step are named; other runs are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, PostgresStore, SQLiteStore, interrupt, node
from clew.cli.commands.doctor import examine
from clew.errors import StoreCorruptError
from tests.runtime.killed import as_if_killed


@node(output="a")
def ask(x: str, ctx: Context) -> str:
    return str(ctx.record("first", str.upper, x)) + str(ctx.record("second", str.lower, x))


@node(output="b")
def begin(a: str) -> str:
    return a * 2


@node(output="c")
def end(b: str) -> str:
    return b * 2


@node(output="d")
def last(c: str) -> str:
    if c.startswith("FAIL"):
        raise ValueError("no luck")
    return c


@node(output="e")
def beside(a: str) -> int:
    return len(a)


GRAPH = Graph([ask, Graph([begin, end], name="inside").as_node(outputs=["c"]), last])


class Place:
    """A store with three runs, of which "r1" can be damaged behind its back."""

    def __init__(self, store: Any, damage: Callable[[str], None], steps: str) -> None:
        self.store = store
        self.damage = damage
        self.steps = steps
        self.engine = Engine(GRAPH, store=store)
        for number in range(3):
            self.engine.run({"x": f"value {number}"}, run_id=f"r{number}")

    def lose_step(self, n: int) -> None:
        self.damage(f"DELETE FROM steps WHERE {self.steps.format(n)}")

    def lose(self, what: str) -> None:
        self.damage(f"DELETE FROM log WHERE run = 2 AND {what}")

    def problems(self) -> list[str]:
        found: list[str] = examine(self.store)["damage"]
        assert not [message for message in found if "'r1'" not in message]
        return found

    def others_are_read(self) -> None:
        assert [self.engine.state(run).step for run in ("r0", "r2")] == [3, 3]
        assert [row.run_id for row in self.engine.runs()] == ["r0", "r1", "r2"]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        file = tmp_path / "runs.db"

        def damage(sql: str) -> None:
            with closing(sqlite3.connect(file)) as db, db:
                assert db.execute(sql).rowcount == 1, sql

        yield Place(SQLiteStore(file), damage, "id = (2 << 32) + {}")
        return
    import psycopg

    store: PostgresStore = request.getfixturevalue("open_postgres")()

    def damage_there(sql: str) -> None:
        with psycopg.connect(request.getfixturevalue("server").dsn) as db:
            db.execute(f"SET search_path TO {store._link._schema}")
            assert db.execute(sql).rowcount == 1, sql

    yield Place(store, damage_there, "run = 2 AND n = {}")
    store.close()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_lost_step_is_named_by_whoever_reads_the_run(place: Place, n: int) -> None:
    place.lose_step(n)
    engine = place.engine
    for verb in (
        *(engine.state, engine.result, engine.history, engine.export_run, engine.replay, engine.resume),
        *(engine.fork, engine.rerun),
        lambda run: engine.state(run, 3),
        lambda run: engine.fork(run, step=3),
        lambda run: engine.label_checkpoint(run, "a label"),
    ):
        with pytest.raises(
            StoreCorruptError, match=f"^run 'r1': step {n} is missing; other runs can be read"
        ):
            verb("r1")
    assert [message for message in place.problems() if message.startswith(f"run 'r1': step {n} is missing")]
    assert place.engine.state("r1", n - 1).step == n - 1  # what came before it can be read
    place.others_are_read()


def test_all_steps_lost(place: Place) -> None:
    for n in (1, 2, 3):
        place.lose_step(n)
    with pytest.raises(StoreCorruptError, match=r"^run 'r1': step 1 is missing"):
        place.engine.state("r1")
    assert place.problems()


def test_a_fork_names_the_step_that_its_parent_lost(place: Place) -> None:
    fork = place.engine.fork("r1", step=2, values={"a": "other"}, run_id="fork")
    assert fork.status == "completed"
    place.lose_step(2)
    with pytest.raises(StoreCorruptError, match=r"^run 'r1': step 2 is missing"):
        place.engine.state("fork")


INSIDE = {
    "the first": ("n = 1", "step 1 of inside#0/ is missing"),
    "the last": ("n = 2", "1 of its 2 steps inside subgraphs is missing"),
}


@pytest.mark.parametrize("which", INSIDE)
def test_a_lost_step_of_a_subgraph_is_named(place: Place, which: str) -> None:
    what, message = INSIDE[which]
    place.lose(f"kind = 'step' AND {what}")
    for verb in (place.engine.history, place.engine.export_run, place.engine.replay):
        with pytest.raises(StoreCorruptError, match=f"^run 'r1': {message}; other runs can be read"):
            verb("r1")
    assert [line for line in place.problems() if line.startswith(f"run 'r1': {message}")]
    assert place.engine.state("r1").step == 3  # which needs nothing of it
    place.others_are_read()


@pytest.mark.parametrize("n, which", [(0, r" \(number 0 of ask#0\)"), (1, "")])
def test_a_lost_recording_is_missed(place: Place, n: int, which: str) -> None:
    place.lose(f"kind = 'call' AND n = {n}")
    message = f"^run 'r1': 1 of its 2 recorded calls is missing{which}; other runs can be read"
    for verb in (place.engine.history, place.engine.export_run, place.engine.replay):
        with pytest.raises(StoreCorruptError, match=message):
            verb("r1")
    assert len(place.problems()) == 1
    place.others_are_read()


def test_a_missing_finished_item_is_reported_before_it_runs_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "runs.db")
    made: list[str] = []

    @node(output="p")
    def works(x: str) -> str:
        made.append("works")
        return x

    @node(output="q")
    def fails(x: str) -> str:
        raise ValueError("no luck")

    engine = Engine(Graph([works, fails]), store=store)
    assert engine.run({"x": "1"}, run_id="r", check=False).status == "failed"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        assert db.execute("DELETE FROM log WHERE kind = 'journal'").rowcount == 1
    with pytest.raises(StoreCorruptError, match=r"^run 'r': 1 of its 1 finished items is missing"):
        engine.resume("r")
    assert made == ["works"]


def test_a_lost_answer_or_question_is_missed(tmp_path: Path) -> None:
    @interrupt(output="y")
    def question(x: str) -> str:
        return "Sure?"

    engine = Engine(Graph([question]), store=SQLiteStore(tmp_path / "runs.db"))
    assert engine.run({"x": "1"}, run_id="r").status == "waiting"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        assert db.execute("DELETE FROM log WHERE kind = 'question'").rowcount == 1
    with pytest.raises(StoreCorruptError, match=r"^run 'r': 1 of its 1 questions is missing"):
        engine.resume("r", answer=True)


def test_what_is_added_to_a_run_that_has_ended_is_no_damage(place: Place) -> None:
    place.engine.label_checkpoint("r1", "good", step=2)
    assert place.problems() == []
    assert place.engine.state("r1", "good").step == 2


def test_a_run_that_is_gone_on_with_has_a_new_census(place: Place) -> None:
    engine = place.engine
    failed = engine.run({"x": "fail"}, run_id="r3", check=False)
    assert failed.status == "failed"
    first = place.store.row("r3").census
    assert first is not None
    for _ in range(2):
        assert engine.resume("r3", check=False).status == "failed"
    assert place.store.row("r3").census == {**first, "resume": 2}
    assert place.problems() == []


def test_what_there_was_before_a_run_was_gone_on_with_is_missed_whatever_became_of_that(
    tmp_path: Path,
) -> None:
    """It fails, is resumed, and its process dies: the first resumption is still known."""
    left: list[SQLiteStore] = []
    file = tmp_path / "runs.db"

    @node(output="y")
    def one(x: int) -> int:
        return x

    @node(output="w")
    def beside_two(y: int) -> int:
        return y

    @node(output="z")
    def two(y: int) -> int:
        left.append(as_if_killed(file))
        raise ValueError("no luck")

    @node(output="end")
    def three(z: int, w: int) -> int:
        return z

    engine = Engine(Graph([one, beside_two, two, three]), store=SQLiteStore(file))
    engine.run({"x": 1}, run_id="r", check=False)
    engine.resume("r", check=False)
    dead = left[1]
    assert (dead.row("r").status, dead.row("r").census) == ("running", {"": 1, "journal": 1})
    assert examine(dead)["damage"] == []
    with closing(sqlite3.connect(dead.path)) as db, db:
        assert db.execute("DELETE FROM steps").rowcount == 1
    with pytest.raises(StoreCorruptError, match=r"^run 'r': step 1 is missing"):
        Engine(engine.graph, store=dead).resume("r")


def test_a_run_whose_process_died_may_have_ended_anywhere(tmp_path: Path) -> None:
    """Its last step cannot be missed: it may never have been written."""
    left: list[SQLiteStore] = []

    @node(output="y")
    def one(x: int) -> int:
        return x

    @node(output="z")
    def two(y: int) -> int:
        left.append(as_if_killed(tmp_path / "runs.db"))
        return y

    engine = Engine(Graph([one, two]), store=SQLiteStore(tmp_path / "runs.db"))
    engine.run({"x": 1}, run_id="r")
    assert left[0].row("r").census is None
    assert examine(left[0])["damage"] == []
    again = Engine(engine.graph, store=left[0])
    assert again.resume("r")["z"] == 1
    assert left[0].row("r").census == {"": 2}


def test_steps_lost_before_a_snapshot_are_named_by_the_doctor(tmp_path: Path) -> None:
    """A run that died, with a snapshot of a later step than the last one that is there."""

    @node(output="y")
    def grow(x: int) -> str:
        return "y" * 300_000

    @node(output="z")
    def then(y: str) -> int:
        return len(y)

    file = tmp_path / "runs.db"
    engine = Engine(Graph([grow, then]), store=SQLiteStore(file))
    engine.run({"x": 1}, run_id="r")
    assert [entry.n for entry in engine.store.find("r", "snapshot", "")] == [1]
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE runs SET census = NULL, status = 'running'")
        db.execute("DELETE FROM steps")
    message = examine(engine.store)["damage"]
    assert message == ["run 'r': step 1 is missing, but a snapshot of a later step exists"]


def test_an_imported_run_has_a_census_too(place: Place, tmp_path: Path) -> None:
    document = place.engine.export_run("r0")
    other = Engine(GRAPH, store=SQLiteStore(tmp_path / "other.db"))
    other.import_run(document)
    assert other.store.row("r0").census == place.store.row("r0").census
