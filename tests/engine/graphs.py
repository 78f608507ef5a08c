"""Random graphs, run by the engine in every available way, with results in a comparable form.

``cases`` draws graphs from the generator of the reference and builds the real ones. ``play`` runs one and answers all
its questions. ``without_context`` builds the graph a second time with functions that take only values, because only
such nodes use the fast path (``clew.engine.fast_path``).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any, Literal

from clew.engine.records import SingleItemStep, Step
from clew.errors import DecisionError, GraphError, InputError
from clew.graph import END as CLEW_END
from clew.graph import Command, Graph, Send
from clew.runtime import Engine, RunResult
from clew.state import GraphState
from clew.testing import VirtualClock, random_order, run_in_order
from tests.reference.generate import ORDINARY, Knobs, assembled, items_of, random_graph, to_clew
from tests.reference.interpreter import Change, Outcome, interpret
from tests.reference.model import END, MGraph, MNode, act, answer, fails, sends_of

MAX_STEPS = 60
RUN = "run"


class Skipped(Exception):
    """Clew refuses this graph or these values, which the reference does not look at."""


@dataclass(frozen=True)
class Case:
    """A graph as data, as the reference runs it, and as Clew builds it."""

    seed: int
    model: MGraph
    given: dict[str, Any]
    on_error: Literal["stop", "continue"]
    graph: Graph
    changes: Mapping[int, Change] = field(
        default_factory=dict
    )  # what is changed by hand, and after which step

    @cached_property
    def expected(self) -> Outcome:
        return interpret(self.model, self.given, MAX_STEPS, self.on_error, self.changes)

    def engine(self, graph: Graph | None = None, **options: Any) -> Engine:
        return Engine(
            graph or self.graph,
            max_steps=MAX_STEPS,
            on_error=self.on_error,
            clock=VirtualClock(),
            seed=0,
            **options,
        )


def cases(
    seeds: Iterable[int], knobs: Knobs = ORDINARY, skipped: Counter[str] | None = None
) -> Iterator[Case]:
    """The graphs of these seeds that Clew takes; what it refuses is counted in ``skipped``."""
    for seed in seeds:
        model, given = random_graph(Random(seed), knobs)
        try:
            graph = quietly(lambda model=model: to_clew(model))
            yield Case(seed, model, given, "continue" if seed % 2 else "stop", graph)
        except GraphError:
            if skipped is not None:
                skipped["graph"] += 1
        except Skipped:
            if skipped is not None:
                skipped["run"] += 1


def quietly(build: Callable[[], Graph]) -> Graph:
    """Random graphs earn warnings, about cycles without a gate for one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build()


@dataclass(frozen=True)
class Played:
    """A run that has ended, every question answered."""

    engine: Engine
    result: RunResult

    @cached_property
    def state(self) -> GraphState:
        return self.result.state

    @cached_property
    def steps(self) -> list[Step]:
        entries = self.engine.store.entries(RUN)
        steps = [entry.step() if isinstance(entry, SingleItemStep) else entry for entry in entries]
        return [step for step in steps if isinstance(step, Step) and not step.prefix]

    @property
    def short_steps(self) -> int:
        """How many of the steps went the short way."""
        return sum(isinstance(entry, SingleItemStep) for entry in self.engine.store.entries(RUN))

    @cached_property
    def digests(self) -> list[str]:
        return [checkpoint.digest for checkpoint in self.engine.history(RUN)]

    @property
    def chain(self) -> list[list[tuple[Any, ...]]]:
        return [
            [
                (o.path, dict(o.update), plain_decision(o.decision), o.error is not None, o.attempt)
                for o in step.outcomes
            ]
            for step in self.steps
        ]


def plain_decision(decision: Any) -> tuple[Any, ...]:
    return tuple((c.target, dict(c.payload)) if isinstance(c, Send) else c for c in decision or ())


def expected_chain(expected: Outcome) -> list[list[tuple[Any, ...]]]:
    """The reference's chain in the form of ``Played.chain``."""

    def decision(made: Any) -> tuple[Any, ...]:
        return () if made is None else made if isinstance(made, tuple) else (made,)

    return [
        [
            (item.path, item.update, decision(item.decision), item.error is not None, item.attempt)
            for item in step
        ]
        for step in expected.chain
    ]


