"""Custom reducers are called when a step is committed, and never by anything that reads a run.

The reducers here cannot be called again unnoticed: one generates ids, one raises when it is called twice with the same
arguments, one counts its calls.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest

from clew import END, Engine, Graph, Overwrite, Send, ifelse, node, route
from clew.engine.records import SingleItemStep, Step
from clew.engine.updates.deltas import Delta
from clew.errors import OutputError
from clew.graph import Node
from clew.testing import Stepper, VirtualClock

RUN = "run"


class Numbering:
    """Gives each item an id of its own, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, current: list[Any], update: list[Any]) -> list[Any]:
        self.calls += 1
        return [*current, *({"id": str(uuid4()), "text": text} for text in update)]


class Once:
    """Raises when it is called twice with the same arguments."""

    def __init__(self) -> None:
        self.calls = 0
        self._seen: set[str] = set()

    def __call__(self, current: list[Any], update: list[Any]) -> list[Any]:
        self.calls += 1
        key = repr((current, update))
        if key in self._seen:
            raise LookupError("called again")
        self._seen.add(key)
        return [*current, *update]


class Tagging:
    """Keeps a dict by generated key, drops what is marked with None."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, current: dict[str, Any], update: list[Any]) -> dict[str, Any]:
        self.calls += 1
        kept = dict(list(current.items())[-3:])
        return {**kept, **{f"{uuid4()}": text for text in update}}


REDUCERS = [Numbering, Once, Tagging]


def schema(reducer: Any, kind: Any = None) -> Any:
    kind = kind or (dict if isinstance(reducer, Tagging) else list)
    fields = {"x": int, "n": int, "log": Annotated[kind, reducer], "seen": str, "side": int, "slow": int}
    return TypedDict("State", fields, total=False)


@node(writes=("log", "n"))
def step(n: int, log: Any) -> dict[str, Any]:
    return {"log": [f"step {n} after {len(log)}"], "n": n + 1}


@ifelse(when_true="step", when_false=END)
def more(n: int) -> bool:
    return n < 5


@node(output="seen", after=["more"])
def look(log: Any) -> str:
    return repr(log)


def looping(reducer: Any) -> Graph:
    return Graph([step, more, look], state=schema(reducer))


@node(output="log")
def write(what: str) -> list[str]:
    return [what]


@route(targets=["write"])
def fan(n: int) -> list[Send]:
    return [Send("write", {"what": f"part {k}"}) for k in range(n)]


def meeting(reducer: Any) -> Graph:
    """Three items of one step meet in the value."""
    return Graph(
        [fan, write, node(name="look", output="seen", after=["write"])(look.func)], state=schema(reducer)
    )


def nested(reducer: Any) -> Graph:
    """A subgraph that loops over the value, and whose result goes through the reducer outside."""
    inner = looping(reducer).as_node("inner", inputs=("n",), outputs=("n",))
    bring = node(name="bring", output="log")(lambda n: [n])
    last = node(name="look", output="seen", after=["deep"])(look.func)
    deep = Graph([bring], state=schema(reducer)).as_node("deep", outputs=("log",), transform_output=_texts)
    return Graph([inner, deep, last], state=schema(reducer))


def _texts(values: Any) -> dict[str, Any]:
    return {"log": [repr(values["log"])]}


GRAPHS = {"loop": looping, "fan": meeting}


def count_of(reducer: Any) -> int:
    calls: int = reducer.calls
    return calls


@pytest.fixture(params=REDUCERS, ids=lambda kind: kind.__name__)
def reducer(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.parametrize("listeners", [(), (lambda event: None,)], ids=["short", "listening"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_reading_gives_what_the_commit_made(reducer: Any, graph: str, listeners: Any) -> None:
    engine = Engine(GRAPHS[graph](reducer), listeners=list(listeners))
    result = engine.run({"n": 3}, run_id=RUN)
    assert result.status == "completed"
    made, calls = result["log"], count_of(reducer)
    assert made
    assert result["seen"] == repr(made)
    assert engine.state(RUN).values == result.values
    states = [checkpoint.state for checkpoint in engine.history(RUN)]
    assert states[-1].values == result.values
    assert [list(state.values["log"]) for state in states] == [
        list(engine.state(RUN, step=state.step).values["log"]) for state in states
    ]
    assert engine.result(RUN).values == result.values
    assert len(engine.history(RUN)[-1].state.node_history) == len(engine.graph.nodes)
    assert engine.why(RUN, "log").node in ("step", "write")
    assert engine.replay(RUN).ok
    assert not engine.diff(RUN, RUN)
    assert count_of(reducer) == calls
    assert calls == (2 if graph == "loop" else 3)


def test_a_dict_keeps_the_order_of_its_keys() -> None:
    def moved(current: dict[str, int], update: dict[str, int]) -> dict[str, int]:
        return dict(reversed({**current, **update}.items()))

    grow = node(name="grow", output="log")(lambda n: {f"k{n}": n})
    again = ifelse(name="again", when_true="turn", when_false=END, after=["grow"])(lambda n: n < 4)
    turn = node(name="turn", output="n")(lambda n: n + 1)
    engine = Engine(Graph([turn, grow, again], state=schema(moved, dict), entry=[turn]))
    result = engine.run({"n": 0}, run_id=RUN)
    assert len(result["log"]) > 2
    assert list(engine.state(RUN).values["log"].items()) == list(result["log"].items())


@pytest.mark.parametrize("make", [Numbering, Tagging])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_fork_goes_on_from_what_was_made(make: Callable[[], Any], step: int) -> None:
    reducer = make()
    engine = Engine(looping(reducer))
    engine.run({"n": 2}, run_id=RUN)
    before = engine.state(RUN, step=step).values["log"]
    calls = count_of(reducer)
    result = engine.fork(RUN, step=step, values={"side": 1}, run_id="fork")
    assert result.status == "completed"
    kept = list(before)
    assert list(result["log"])[: len(kept)] == kept or isinstance(reducer, Tagging)
    fresh = sum("log" in o.update for s in steps_of(engine, "fork") for o in s.outcomes)
    assert count_of(reducer) - calls == fresh
    assert engine.state("fork").values == result.values


def steps_of(engine: Engine, run: str = RUN) -> list[Step]:
    entries = [
        entry.step() if isinstance(entry, SingleItemStep) else entry for entry in engine.store.entries(run)
    ]
    return [entry for entry in entries if isinstance(entry, Step)]


def failing(reducer: Any, is_broken: list[bool]) -> Graph:
    @node(output="side")
    def shaky(log: Any, n: int) -> int:
        if is_broken[0] and n > 3:
            raise ConnectionError("down")
        return n

    again = ifelse(name="more", when_true="step", when_false=END, after=["shaky"])(lambda n: n < 5)
    return Graph([step, shaky, again], state=schema(reducer))


def test_a_resume_goes_on_from_what_was_made(reducer: Any) -> None:
    broken = [True]
    engine = Engine(failing(reducer, broken))
    result = engine.run({"n": 2}, run_id=RUN, check=False)
    assert (result.status, type(result.error)) == ("failed", ConnectionError)
    made, calls = engine.state(RUN).values["log"], count_of(reducer)
    assert made == result["log"]
    broken[0] = False
    resumed = Engine(engine.graph, store=engine.store).resume(RUN)
    assert resumed.status == "completed"
    assert isinstance(reducer, Tagging) or list(resumed["log"])[: len(made)] == list(made)
    assert engine.state(RUN).values == resumed.values
    fresh = sum("log" in o.update for s in steps_of(engine) for o in s.outcomes)
    assert count_of(reducer) == fresh
    assert calls < fresh


def test_a_rerun_calls_the_reducers_again() -> None:
    reducer = Numbering()
    engine = Engine(looping(reducer))
    first = engine.run({"n": 3}, run_id=RUN)
    calls = reducer.calls
    second = engine.rerun(RUN, run_id="again")
    assert [m["text"] for m in second["log"]] == [m["text"] for m in first["log"]]
    assert {m["id"] for m in second["log"]}.isdisjoint(m["id"] for m in first["log"])
    assert reducer.calls == 2 * calls
    assert engine.state("again").values == second.values


@pytest.mark.parametrize("make", [Numbering, Once])
def test_inside_subgraphs_too(make: Callable[[], Any]) -> None:
    reducer = make()
    engine = Engine(nested(reducer))
    result = engine.run({"n": 3}, run_id=RUN)
    calls = count_of(reducer)
    assert result.status == "completed"
    assert engine.state(RUN).values == result.values
    (inside,) = [
        found[-1] for c in engine.history(RUN, nested=True) for p, found in c.nested.items() if p == "inner#0"
    ]
    assert len(inside.state.values["log"]) == 2
    assert inside.state.values["seen"] == repr(inside.state.values["log"])
    assert engine.replay(RUN).ok
    assert count_of(reducer) == calls


@pytest.mark.parametrize("make", [Numbering, Tagging])
def test_inside_a_subgraph_that_is_resumed(make: Callable[[], Any]) -> None:
    reducer, broken = make(), [True]
    inner = failing(reducer, broken)
    engine = Engine(Graph([inner.as_node("inner", inputs=("n",), outputs=("log", "side"))]))
    run = Stepper(engine, {"n": 2}, run_id=RUN)
    for _ in range(4):
        run.complete(run.running[0])
    run.finish()
    calls = count_of(reducer)
    broken[0] = False
    result = Engine(engine.graph, store=engine.store).resume(RUN)
    assert result.status == "completed"
    fresh = sum("log" in o.update for s in steps_of(engine) if s.prefix for o in s.outcomes)
    assert 0 < calls < fresh == count_of(reducer)
    assert engine.state(RUN).values == result.values


def test_over_a_mapped_subgraph() -> None:
    reducer = Numbering()
    engine = Engine(looping(reducer).map_over("n", name="each"))
    result = engine.run({"n": [3, 4]}, run_id=RUN)
    calls = reducer.calls
    assert result.status == "completed"
    assert [len(log) for log in result["log"]] == [2, 1]
    assert engine.state(RUN).values == result.values
    nested_states = [found[-1].state for c in engine.history(RUN, nested=True) for found in c.nested.values()]
    assert [state.values["log"] for state in nested_states] == result["log"]
    assert engine.replay(RUN).ok
    assert reducer.calls == calls


# ---- what a step keeps


def kept(reducer: Any, start: Any, *updates: Any) -> list[Delta | None]:
    """The deltas of a value that takes one update after the other."""
    given = iter(updates)
    say = node(name="say", output="log")(lambda n: next(given))
    turn = node(name="turn", output="n", after=["say"])(lambda n: n + 1)
    again = ifelse(name="again", when_true="say", when_false=END)(lambda n: n < len(updates))
    engine = Engine(Graph([say, turn, again], state=schema(reducer, object), entry=[say]))
    result = engine.run({"n": 0, "log": start}, run_id=RUN)
    assert result.status == "completed", result.error
    assert engine.state(RUN).values == result.values
    return [s.deltas.get("log") for s in steps_of(engine) if any("log" in o.update for o in s.outcomes)]


def test_what_is_new_is_all_that_a_step_keeps() -> None:
    def joined(current: list[Any], update: list[Any]) -> list[Any]:
        return current + update

    assert kept(joined, [0], [1], [2]) == [Delta("list", 1, refs=(0,)), Delta("list", 2, refs=(0,))]
    first, second = kept(Numbering(), [], ["a"], ["b"])
    assert first is not None
    assert second is not None
    assert (first.keep, len(first.value), second.keep, len(second.value)) == (0, 1, 1, 1)


def test_own_reducers_leave_no_delta() -> None:
    assert kept(operator.add, [0], [1], [2]) == [None, None]
    assert kept(operator.add, 1, 2) == [None]


def test_an_overwrite_is_no_work_of_the_reducer() -> None:
    reducer = Numbering()
    deltas = kept(reducer, [], ["a"], Overwrite([]), ["b"])
    assert deltas[1] is None
    assert reducer.calls == 2


@dataclass(frozen=True)
class Money:
    amount: int

    def __add__(self, other: Money) -> Money:
        return Money(self.amount + other.amount)


def test_a_sum_of_a_users_class_is_custom() -> None:
    assert kept(operator.add, Money(1), Money(2)) == [Delta("whole", value=Money(3))]


# ---- in place


@pytest.mark.parametrize("listeners", [(), (lambda event: None,)], ids=["short", "listening"])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    "change", [lambda c, u: c.extend(u), lambda c, u: operator.setitem(c, 0, u[0])], ids=["longer", "as long"]
)
def test_a_reducer_that_changes_its_first_argument_fails_the_item(
    change: Any, width: int, listeners: Any
) -> None:
    def changing(current: list[Any], update: list[Any]) -> list[Any]:
        change(current, update)
        return current

    nodes: list[Node] = [node(name=f"w{k}", output="log")(lambda n: [7]) for k in range(width)]
    engine = Engine(Graph(nodes, state=schema(changing)), listeners=list(listeners))
    result = engine.run({"n": 0, "log": [1, 2]}, run_id=RUN, check=False)
    assert (result.status, type(result.error), result["log"]) == ("failed", OutputError, [1, 2])
    assert engine.state(RUN).values == result.values


# ---- lookahead


def beside_a_slow_one(reducer: Any) -> Stepper:
    """``quick`` writes the reduced value and another one; ``reader`` reads the first, ``other`` the second."""
    slow = node(name="slow", output="slow")(lambda x: 1)
    quick = node(name="quick", writes=("log", "side"))(lambda x: {"log": ["q"], "side": 2})
    reader = node(name="reader", output="seen")(lambda log, side: repr(log))
    other = node(name="other", output="n")(lambda side: side + 1)
    below = node(name="below", output="late")(lambda n: n)
    after = node(name="after", output="last")(lambda seen: seen)
    fields = {**schema(reducer).__annotations__, "late": int, "last": str}
    graph = Graph([slow, quick, reader, other, below, after], state=TypedDict("State", fields, total=False))
    return Stepper(Engine(graph, clock=VirtualClock(), seed=0), {"x": 1}, run_id=RUN)


def test_a_value_that_a_reducer_has_still_to_make_is_unfinished_for_its_readers() -> None:
    reducer = Numbering()
    run = beside_a_slow_one(reducer)
    run.complete("quick#0")
    assert run.running == ["slow#0", "other#0"]
    run.complete("other#0")
    assert run.running == ["slow#0", "below#0"]
    run.complete("below#0")
    assert reducer.calls == 0
    run.complete("slow#0")
    assert run.running == ["reader#0"]
    run.complete("reader#0")
    run.complete("after#0")
    result = run.finish()
    assert (result.status, reducer.calls, result["last"]) == ("completed", 1, repr(result["log"]))


def test_a_value_that_an_own_reducer_makes_is_not() -> None:
    run = beside_a_slow_one(operator.add)
    run.complete("quick#0")
    assert run.running == ["slow#0", "reader#0", "other#0"]


def test_a_reader_of_the_whole_state_waits_too() -> None:
    slow = node(name="slow", output="slow")(lambda x: 1)
    quick = node(name="quick", output="log")(lambda x: ["q"])
    reader = node(name="reader", output="seen", after=["quick"])(lambda state: repr(state["log"]))
    run = Stepper(
        Engine(Graph([slow, quick, reader], state=schema(Numbering())), clock=VirtualClock()),
        {"x": 1},
        run_id=RUN,
    )
    run.complete("quick#0")
    assert run.running == ["slow#0"]
    run.complete("slow#0")
    run.complete("reader#0")
    assert "id" in run.finish()["seen"]


def in_two_lanes(reducer: Any, first: Any, second: Any = None) -> Stepper:
    """A quick lane beside a slow one, three steps each: ``quick`` writes the value in step 1, ``mid`` (if it is given
    something) in step 2, and ``reader`` reads it in step 3."""

    def slow(name: str, after: list[str]) -> Node:
        return node(name=name, output=name, after=after)(lambda x: 1)

    quick = node(name="quick", output="log")(lambda x: first)
    mid = node(name="mid", writes=("log", "side"), after=["quick"])(
        lambda x: {"side": 1} if second is None else {"side": 1, "log": second}
    )
    reader = node(name="reader", output="seen", after=["mid"])(lambda log: repr(log))
    fields = {
        "x": int,
        "log": Annotated[list, reducer],
        "side": int,
        "seen": str,
        "s1": int,
        "s2": int,
        "third": int,
    }
    graph = Graph(
        [quick, mid, reader, slow("s1", []), slow("s2", ["s1"]), slow("third", ["mid"])],
        state=TypedDict("State", fields, total=False),
    )
    run = Stepper(Engine(graph, clock=VirtualClock(), seed=0), {"x": 1, "log": [0]}, run_id=RUN)
    run.complete("quick#0")
    run.complete("mid#0")
    run.complete("third#0")  # of step 3, so what is after step 2 has been planned
    assert run.running == ["s1#0"]
    return run


def test_once_the_step_is_committed_its_readers_are_started_in_later_steps() -> None:
    run = in_two_lanes(Numbering(), ["a"])
    run.complete("s1#0")
    assert run.running == ["s2#0", "reader#0"]
    run.complete("reader#0")
    run.complete("s2#0")
    result = run.finish()
    assert (result.status, result["seen"]) == ("completed", repr(result["log"]))


class Bag:
    """Joined with a list it is a list of what it holds, twice."""

    def __radd__(self, other: list[int]) -> list[int]:
        return [*other, 7, 7]


@pytest.mark.parametrize("reducer", [operator.add, Numbering()], ids=["add", "numbering"])
def test_what_is_written_on_an_unfinished_value_is_unfinished_too(reducer: Any) -> None:
    run = in_two_lanes(reducer, Bag() if reducer is operator.add else ["a"], [5])
    run.complete("s1#0")
    assert run.running == ["s2#0"]
    run.complete("s2#0")
    run.complete("reader#0")
    result = run.finish()
    assert (result.status, result["seen"]) == ("completed", repr(result["log"]))
    assert len(result["log"]) == (4 if reducer is operator.add else 3)
