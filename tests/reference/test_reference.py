"""The reference itself: the statements of the documentation as exact chains, and laws on up to 10,000 random
graphs.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, Literal

import pytest

from clew.errors import GraphError
from tests.campaigns import first
from tests.reference.generate import Knobs, random_graph, to_clew, visit_and_index
from tests.reference.interpreter import Outcome, interpret
from tests.reference.loops import Layout, analyse, strongly_connected
from tests.reference.model import DEFAULT, END, Behaviour, Choice, MGraph, MNode, MSend, act


def node(name: str, reads: str = "", writes: str = "", **options: Any) -> MNode:
    """Reads and writes are given as words; an input with a question mark has a default."""
    inputs = tuple((word.rstrip("?"), word.endswith("?")) for word in reads.split())
    return MNode(name, inputs, tuple(writes.split()), **options)


def gate(name: str, reads: str, targets: str, *script: Choice, then: Choice = END, **options: Any) -> MNode:
    behaviour = Behaviour(script=script, then=then)
    return node(name, reads, kind="gate", targets=tuple(targets.split()), behaviour=behaviour, **options)


def run(*nodes: MNode, given: Collection[str] = ("x",), **options: Any) -> Outcome:
    run_options = {key: options.pop(key) for key in ("max_steps", "on_error") if key in options}
    reducers = options.get("reducers", frozenset())
    values: dict[str, Any] = {name: [0] if name in reducers else 0 for name in given}
    return interpret(MGraph(nodes, **options), values, **run_options)


def chain(*nodes: MNode, **options: Any) -> str:
    """The chain in one line: paths with blanks between, steps with bars; the run must complete."""
    outcome = run(*nodes, **options)
    assert outcome.status == "completed", outcome.error
    return " | ".join(" ".join(step) for step in outcome.paths)


# ---- what follows from the rules


def test_a_join_of_uneven_branches_runs_once() -> None:
    short, long, longer = node("short", "x", "s"), node("long", "x", "l"), node("longer", "l", "m")
    assert chain(node("join", "s m"), short, long, longer) == "short#0 long#0 | longer#0 | join#0"


def test_a_consumer_with_a_default_waits_for_a_producer_that_may_still_come() -> None:
    answer, rewrite = node("answer", "x better?", "out"), node("rewrite", "x", "better")
    assert (
        chain(answer, gate("check", "x", "rewrite END", "rewrite"), rewrite)
        == "check#0 | rewrite#0 | answer#0"
    )
    assert chain(answer, gate("check", "x", "rewrite END", END), rewrite) == "check#0 | answer#0"


def test_after_both_runs_after_whichever_was_chosen() -> None:
    nodes = node("a", "x", "va"), node("b", "x", "vb"), node("tail", after=("a", "b"))
    assert chain(gate("g", "x", "a b", "a"), *nodes) == "g#0 | a#0 | tail#0"
    assert chain(gate("g", "x", "a b", "b"), *nodes) == "g#0 | b#0 | tail#0"
    assert chain(gate("g", "x", "a b", ("a", "b"), multi=True), *nodes) == "g#0 | a#0 b#0 | tail#0"
    assert chain(gate("g", "x", "a b", END), *nodes) == "g#0"


def test_a_gate_never_sees_half_of_a_turn() -> None:
    nodes = (
        node("draft", "x", "d"),
        node("quick", "d", "q"),
        node("slow", "d", "s"),
        node("slower", "s", "t"),
        gate("good", "q t", "draft END", "draft"),
    )
    turn = "draft#{0} | quick#{0} slow#{0} | slower#{0} | good#{0}"
    assert chain(*nodes) == f"{turn.format(0)} | {turn.format(1)}"


def test_what_hangs_off_a_loop_runs_once_and_every_turn_when_eager() -> None:
    draft, good = node("draft", "x", "d"), gate("good", "d", "draft END", "draft", "draft")
    loop = "draft#0 | good#0 | draft#1 | good#1 | draft#2 | good#2"
    assert chain(draft, good, node("publish", "d")) == f"{loop} | publish#0"
    assert chain(draft, good, node("log", "d", eager=True)) == (
        "draft#0 | good#0 log#0 | draft#1 | good#1 log#1 | draft#2 | good#2 log#2"
    )
    assert chain(draft, replace(good, after=("log",)), node("log", "d", "line")) == (
        "draft#0 | log#0 | good#0 | draft#1 | log#1 | good#1 | draft#2 | log#2 | good#2"
    )


def test_end_leaves_living_siblings_alone() -> None:
    outcome = run(
        gate("stop", "x", "a END"), node("a", "x", "va"), node("b", "x", "vb"), node("c", "vb", "vc")
    )
    assert outcome.paths == [["stop#0", "b#0"], ["c#0"]]
    assert (outcome.terminated, outcome.status) == (True, "completed")
    assert (outcome.decisions, outcome.never_ran) == ({"stop": "END"}, {"a": ()})


def test_a_target_without_inputs_runs_again_when_it_is_selected_again() -> None:
    assert chain(node("ping", "", "p"), gate("again", "p", "ping END", "ping", "ping")) == (
        "ping#0 | again#0 | ping#1 | again#1 | ping#2 | again#2"
    )


def test_draft_judge_gate_runs_draft_on_the_decision_and_not_on_the_feedback() -> None:
    nodes = (
        node("draft", "x feedback?", "text"),
        node("judge", "text", "feedback"),
        gate("good", "feedback", "draft END", "draft"),
    )
    turn = "draft#{0} | judge#{0} | good#{0}"
    assert chain(*nodes) == f"{turn.format(0)} | {turn.format(1)}"


AGENT = (
    node("llm", "messages", "messages"),
    gate("more", "messages", "tools END", "tools"),
    node("tools", "messages", "messages"),
)


@pytest.mark.parametrize("reducers", [frozenset(), frozenset(["messages"])])
def test_of_two_that_start_a_turn_of_one_loop_the_upper_goes_first(reducers: frozenset[str]) -> None:
    """An agent over one list: ``tools`` wakes both ``llm`` and ``more``, and the gate must see the reply."""
    assert chain(*AGENT, given=["messages"], reducers=reducers) == (
        "llm#0 | more#0 | tools#0 | llm#1 | more#1"
    )


def test_nested_loops_settle_from_the_inside() -> None:
    nodes = (
        node("plan", "x", "p"),
        node("work", "p", "w"),
        gate("check", "w", "work review", "work", "review", "review"),
        gate("review", "w", "plan END", "plan"),
        node("report", "w p"),
    )
    first = "plan#0 | work#0 | check#0 | work#1 | check#1 | review#0"
    assert chain(*nodes) == f"{first} | plan#1 | work#2 | check#2 | review#1 | report#0"


def test_a_chain_of_gates() -> None:
    nodes = gate("kind", "x", "size a", "size"), gate("size", "x", "a b", "b"), node("a", "x"), node("b", "x")
    assert chain(*nodes) == "kind#0 | size#0 | b#0"


def test_while_and_do_while() -> None:
    count = node("step", "n", "n")
    assert chain(count, gate("more", "n", "step END", "step", "step"), given=["n"]) == (
        "more#0 | step#0 | more#1 | step#1 | more#2"
    )
    assert (
        chain(node("step", "x", "n"), gate("more", "n", "step END", "step"))
        == "step#0 | more#0 | step#1 | more#1"
    )


FAN = (
    gate("fan", "x", "scan", (MSend("scan", ("q",)), MSend("scan", ("q",))), (MSend("scan", ("q",)),)),
    node("scan", "q", "found"),
    gate("enough", "found", "fan END", "fan", "fan"),
)


def test_sends_inside_a_loop() -> None:
    reducers = frozenset(["found"])
    assert chain(*FAN, reducers=reducers, entry=("fan",)) == (
        "fan#0 | scan#0[0] scan#0[1] | enough#0 | fan#1 | scan#1[0] | enough#1 | fan#2"
    )
    # `found` starts empty, so the gate can decide at once, and goes first
    assert chain(*FAN, reducers=reducers) == (
        "enough#0 | fan#0 | scan#0[0] scan#0[1] | enough#1 | fan#1 | scan#1[0] | enough#2"
    )


def test_a_supervisor_with_fan_out() -> None:
    send = MSend("worker", ("task",))
    nodes = (
        node("report", "results", "text"),
        gate("supervisor", "results", "worker END", (send, send, send), (send,)),
        node("worker", "task", "results"),
    )
    outcome = run(*nodes, reducers=frozenset(["results"]))
    assert outcome.paths == [
        ["supervisor#0"],
        ["worker#0[0]", "worker#0[1]", "worker#0[2]"],
        ["supervisor#1"],
        ["worker#1[0]"],
        ["supervisor#2"],
        ["report#0"],
    ]
    assert (outcome.versions["results"], len(outcome.values["results"])) == (4, 4)


# ---- single rules


def test_a_batch_has_the_plain_item_first_then_sends_by_declaration_of_the_gate() -> None:
    nodes = (
        node("all", "log q?", "seen"),
        gate("g2", "x", "all", (MSend("all", ("q",)),)),
        gate("g1", "x", "all", "all"),
        gate("g0", "x", "all", (MSend("all", ("q",)), MSend("all"))),
    )
    outcome = run(*nodes, reducers=frozenset(["log", "seen"]))
    assert outcome.paths == [["g2#0", "g1#0", "g0#0"], ["all#0[0]", "all#0[1]", "all#0[2]", "all#0[3]"]]
    sent = [outcome.chain[0][i].decision[j][1].get("q", DEFAULT) for i, j in [(0, 0), (2, 0), (2, 1)]]
    everyone = MGraph(nodes, reducers=frozenset(["log", "seen"]))
    expected = [
        act(everyone, nodes[0], 0, index, {"log": [], "q": q}).update
        for index, q in enumerate([DEFAULT, *sent])
    ]
    assert [item.update for item in outcome.chain[1]] == expected


def test_all_nodes_that_a_gate_outside_targets_are_heads() -> None:
    nodes = (
        gate("door", "x", "a b", "b"),
        gate("a", "x", "b END", "b"),
        gate("b", "x", "a END", "a"),
    )
    layout = analyse(MGraph(nodes), ["x"])
    assert [loop.heads for loop in layout.loops] == [{"a", "b"}]
    assert chain(*nodes) == "door#0 | b#0 | a#0 | b#1"


def test_a_loop_that_nothing_can_start_is_refused() -> None:
    outcome = run(node("a", "vb", "va"), node("b", "va", "vb"))
    assert (outcome.status, outcome.error) == ("refused", ("InputError", None))


def test_a_goto_node_writes_and_routes() -> None:
    goto = node("plan", "x", "p", goto=("do", END), behaviour=Behaviour(script=("do",)))
    outcome = run(goto, node("do", "p", "d"), node("other", "p"))
    assert outcome.paths == [["plan#0"], ["do#0", "other#0"]]
    assert outcome.decisions == {"plan": "do"}


def test_cutoff_stops_an_equal_value_but_not_the_first_write() -> None:
    still = Behaviour(distinct=1)
    nodes = (
        node("make", "x", "same", cutoff=True, behaviour=still),
        gate("again", "same", "make END", "make"),
    )
    assert chain(*nodes) == "make#0 | again#0 | make#1"
    # a default that does not count (somebody writes the value) was never there to be read
    seeded = run(*nodes[:1], node("use", "same"), schema_defaults=(("same", 0),))
    assert (seeded.paths, seeded.versions["same"]) == ([["make#0"], ["use#0"]], 1)


def test_a_schema_default_counts_where_no_node_writes_the_value() -> None:
    assert chain(node("use", "mode", "u"), given=[], schema_defaults=(("mode", 1),)) == "use#0"
    held = run(
        gate("g", "x", "make END"),
        node("make", "x", "mode"),
        node("use", "mode"),
        schema_defaults=(("mode", 1),),
    )
    assert (held.never_ran, held.status) == ({"make": (), "use": ("mode",)}, "completed")


def test_two_writers_in_one_step_conflict() -> None:
    outcome = run(node("a", "x", "v"), node("b", "x", "v"))
    assert (outcome.status, outcome.error, outcome.paths) == ("failed", ("ConflictError", None), [])


def test_a_selected_node_that_never_gets_its_inputs_stalls() -> None:
    outcome = run(gate("g", "x", "a", "a"), node("a", "nobody"))
    assert (outcome.error, outcome.pending) == (("StalledError", None), {"a": ((("g", False),), ())})
    assert outcome.never_ran == {"a": ("nobody",)}


def test_a_loop_that_never_settles_ends_at_max_steps() -> None:
    outcome = run(node("a", "x v?", "w"), node("b", "w", "v"), max_steps=7)
    assert (outcome.error, len(outcome.chain)) == (("MaxStepsError", None), 7)


def test_a_failure_stops_the_run_or_only_what_is_behind_it() -> None:
    broken = node("a", "x", "va", behaviour=Behaviour(fails_at=(0, 0)))
    nodes = broken, node("b", "x", "vb"), node("c", "vb", "vc"), node("d", "va? vb")
    outcome = run(*nodes)
    assert (outcome.error, outcome.paths) == (("Broken", "a"), [])
    outcome = run(*nodes, on_error="continue")
    assert (outcome.status, outcome.error) == ("completed", ("Broken", "a"))
    assert outcome.paths == [["a#0", "b#0"], ["c#0"]]


def test_a_question_is_answered_as_a_function_of_the_question() -> None:
    outcome = run(node("ask", "x", "a", kind="interrupt"), node("use", "a", behaviour=Behaviour(asks_at=0)))
    assert outcome.paths == [["ask#0"], ["use#0"]]
    assert outcome.values["a"] in range(7)


# ---- laws on random graphs


def when(outcome: Outcome, name: str) -> list[int]:
    """The steps in which the node ran."""
    return [k for k, step in enumerate(outcome.chain) if any(item.node == name for item in step)]


def check_no_decision_is_lost(graph: MGraph, outcome: Outcome) -> None:
    """Every batch consumes what was decided before its step, exactly; what is left over is what is pending. A plain
    item withdraws what its node's plain items selected before, and no Send is ever withdrawn.
    """
    plain: dict[str, set[tuple[str, bool]]] = {name: set() for name in graph.names}
    sent: dict[str, list[dict[str, Any]]] = {name: [] for name in graph.names}
    for step in outcome.chain:
        with_plain_item = set()
        for name in {item.node for item in step}:
            size = sum(item.node == name for item in step)
            assert size - len(sent[name]) in ([1] if plain[name] else [0, 1]), (name, step)
            if size > len(sent[name]):
                with_plain_item.add(name)
            plain[name], sent[name] = set(), []
        for selected in plain.values():
            selected -= {(name, False) for name in with_plain_item}
        for item in step:
            came_from_send = item.node not in with_plain_item or item.index > 0
            parts = item.decision if isinstance(item.decision, tuple) else (item.decision,)
            for part in parts:
                if isinstance(part, tuple):
                    sent[part[0]].append(part[1])
                elif part is not None and part != END:
                    plain[part].add((item.node, came_from_send))
    left = {name: tuple(sorted(plain[name])) for name in graph.names if plain[name] or sent[name]}
    assert left == {name: selections for name, (selections, _) in outcome.pending.items()}
    for name, (_, sends) in outcome.pending.items():
        assert sorted(repr(payload) for _, payload, _ in sends) == sorted(map(repr, sent[name]))


def check_every_run_has_a_cause(graph: MGraph, layout: Layout, outcome: Outcome) -> None:
    """No node runs twice for one change: between two of its runs somebody selected it, ran before it, or
    wrote for it.
    """

    def selects(decision: Any, name: str) -> bool:
        parts = decision if isinstance(decision, tuple) else (decision,)
        return any((part[0] if isinstance(part, tuple) else part) == name for part in parts)

    for name in graph.names:
        steps = when(outcome, name)
        for last, this in pairwise(steps):
            items = [item for step in outcome.chain[last:this] for item in step]
            selected = any(selects(item.decision, name) for item in items)
            followed = any((item.node, name) in layout.links.control for item in items)
            read = graph.node(name).reads
            changed = any(item.node != name and any(v in item.update for v in read) for item in items)
            assert selected or followed or changed, (name, last, this)


def check_once_off_loops_and_once_a_turn(graph: MGraph, layout: Layout, outcome: Outcome) -> None:
    """What is on no loop runs once; what is on a loop runs again only after a turn of it, or of one around
    it, began.
    """
    for name in graph.names:
        loops = layout.loops_with(name)
        turners = {head for (_, head), loop in layout.back.items() if loop in loops}
        if graph.node(name).eager or name in turners:
            continue
        steps = when(outcome, name)
        begun = {k for head in turners for k in when(outcome, head)}
        for last, this in pairwise(steps):
            assert any(last <= k < this for k in begun), (name, last, this)


def check_forward_links_are_acyclic(layout: Layout) -> None:
    assert not strongly_connected({name for pair in layout.forward for name in pair}, layout.forward)


def check_laws(seeds: range) -> None:
    eventful = 0
    for seed in seeds:
        graph, given = random_graph(Random(seed))
        on_error: Literal["stop", "continue"] = "continue" if seed % 2 else "stop"
        outcome = interpret(graph, given, max_steps=60, on_error=on_error)
        layout = analyse(graph, given)
        check_forward_links_are_acyclic(layout)
        check_no_decision_is_lost(graph, outcome)
        check_every_run_has_a_cause(graph, layout, outcome)
        check_once_off_loops_and_once_a_turn(graph, layout, outcome)
        eventful += len(outcome.chain) > 1
    assert eventful > len(seeds) * 0.7


@pytest.mark.parametrize("part", first(3, of=10))
def test_laws_on_random_graphs(part: int) -> None:
    """1,000 graphs in each part. A deadlock is an assertion inside ``interpret``."""
    check_laws(range(part * 1000, part * 1000 + 1000))


def test_random_graphs_are_reproducible() -> None:
    assert random_graph(Random(7)) == random_graph(Random(7))
    graph, given = random_graph(Random(7))
    assert interpret(graph, given) == interpret(graph, given)


def test_most_random_graphs_are_graphs_of_clew() -> None:
    refused = 0
    for seed in range(300):
        graph, _ = random_graph(Random(seed), Knobs())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = to_clew(graph)
        except GraphError:
            refused += 1
        else:
            assert tuple(made.nodes) == graph.names
    assert refused < 150


def test_paths_are_read_back() -> None:
    assert visit_and_index("scan#2") == (2, 0)
    assert visit_and_index("outer#0/scan#1[13]") == (1, 13)