def play(
    engine: Engine,
    start: dict[str, Any] | GraphState,
    choose: Callable[..., str] | None = None,
    workers: int | None = None,
) -> Played:
    """Run to the end, answering every question as the reference does. Raises ``Skipped`` for what Clew refuses."""
    try:
        if choose is None:
            result = engine.run(start, run_id=RUN, check=False)
        else:
            result = run_in_order(engine, start, choose=choose, workers=workers, run_id=RUN)
    except InputError as error:
        raise Skipped(str(error)) from error
    return _answered(engine, result)


def go_on(engine: Engine) -> Played:
    """Resume a run that was broken off, to its end."""
    result = engine.result(RUN)
    if result.status in ("running", "cancelled"):
        result = engine.resume(RUN, check=False)
    return _answered(engine, result)


def _answered(engine: Engine, result: RunResult) -> Played:
    for _ in range(200):
        if not result.questions:
            break
        result = engine.resume(
            RUN, answers={asked.path: answer(asked.question) for asked in result.questions}, check=False
        )
    played = Played(engine, result)
    confined = [outcome.error for step in played.steps for outcome in step.outcomes]
    for error in (result.error, *confined):
        if isinstance(error, DecisionError) and "no node writes that" in str(error):
            raise Skipped(str(error))
    return played


def play_shuffled(case: Case) -> Played:
    """In a shuffled order of completion, with one, two, three or any number of workers."""
    return play(case.engine(), case.given, random_order(case.seed), case.seed % 4 or None)


# ---- without context


def without_context(case: Case, after: int = 0) -> Graph | None:
    """The same graph of functions that take values only; None if it cannot be told without a context.

    Visit and index of a call come from the reference's chain, after some step: with one worker the calls of a node come
    in that order. A node that asks is called again after its answer, which no count of calls can tell.
    """
    model = case.model
    if any(part.kind == "interrupt" or part.behaviour.asks_at is not None for part in model.nodes):
        return None
    sent = {send.target for part in model.nodes for send in sends_of(part)}
    for part in model.nodes:
        if part.behaviour.late or (part.attempts > 1 and part.name in sent):
            return None  # of several items of a batch, those that wait for a retry are called last
    places: dict[str, list[tuple[int, int]]] = {name: [] for name in model.names}
    for step in case.expected.chain[after:]:
        for item in step:
            visit = int(item.path.rpartition("#")[2].partition("[")[0])
            places[item.node].append((visit, item.index))
    built = []
    for part, node in zip(model.nodes, case.graph.nodes.values(), strict=True):
        params = tuple(param for param in node.params if param.kind != "context")
        names = [param.name for param in params]
        func = _counting(model, part, places[part.name], names, case.expected.visits[part.name])
        built.append(replace(node, func=func, params=params))
    return quietly(lambda: assembled(model, built))


def _counting(
    model: MGraph, part: MNode, places: list[tuple[int, int]], names: list[str], visits: int
) -> Callable[..., Any]:
    calls = iter(places)
    beyond = (visits, 0)  # the step that was not committed
    retried: dict[tuple[int, int], int] = {}  # the item that is to be tried again, and how often it was

    def function(*values: Any) -> Any:
        nonlocal beyond
        place, attempt = retried.popitem() if retried else (next(calls, None), 0)
        if place is None:
            place, beyond = beyond, (beyond[0], beyond[1] + 1)
        if fails(part, *place, attempt) and attempt + 1 < part.attempts:
            retried[place] = attempt + 1
        seen = dict(zip(names, values, strict=True))
        if part.reads_state:
            seen["state"] = sorted(items_of(model, seen["state"]).items())
        result = act(model, part, *place, seen, attempt=attempt)
        if part.kind == "gate":
            return _real(result.decision)
        if part.goto:
            return Command(update=result.update, goto=_real(result.decision))
        if part.partial or not part.outputs:
            return result.update
        made = tuple(result.update[value] for value in part.outputs)
        return made[0] if len(made) == 1 else made

    return _of_no_package(function)


def _of_no_package(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls this one, and whose code hash does not follow it into the reference and the model."""
    names: dict[str, Any] = {"function": function}
    exec("def call(*values): return function(*values)", names)
    call: Callable[..., Any] = names["call"]
    return call


def _real(choice: Any) -> Any:
    if isinstance(choice, tuple):
        several = [Send(one[0], one[1]) if isinstance(one, tuple) else _real(one) for one in choice]
        return several if any(isinstance(one, tuple) for one in choice) else tuple(several)
    return CLEW_END if choice == END else choice
