"""A gate holds one selection: the last. Its Sends are final once a new turn of its loop has begun."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from clew import END, Command, Engine, Graph, GraphState, Send, ifelse, node, route
from clew.engine.history.reasons import Reason
from clew.errors import InputError, UnknownRunError
from clew.state import position_of


class Work(TypedDict, total=False):
    n: int
    region: str
    shops: list[str]
    job: Any
    done: Annotated[list[Any], operator.add]


class Rested(Work, total=False):
    rested: int


class Purchase(TypedDict, total=False):
    shops: list[str]
    budget: int
    offers: Annotated[list[int], operator.add]
    price: int


@node(output="n")
def count(n):
    return n + 1


@ifelse(when_true="count", when_false=END, after=["grade"])
def more(n):
    return n < 3


@node(output="result")
def high(n):
    return f"high {n}"


@node(output="result")
def low(n):
    return f"low {n}"


@node(output="done")
def work(job):
    return [job]


def graded(decide: Any, *, multi: bool = False) -> Graph:
    """A gate on the loop count → grade → more, with targets that are not on it."""
    grade = route(targets=["high", "low", END], name="grade", multi=multi)(decide)
    return Graph([count, grade, more, high, low])


class TestSelections:
    def test_a_gate_on_a_loop_runs_only_what_it_selected_last(self):
        @node(output="draft")
        def write(draft=""):
            return draft + "x"

        @route(targets=["publish", "shelve"])
        def triage(draft):
            return "publish" if len(draft) >= 3 else "shelve"

        @ifelse(when_true=END, when_false="write", after=["triage"])
        def enough(draft):
            return len(draft) >= 3

        @node(output="fate")
        def publish(draft):
            return f"published {draft}"

        @node(output="fate")
        def shelve(draft):
            return f"shelved {draft}"

        result = Graph([write, triage, enough, publish, shelve]).run()
        assert result.status == "completed"
        assert result["fate"] == "published xxx"
        assert result.never_ran == {"shelve": ()}

    @pytest.mark.parametrize("nothing", [END, None, [], ()])
    def test_end_and_nothing_withdraw_too(self, nothing):
        result = graded(lambda n: "low" if n < 2 else nothing).run(n=0)
        assert result.status == "completed"
        assert "result" not in result.values
        assert result.state.gate_decisions.get("grade") == ("END" if nothing is END else None)

    def test_a_confined_failure_withdraws_too(self):
        def decide(n):
            if n == 3:
                raise ValueError(n)
            return "low"

        result = Engine(graded(decide), on_error="continue").run({"n": 0})
        assert isinstance(result.error, ValueError)
        assert result.state.gate_decisions == {"more": "count"}
        assert position_of(result.state).selections == {}

    @pytest.mark.parametrize("nothing", [END, None])
    def test_a_selection_without_inputs_that_was_withdrawn_does_not_stall_the_run(self, nothing):
        @node(output="result")
        def wanting(n, z):
            return z

        @node(output="z")
        def source(n):
            return n

        decide = lambda n: "wanting" if n == 1 else nothing
        grade = route(targets=["wanting", "source", END], name="grade")(decide)
        climb = node(output="n", name="climb", after=["grade"], cutoff=True)(lambda n: min(n + 1, 3))
        result = Graph([climb, grade, wanting, source]).run(n=0)  # one node is due at a time
        assert (result.status, position_of(result.state).selections) == ("completed", {})

    def test_a_selection_by_another_gate_stays(self):
        again = route(targets=["low"], name="again")(lambda n: "low")
        grade = route(targets=["low", END], name="grade")(lambda n: "low" if n < 2 else END)
        assert Graph([count, grade, more, low, again]).run(n=0)["result"] == "low 3"


class TestSends:
    def test_what_is_sent_turn_after_turn_adds_up(self):
        grade = route(targets=["work"], name="grade")(lambda n: [Send("work", {"job": n})])
        engine = Engine(Graph([count, grade, more, work], state=Work))
        assert engine.run({"n": 0}, run_id="r")["done"] == [0, 1, 2, 3]
        for step in range(12):  # a write that no node reads changes nothing
            assert engine.fork("r", step=step, values={"region": "elsewhere"})["done"] == [0, 1, 2, 3], step

    def test_what_an_eager_gate_sends_adds_up(self):
        watch = route(targets=["work"], name="watch", eager=True)(lambda n: [Send("work", {"job": n})])
        tick = ifelse(when_true="count", when_false=END, name="tick")(lambda n: n < 3)
        assert Graph([count, tick, watch, work], state=Work).run(n=0)["done"] == [0, 1, 2, 3]

    def test_items_that_came_from_sends_decide_for_themselves(self):
        links = {"a": ["b", "c"], "b": ["d"], "c": [], "d": []}

        @node(output=(), goto=["fetch", "index"])
        def fetch(url):
            return Command(
                goto=[*(Send("fetch", {"url": to}) for to in links[url]), Send("index", {"url": url})]
            )

        @node(output="done")
        def index(url):
            return [url]

        class Site(TypedDict, total=False):
            url: str
            done: Annotated[list[str], operator.add]

        assert Graph([fetch, index], state=Site).run(url="a")["done"] == ["a", "b", "c", "d"]


class TestForks:
    def test_a_gate_that_decides_again_replaces_what_it_selected(self):
        find = route(targets=["ask"], name="find")(lambda shops: [Send("ask", {"shop": s}) for s in shops])

        @node(output="offers")
        def ask(shop):
            return [10 * len(shop)]

        @node(output="price")
        def haggle(offers, price=None):
            return min(offers) if price is None else price - 5

        @ifelse(when_true="haggle", when_false=END)
        def too_dear(price, budget):
            return price > budget

        engine = Engine(Graph([find, ask, haggle, too_dear], state=Purchase))
        engine.run({"shops": ["north", "south", "west"], "budget": 32}, run_id="first")
        fork = engine.fork("first", step=4, values={"budget": 1000}, run_id="second")
        assert [state.items for state in engine.history("first")][4] == ("too_dear#0",)
        assert [state.items for state in engine.history("second")][1:] == [("too_dear#1",)]
        assert fork["price"] == 40
        assert fork.state.gate_decisions["too_dear"] == "END"

    def test_a_gate_that_decides_again_replaces_what_it_sent(self):
        @node(output="shops")
        def find(region):
            return [f"{region}{i}" for i in range(2)]

        send = route(targets=["work"], name="send")(lambda shops: [Send("work", {"job": s}) for s in shops])
        engine = Engine(Graph([find, send, work], state=Work))
        engine.run({"region": "north"}, run_id="r")
        assert engine.fork("r", step=2, values={"region": "south"})["done"] == ["south0", "south1"]
        assert engine.fork("r", step=2, values={"shops": ["mine"]})["done"] == ["mine"]


class TestChangedGraphs:
    def test_a_gate_does_not_withdraw_what_it_decided_for_a_former_target(self):
        def built(*targets: Any, choice: Any) -> Graph:
            pick = route(targets=[*targets, END], name="pick")(lambda n: choice)
            return Graph([pick, other, work, rest], state=Rested)

        other = route(targets=["work", "rest", END], name="other")(lambda n: END)
        rest = node(output="rested", name="rest")(lambda n: n)
        sent = built("work", choice=[Send("work", {"job": "sent"})])
        chosen = built("rest", choice="rest")
        for before, done, rested in ((sent, ["sent"], None), (chosen, [], 2)):
            engine = Engine(before)
            engine.run({"n": 1}, run_id="r")
            state = engine.state("r", step=1).set("n", 2)
            former = "rest" if before is sent else "work"
            result = built(former, choice=END).run(state)
            assert (result["done"], result.get("rested")) == (done, rested)


class TestDecisionsByHand:
    def test_a_decision_by_hand_replaces_the_pending_one(self):
        grade = route(targets=["high", "low"], name="grade")(lambda n: "low")
        graph = Graph([grade, high, low])
        engine = Engine(graph)
        engine.run({"n": 1}, run_id="r")
        state = engine.state("r", step=1).record_gate_decision("grade", "high")
        assert graph.run(GraphState.from_checkpoint(state.to_checkpoint()))["result"] == "high 1"

    @pytest.mark.parametrize("nothing", [None, [], ()])
    def test_a_decision_by_hand_for_nothing_withdraws_too(self, nothing):
        grade = route(targets=["high", "low"], name="grade")(lambda n: "low")
        graph = Graph([grade, high, low])
        engine = Engine(graph)
        engine.run({"n": 1}, run_id="r")
        state = engine.state("r", step=1).record_gate_decision("grade", nothing)
        assert state.gate_decisions == {}
        for each in (state, GraphState.from_checkpoint(state.to_checkpoint())):
            assert "result" not in graph.run(each).values

    def test_a_decision_by_hand_needs_one_of_the_targets(self):
        grade = route(targets=["high"], name="grade")(lambda n: "high")
        with pytest.raises(InputError):
            Graph([grade, high]).run(GraphState({"n": 1}).record_gate_decision("grade", "low"))

    def test_a_decision_by_hand_for_nothing_needs_a_gate_too(self):
        with pytest.raises(InputError):
            Graph([high]).run(GraphState({"n": 1}).record_gate_decision("high", None))

    def test_a_decision_by_hand_replaces_what_was_sent(self):
        send = route(targets=["work", END], name="send")(lambda n: [Send("work", {"job": n})])
        graph = Graph([send, work], state=Work)
        engine = Engine(graph)
        engine.run({"n": 1}, run_id="r")
        assert graph.run(engine.state("r", step=1))["done"] == [1]
        assert graph.run(engine.state("r", step=1).record_gate_decision("send", "END"))["done"] == []


def decided(engine: Engine, run_id: str, target: str) -> list[Reason]:
    """The decisions among the reasons for which a node ran."""
    return [reason for reason in engine.why(run_id, target).reasons if reason.kind in ("selected", "sent")]


class TestWhy:
    def test_a_node_that_was_deselected_says_who_did(self):
        engine = Engine(graded(lambda n: "high" if n >= 2 else "low"))
        assert engine.run({"n": 0}, run_id="r")["result"] == "high 3"
        with pytest.raises(UnknownRunError, match="grade#1 selected it in step 4, and grade#2 replaced"):
            engine.why("r", "low")

    def test_only_the_selection_that_held_is_a_reason(self):
        engine = Engine(graded(lambda n: "low" if n == 2 else "high"))
        engine.run({"n": 0}, run_id="r")
        (reason,) = decided(engine, "r", "high")
        assert (reason.kind, reason.path, reason.instead_of) == ("selected", "grade#3", ("low",))
        assert str(reason).endswith("instead of 'low'")

    def test_a_selection_that_is_made_again_replaces_nothing_else(self):
        engine = Engine(graded(lambda n: "high"))
        engine.run({"n": 0}, run_id="r")
        (reason,) = decided(engine, "r", "high")
        assert (reason.path, reason.instead_of) == ("grade#3", ())

    def test_sends_that_a_fork_replaced_are_no_reasons(self):
        send = route(targets=["work", "rest"], name="send")(
            lambda n: [Send("work", {"job": n})] if n < 5 else "rest"
        )
        rest = node(output="rested", name="rest")(lambda n: n)
        engine = Engine(Graph([send, work, rest], state=Rested))
        engine.run({"n": 1}, run_id="r")
        engine.fork("r", step=1, values={"n": 2}, run_id="other")
        (reason,) = decided(engine, "other", "work")
        assert (reason.kind, reason.path, reason.instead_of) == ("sent", "send#1", ())
        engine.fork("r", step=1, values={"n": 5}, run_id="rested")
        (reason,) = decided(engine, "rested", "rest")
        assert (reason.kind, reason.path, reason.instead_of) == ("selected", "send#1", ("work",))
        with pytest.raises(UnknownRunError, match="send#0 sent to it in step 1, and send#1 replaced"):
            engine.why("rested", "work")

    def test_a_value_that_a_fork_brings_is_taken_into_account(self):
        @route(targets=["first", "second"])
        def pick(n, hint=""):
            return "second" if hint else "first"

        first = node(output="result", name="first")(lambda n, extra: f"first {extra}")
        second = node(output="result", name="second")(lambda n: "second")
        engine = Engine(Graph([pick, first, second]))
        engine.run({"n": 1, "extra": 0}, run_id="r")
        engine.fork("r", step=1, values={"hint": "!", "extra": 1}, run_id="other")
        assert engine.result("other")["result"] == "second"
        (reason,) = decided(engine, "other", "second")
        assert (reason.path, reason.instead_of) == ("pick#1", ("first",))

    def test_an_input_that_a_fork_brings_lets_a_node_run(self):
        grade = route(targets=["late"], name="grade")(lambda n: "late")
        late = node(output="result", name="late")(lambda n, missing: missing)
        report = node(output="report", name="report")(lambda result, missing=0: (result, missing))
        engine = Engine(Graph([grade, late, report]))
        assert engine.run({"n": 1}, run_id="r", check=False).status == "failed"
        assert engine.fork("r", step=1, values={"missing": 2}, run_id="other")["result"] == 2
        (reason,) = decided(engine, "other", "late")
        assert (reason.path, reason.instead_of) == ("grade#0", ())

    def test_a_decision_from_before_the_start_of_a_run_is_not_looked_for(self):
        engine = Engine(graded(lambda n: "high" if n >= 2 else "low"))
        engine.run({"n": 0}, run_id="r")
        engine.run(engine.state("r", step=4), run_id="later")
        assert engine.result("later")["result"] == "high 3"
        with pytest.raises(UnknownRunError, match="no gate has selected it"):
            engine.why("later", "low")


class TestEvents:
    def withdrawn(self, engine: Engine, start: Any) -> list[tuple[int, str, str, Any]]:
        events = engine.stream(start)
        return [(e.step, e.path, e.node, e.decision) for e in events if e.kind == "decision_withdrawn"]

    def test_a_selection_that_no_longer_holds_is_told(self):
        engine = Engine(graded(lambda n: "high" if n >= 2 else "low"))
        assert self.withdrawn(engine, {"n": 0}) == [(7, "grade#2", "grade", ("low",))]

    def test_a_send_that_no_longer_holds_is_told(self):
        send = route(targets=["work"], name="send")(lambda n: [Send("work", {"job": n})])
        engine = Engine(Graph([send, work], state=Work))
        engine.run({"n": 1}, run_id="r")
        state = engine.state("r", step=1).set("n", 2)
        assert self.withdrawn(engine, state) == [(2, "send#1", "send", (Send("work", {"job": 1}),))]

    def test_what_is_consumed_or_sent_turn_after_turn_is_not_withdrawn(self):
        grade = route(targets=["work"], name="grade")(lambda n: [Send("work", {"job": n})])
        assert self.withdrawn(Engine(Graph([count, grade, more, work], state=Work)), {"n": 0}) == []
