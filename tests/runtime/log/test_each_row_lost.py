"""Each row of a run's log is lost in turn, and somebody goes on with the run.

Either the loss is named before anything is done twice, or it did no harm: the run ends in the same digests, and nothing
outside was done twice. Of a run that died nobody can tell whether its last words were written; which rows those are is
listed here, one by one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SideEffectPolicy, SQLiteStore, node
from clew.errors import ClewError, StoreCorruptError
from clew.stores import Store
from clew.testing import VirtualClock

Row = tuple[str, str, int]
EFFECTS: Counter[str] = Counter()
DEATHS: dict[str, Callable[[], None]] = {}
"""What the process dies of, after the call that is named so has been recorded."""


def effect(name: str) -> str:
    EFFECTS[name] += 1
    return name


def call(ctx: Context, name: str) -> str:
    made: str = ctx.record(name, effect, name)
    if name in DEATHS:
        DEATHS.pop(name)()
    return made


@node(output="a")
def first(x: int, ctx: Context) -> str:
    return call(ctx, "first 0") + call(ctx, "first 1")


@node(output="whole", side_effects=SideEffectPolicy(recordable=True))
def whole(a: str) -> str:
    return effect("whole")


@node(output="t", retry=RetryPolicy(max_attempts=3, base_delay=1.0))
def tries(x: int, ctx: Context) -> str:
    call(ctx, "tries")
    call(ctx, f"attempt {ctx.attempt}")
    if ctx.attempt < 2:
        raise ValueError("not yet")
    return call(ctx, "tried")


@node(output="half")
def inner(a: str, ctx: Context) -> str:
    return call(ctx, "inner 0") + call(ctx, "inner 1")


@node(output="b")
def outer(half: str, ctx: Context) -> str:
    return half + call(ctx, "outer 0") + call(ctx, "outer 1")


@node(output="answer")
def asks(a: str, t: str, ctx: Context) -> list[Any]:
    call(ctx, "before")
    one = ctx.interrupt("one?")
    call(ctx, "between")
    two = ctx.interrupt("two?")
    call(ctx, "after")
    return [one, two]


@node(output="end")
def last(answer: list[Any], b: str, whole: str, ctx: Context) -> str:
    return f"{answer} {b}" + call(ctx, "last 0") + call(ctx, "last 1")


GRAPH = Graph([first, whole, tries, Graph([inner, outer], name="sub").as_node(outputs=["b"]), asks, last])


def engine_on(store: Store) -> Engine:
    return Engine(GRAPH, store=store, clock=VirtualClock(), seed=0, max_concurrent_nodes=1)


def go_on(engine: Engine) -> Any:
    """To the end, whatever is asked."""
    result = engine.resume("r") if engine.result("r").status == "running" else engine.result("r")
    while result.questions:
        (asked,) = result.questions
        result = engine.resume("r", answer=asked.question.upper())
    return result


class Place:
    """A store that can be opened again, and damaged behind its back."""

    def __init__(
        self, opened: Callable[[], Store], execute: Callable[[str, tuple[Any, ...]], list[Any]]
    ) -> None:
        self.open = opened
        self._execute = execute

    def rows(self) -> list[Row]:
        log = self._execute(f"SELECT kind, {self.path}, n FROM log ORDER BY 1, 2, 3", ())
        steps = self._execute(f"SELECT 'step', '', {self.number} FROM steps ORDER BY 3", ())
        return [tuple(row) for row in (*log, *steps)]

    def lose(self, row: Row) -> None:
        kind, path, n = row
        if kind == "step" and not path:
            self._execute(f"DELETE FROM steps WHERE {self.number} = {self.mark}", (n,))
        else:
            mark = self.mark
            self._execute(f"DELETE FROM log WHERE kind = {mark} AND {self.path} = {mark} AND n = {mark}", row)
        assert row not in self.rows()

    path, number, mark = "path", "id & 4294967295", "?"


class OnPostgres(Place):
    path, number, mark = "coalesce(path, key)", "n", "%s"


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Place]]:
    """Makes empty stores."""
    if request.param == "sqlite":

        def on_sqlite() -> Place:
            file = tmp_path / f"{len(list(tmp_path.glob('*.db')))}.db"

            def execute(sql: str, values: tuple[Any, ...]) -> list[Any]:
                with closing(sqlite3.connect(file)) as db, db:
                    return db.execute(sql, values).fetchall()

            return Place(lambda: SQLiteStore(file), execute)

        yield on_sqlite
        return
    import psycopg

    from clew import PostgresStore

    dsn = request.getfixturevalue("server").dsn
    made: list[str] = []

    def on_postgres() -> Place:
        schema = f"lost_{request.node.name.partition('[')[0][-20:]}_{len(made)}"
        made.append(schema)

        def execute(sql: str, values: tuple[Any, ...]) -> list[Any]:
            with psycopg.connect(dsn) as db:
                db.execute(f"SET search_path TO {schema}")
                done = db.execute(sql, values)
                return done.fetchall() if done.description else []

        return OnPostgres(lambda: PostgresStore(dsn, schema=schema), execute)

    yield on_postgres
    with psycopg.connect(dsn) as db:
        for schema in made:
            db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


# ---- what became of the run before


def waiting(store: Store) -> None:
    assert engine_on(store).run({"x": 1}, run_id="r").status == "waiting"


def waiting_again(store: Store) -> None:
    waiting(store)
    assert engine_on(store).resume("r", answer="ONE?").status == "waiting"


def died_after(
    name: str, before: Callable[[Store], None] | None = None, answer: str = ""
) -> Callable[[Store], None]:
    """The process is gone when a call has been recorded, and has not let go of the run."""

    def died(store: Store) -> None:
        if before is not None:
            before(store)
        DEATHS[name] = store.close
        engine = engine_on(store)
        with suppress(ClewError):
            if before is None:
                engine.run({"x": 1}, run_id="r")
            else:
                engine.resume("r", answer=answer)
        assert not DEATHS

    return died


def finished(store: Store) -> None:
    waiting_again(store)
    assert engine_on(store).resume("r", answer="TWO?").status == "completed"


def lose_each(places: Callable[[], Place], before: Callable[[Store], None]) -> dict[Row, str]:
    """What comes of each loss: the sentence that names it, "harmless", or what was done twice."""
    EFFECTS.clear()
    place = places()
    store = place.open()
    before(store)
    store.close()
    rows = place.rows()
    store = place.open()
    unbroken = go_on(engine_on(store))
    expected = engine_on(store).state("r").digest
    once = Counter(EFFECTS)
    store.close()
    assert unbroken.status == "completed"
    found: dict[Row, str] = {}
    for row in rows:
        EFFECTS.clear()
        place = places()
        store = place.open()
        before(store)
        store.close()
        place.lose(row)
        store = place.open()
        try:
            result = go_on(engine_on(store))
        except StoreCorruptError as error:
            found[row] = str(error)
        else:
            assert (result.status, result.values) == (unbroken.status, unbroken.values), row
            again = sorted((EFFECTS - once).elements())
            found[row] = f"again: {', '.join(again)}" if again else "harmless"
            assert engine_on(store).state("r").digest == expected, row
        assert not EFFECTS - once or found[row].startswith("again: "), (
            f"{row}: done again before the loss was noticed"
        )
        store.close()
    return found


STATES: dict[str, Callable[[Store], None]] = {
    "waiting": waiting,
    "waiting again": waiting_again,
    "died in an attempt": died_after("tried"),
    "died in a subgraph": died_after("outer 0"),
    "died after an answer": died_after("after", waiting_again, "TWO?"),
    "died after a step": died_after("last 0", waiting_again, "TWO?"),
    "finished": finished,
}


@dataclass(frozen=True)
class Losses:
    """Rows as ``kind path n n n``. All others are named when they are lost.

    harmless  nobody needs them to go on: they are of items that have run, or can be made again without an effect
    unknown   the last words of a process that died: whether they were written nobody can tell, so effects are repeated
    """

    harmless: Sequence[str] = ()
    unknown: Sequence[str] = ()


EXPECTED = {
    "waiting": Losses(
        harmless=["call first#0 0", "call tries#0 0 1 2 3"],
        unknown=[],
    ),
    "waiting again": Losses(
        harmless=["call first#0 0", "call tries#0 0 1 2 3"],
        unknown=[],
    ),
    "died in an attempt": Losses(
        harmless=[
            "call first#0 0 1",
            "call sub#0/inner#0 0 1",
            "call sub#0/outer#0 0 1",
            "journal first#0 0",
            "journal sub#0 0",
            "step sub#0/ 2",
        ],
        unknown=["call tries#0 4", "journal whole#0 0"],
    ),
    "died in a subgraph": Losses(
        harmless=[
            "call first#0 0 1",
            "call sub#0/inner#0 0 1",
            "call tries#0 1",
            "journal first#0 0",
            "retry tries#0 1",
            "step sub#0/ 1",
        ],
        unknown=["call sub#0/outer#0 0", "journal whole#0 0"],
    ),
    "died after an answer": Losses(
        harmless=[
            "answer asks#0 1",
            "call first#0 0 1",
            "call sub#0/inner#0 0 1",
            "call sub#0/outer#0 0 1",
            "call tries#0 0 1 2 3 4",
            "journal sub#0 0 1 2",
            "journal whole#0 0 1 2",
            "question asks#0 0 1",
        ],
        unknown=["call asks#0 2"],
    ),
    "died after a step": Losses(
        harmless=[
            "answer asks#0 0 1",
            "call asks#0 0 1 2",
            "call first#0 0 1",
            "call sub#0/inner#0 0 1",
            "call sub#0/outer#0 0 1",
            "call tries#0 0 1 2 3 4",
            "question asks#0 0 1",
            "step sub#0/ 1",
        ],
        unknown=["call last#0 0", "step - 2"],
    ),
    "finished": Losses(
        harmless=[
            "call asks#0 0 1 2",
            "call first#0 0 1",
            "call last#0 0 1",
            "call sub#0/inner#0 0 1",
            "call sub#0/outer#0 0 1",
            "call tries#0 0 1 2 3 4",
            "start sub#0/ 0",
            "step sub#0/ 1 2",
        ],
        unknown=[],
    ),
}


def brief(rows: Iterable[Row]) -> list[str]:
    found: dict[str, list[str]] = {}
    for kind, path, n in rows:
        found.setdefault(f"{kind} {path or '-'}", []).append(str(n))
    return [f"{place} {' '.join(numbers)}" for place, numbers in found.items()]


@pytest.mark.parametrize(
    "places", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)  # a schema for each row
@pytest.mark.parametrize("state", STATES)
def test_each_row_that_is_lost_is_named_or_not_needed(places: Callable[[], Place], state: str) -> None:
    found = lose_each(places, STATES[state])
    harmless = [row for row, fate in found.items() if fate == "harmless"]
    again = [row for row, fate in found.items() if fate.startswith("again: ")]
    assert brief(harmless) == list(EXPECTED[state].harmless)
    assert brief(again) == list(EXPECTED[state].unknown)
    assert len(found) - len(harmless) - len(again) >= 2, "these are named"


def test_a_lost_call_is_named_with_run_step_node_and_call(places: Callable[[], Place]) -> None:
    place = places()
    store = place.open()
    STATES["died in an attempt"](store)
    place.lose(("call", "tries#0", 2))
    store = place.open()
    with pytest.raises(StoreCorruptError) as caught:
        engine_on(store).resume("r")
    assert str(caught.value) == (
        "run 'r', step 1: node 'tries' at tries#0: one of the recorded calls is missing (number 2, before call 1, "
        "'attempt 2'); the call would be repeated"
    )
    store.close()
