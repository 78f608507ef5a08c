"""To load a run, what is needed is read: nothing of subgraphs that have ended, no call, no snapshot but the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from clew import END, Command, Engine, Graph, SQLiteStore, ifelse, interrupt, node
from clew.stores import Store


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    if request.param == "sqlite":
        yield lambda: SQLiteStore(tmp_path / "runs.db")
    else:
        yield request.getfixturevalue("open_postgres")


class Watching:
    """A store that counts the entries which are read, by kind, a run's own steps as "own"."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read: Counter[str] = Counter()
        self.paths: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("entries", "within", "find", "last"):
            return found

        def reading(*args: Any, **more: Any) -> Any:
            answer = found(*args, **more)
            for entry in [answer] if name == "last" else answer:
                if entry is not None:
                    self.read["own" if (entry.kind, entry.path) == ("step", "") else entry.kind] += 1
                    self.paths.add(entry.path)
            return answer

        return reading


@node(output="p")
def first(n: int) -> int:
    return n


@node(output="q")
def second(p: int) -> int:
    return p


@node(output="r")
def third(q: int) -> int:
    return q + 1


INNER = Graph([first, second, third], name="inner")
fails = [True]


@node(output="n")
def take(r: int) -> int:
    return r


@ifelse(when_true="inner", when_false="stop")
def more(n: int, most: int) -> bool:
    return n < most


@node(output="end")
def stop(n: int) -> int:
    if fails[0]:
        raise ValueError("not yet")
    return n


LOOP = Graph([INNER.as_node(outputs=["r"]), take, more, stop])


@pytest.fixture(autouse=True)
def _failing() -> None:
    fails[0] = True


def read_by(open_store: Callable[[], Store], run_id: str, most: int, verb: str) -> Watching:
    engine = Engine(LOOP, store=open_store(), max_steps=10**6)
    assert engine.run({"n": 0, "most": most}, run_id=run_id, check=False).status == "failed"
    written = Counter(entry.kind for entry in engine.store.entries(run_id) if entry.path)
    assert (written["start"], written["step"]) == (most, 3 * most)
    engine.close()
    store = Watching(open_store())
    again = Engine(LOOP, store=store)
    fails[0] = False
    if verb == "resume":
        assert again.resume(run_id)["end"] == most
    else:
        assert again.state(run_id).values["n"] == most
    fails[0] = True
    again.close()
    return store


@pytest.mark.parametrize("verb", ["resume", "state"])
def test_nothing_is_read_of_subgraphs_that_have_ended(open_store: Callable[[], Store], verb: str) -> None:
    store = read_by(open_store, "r", 60, verb)
    assert (store.read["start"], store.read["step"]) == (0, 0)
    assert store.read["own"] <= 3 * (3 * 60 + 1)  # the run's own steps, once for each of the few that look
    assert store.read.total() - store.read["own"] <= 8


def test_of_a_subgraph_under_way_all_is_read(open_store: Callable[[], Store]) -> None:
    @interrupt(output="q")
    def question(p: int) -> str:
        return f"{p}?"

    made: list[int] = []

    @node(output="p")
    def before(n: int) -> int:
        made.append(n)
        return n

    inner = Graph([before, question, third], name="inner")
    graph = Graph([inner.as_node(outputs=["r"]), take, more_of_asking])
    engine = Engine(graph, store=open_store())
    assert engine.run({"n": 0, "most": 12}, run_id="r").status == "waiting"
    for n in range(11):
        engine.close()
        store = Watching(open_store())
        engine = Engine(graph, store=store)
        (asked,) = engine.result("r").questions
        assert asked.path == f"inner#{n}/question#0"
        assert engine.resume("r", answer=n).status == "waiting"
        # inner#1 and inner#10 begin alike
        assert {path for path in store.paths if path.endswith("/")} == {f"inner#{n}/"}
    assert engine.resume("r", answer=11)["n"] == 12
    assert made == list(range(12))
    engine.close()


@ifelse(when_true="inner", when_false=END)
def more_of_asking(n: int, most: int) -> bool:
    return n < most


def test_only_the_last_snapshot_is_read(open_store: Callable[[], Store]) -> None:
    @node(output="text")
    def write(n: int) -> str:
        return f"{n}" * 70_000

    @node(output="n")
    def count(text: str, n: int) -> int:
        return n + 1

    @ifelse(when_true="write", when_false=END)
    def go_on(n: int, most: int) -> bool:
        return n < most

    graph = Graph([write, count, go_on])
    engine = Engine(graph, store=open_store())
    engine.run({"n": 0, "most": 40}, run_id="r")
    assert len(engine.store.find("r", "snapshot", "")) > 2
    engine.close()
    store = Watching(open_store())
    again = Engine(graph, store=store)
    assert again.resume("r").status == "completed"
    assert store.read["snapshot"] <= 2  # one for each of those who look
    again.close()


def test_a_long_run_is_gone_on_with_from_near_its_end(tmp_path: Path) -> None:
    """However many steps there are after the last snapshot, few of them are held at once."""
    store = SQLiteStore(tmp_path / "runs.db", synchronous="off")
    is_broken = [True]

    @node(writes=["n"], goto=["count", END])
    def count(n: int, pad: str) -> Command:
        if n == 5_500 and pad and is_broken[0]:
            raise ValueError("not yet")
        return Command(update={"n": n + 1}, goto="count" if n < 5_999 else END)

    graph = Graph([count])
    engine = Engine(graph, store=store)
    given = {"n": 0, "pad": token_hex(50_000)}  # the steps do not outweigh it, so there is no snapshot
    assert engine.run(given, run_id="r", check=False).status == "failed"
    assert not store.find("r", "snapshot", "")
    log = engine._opener.runs.open("r").log()
    assert (log.start.step, log.start.values["n"], len(log.steps)) == (1_500, 1_500, 4_000)
    assert log.since is not None
    assert (log.since.size, log.since.steps) == (sum(len(e.body) for e in store.find("r", "step", "")), 5_500)
    is_broken[0] = False
    assert engine.resume("r")["n"] == 6_000
    unbroken = Engine(graph, store=store, seed=store.row("r").seed).run(given, run_id="unbroken")
    assert engine.state("r").digest == unbroken.state.digest
    assert engine.fork("r", step=5_990)["n"] == 6_000
