"""A run goes on with a schema that has gained fields, or with nodes that read more; it never leaves out its work."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any

import pytest

from clew import END, Engine, Graph, GraphState, ifelse, interrupt, node
from clew.errors import GraphChangedError, GraphWarning, InputError
from clew.runtime.log.checks.verification import problems
from clew.stores import MemoryStore, Store
from tests.store_fixtures import local_store

pytestmark = pytest.mark.filterwarnings("ignore::clew.errors.GraphWarning")  # of code that has changed too


store = local_store


@dataclass
class Talk:
    topic: str
    draft: str = ""
    answer: str = ""


_numbers = itertools.count()


@dataclass
class LongerTalk:
    topic: str
    draft: str = ""
    answer: str = ""
    language: str = "en"
    number: int = field(default_factory=lambda: next(_numbers))
    notes: Annotated[list[str], operator.add] = field(default_factory=list)
    text: str = ""


@node(output="draft")
def write(topic: str) -> str:
    return f"about {topic}"


@interrupt(output="answer")
def ask(draft: str) -> str:
    return "fine?"


@node(output="text")
def translate(answer: str, language: str, number: int) -> str:
    return f"{answer} in {language}"


@node(output="notes")
def note(answer: str) -> list[str]:
    return [answer]


def waiting(store: Store) -> None:
    result = Engine(Graph([write, ask], state=Talk), store=store).run({"topic": "tea"}, run_id="r")
    assert result.status == "waiting"


LONGER = Graph([write, ask, translate, note], state=LongerTalk)


def test_a_resumed_state_gets_the_defaults_of_new_fields(store: Store) -> None:
    waiting(store)
    engine = Engine(LONGER, store=store)
    result = engine.resume("r", answer="yes", accept_changes=True)
    assert (result.status, result["text"], result["notes"]) == ("completed", "yes in en", ["yes"])
    assert engine.state("r").get("language") == "en"
    assert engine.state("r").get_version("language") == 0


def test_defaults_are_written_once(store: Store) -> None:
    waiting(store)
    engine = Engine(LONGER, store=store)
    number = engine.resume("r", answer="yes", accept_changes=True)["number"]
    assert {engine.state("r").get("number") for _ in range(3)} == {number}
    assert {engine.result("r")["number"], engine.resume("r")["number"]} == {number}
    assert engine.history("r")[-1].values["number"] == number
    assert engine.replay("r").ok


def test_the_chain_is_valid_and_its_digests_are_what_they_were(store: Store) -> None:
    waiting(store)
    before = Engine(Graph([write, ask], state=Talk), store=store).history("r")
    engine = Engine(LONGER, store=store)
    engine.resume("r", answer="yes", accept_changes=True)
    after = engine.history("r")
    assert [each.digest for each in after[: len(before)]] == [each.digest for each in before]
    if store.encodes:
        assert list(problems(store, store.row("r"))) == []


def test_a_second_change_keeps_the_defaults_of_the_first(store: Store) -> None:
    waiting(store)
    longer = make_dataclass("Talk2", [("language", str, "en"), ("end", str, "")], bases=(Talk,))
    longest = make_dataclass("Talk3", [("tone", str, "dry")], bases=(longer,))

    def fail(answer: str) -> str:
        raise OSError(answer)

    def finish(answer: str) -> str:
        return answer

    first = Graph([write, ask, node(fail, name="last", output="end")], state=longer)
    assert (
        Engine(first, store=store).resume("r", answer="yes", accept_changes=True, check=False).status
        == "failed"
    )
    engine = Engine(Graph([write, ask, node(finish, name="last", output="end")], state=longest), store=store)
    result = engine.resume("r", accept_changes=True)
    assert (result.status, result["language"], result["tone"]) == ("completed", "en", "dry")
    assert (engine.state("r").get("language"), engine.state("r").get("tone")) == ("en", "dry")


def test_a_fork_gets_them_too(store: Store) -> None:
    waiting(store)
    engine = Engine(LONGER, store=store)
    result = engine.fork("r", values={"answer": "no"}, run_id="f")
    assert result.status == "waiting"
    assert engine.state("f").get("language") == "en"
    assert engine.state("f").get("number") == result["number"]
    done = engine.resume("f", answer="yes")
    assert (done.status, done["text"]) == ("completed", "yes in en")
    if store.encodes:
        assert list(problems(store, store.row("f"))) == []


def test_a_checkpoint_of_an_older_schema_gets_them() -> None:
    old = Graph([write, ask], state=Talk).run(topic="tea").state
    result = LONGER.run(GraphState.from_checkpoint(old.to_checkpoint()))
    assert (result.status, result["language"]) == ("waiting", "en")


def test_a_graph_inside_gets_them(store: Store) -> None:
    inner = Graph([write, ask], state=Talk, name="inner")
    assert Engine(Graph([inner.as_node()]), store=store).run({"topic": "tea"}, run_id="r").status == "waiting"
    graph = Graph([Graph([write, ask, translate], state=LongerTalk, name="inner").as_node()])
    engine = Engine(graph, store=store)
    result = engine.resume("r", answer="yes", accept_changes=True)
    assert (result.status, result["text"]) == ("completed", "yes in en")
    (checkpoint,) = [each for each in engine.history("r", nested=True) if each.nested]
    (chain,) = checkpoint.nested.values()
    assert chain[-1].values["language"] == "en"
    if store.encodes:
        assert list(problems(store, store.row("r"))) == []


# -- work that would be left out --------------------------------------------------------------------------


def refused(store: Store, graph: Graph, *message: str) -> None:
    engine = Engine(graph, store=store)
    with pytest.raises(GraphChangedError) as caught:
        engine.resume("r", answer="yes", accept_changes=True)
    assert all(repr(part) in str(caught.value) for part in message)
    assert engine.runs()[0].status == "waiting"


def asked(store: Store, *more: Any) -> None:
    assert (
        Engine(Graph([write, ask, *more]), store=store).run({"topic": "tea"}, run_id="r").status == "waiting"
    )


def test_a_new_input_that_nothing_provides_is_refused(store: Store) -> None:
    @node(output="text")
    def finish(answer: str) -> str:
        return answer

    @node(output="text", name="finish")
    def finish_more(answer: str, language: str) -> str:
        return answer

    asked(store, finish)
    refused(store, Graph([write, ask, finish_more]), "finish", "language")
    result = Engine(Graph([write, ask, finish]), store=store).resume("r", answer="yes")
    assert result["text"] == "yes"  # the answer was not used up


def test_a_required_field_is_refused(store: Store) -> None:
    waiting(store)
    state = make_dataclass("Talk4", [("topic", str), ("size", int), ("draft", str, ""), ("answer", str, "")])
    refused(store, Graph([write, ask], state=state), "size")


def test_an_output_that_a_node_had_not_when_it_ran_is_refused(store: Store) -> None:
    @node(output="text")
    def finish(answer: str) -> str:
        return answer

    @node(output=("draft", "size"), name="write")
    def write_more(topic: str) -> tuple[str, int]:
        return topic, 1

    @node(output="text", name="finish")
    def finish_more(answer: str, size: int) -> str:
        return answer

    asked(store, finish)
    refused(store, Graph([write_more, ask, finish_more]), "finish", "size")


def test_an_input_whose_only_writer_is_gone_is_refused(store: Store) -> None:
    @node(output="size")
    def measure(answer: str) -> int:
        return 1

    @node(output="text")
    def finish(answer: str, size: int) -> str:
        return answer

    asked(store, measure, finish)
    refused(store, Graph([write, ask, finish]), "finish", "size")


def test_what_a_new_node_will_write_is_provided(store: Store) -> None:
    @node(output="size")
    def measure(answer: str) -> int:
        return 1

    @node(output="text")
    def finish(answer: str, size: int) -> str:
        return f"{answer}{size}"

    asked(store)
    result = Engine(Graph([write, ask, measure, finish]), store=store).resume(
        "r", answer="yes", accept_changes=True
    )
    assert (result.status, result["text"]) == ("completed", "yes1")


def test_a_branch_that_was_not_taken_is_no_work_that_is_left_out(store: Store) -> None:
    @ifelse(when_true="long", when_false=END)
    def is_long(topic: str) -> bool:
        return False

    @node(output="size")
    def long(topic: str) -> int:
        return 1

    @node(output="text")
    def finish(answer: str, size: int) -> str:
        return answer

    @node(output="extra")
    def extra(answer: str) -> str:
        return answer

    asked(store, is_long, long, finish)
    result = Engine(Graph([write, ask, is_long, long, finish, extra]), store=store).resume(
        "r", answer="yes", accept_changes=True
    )
    assert (result.status, result["extra"], "text" in result) == ("completed", "yes", False)


def test_a_fork_that_lacks_an_input_is_refused(store: Store) -> None:
    waiting(store)
    state = make_dataclass("Talk5", [("topic", str), ("size", int), ("draft", str, ""), ("answer", str, "")])
    with pytest.raises(InputError, match="'size'"):
        Engine(Graph([write, ask], state=state), store=store).fork("r")


# -- lost fields ---------------------------------------------------------------------------------------------------


@dataclass
class TalkWithTone:
    topic: str
    tone: str
    volume: int = 3
    draft: str = ""
    answer: str = ""


def lost_in(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """What a call gives, and which of the two values it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    message = [str(each.message) for each in caught if issubclass(each.category, GraphWarning)]
    return found, {name for name in ("tone", "volume") for text in message if repr(name) in text}


@pytest.mark.parametrize("step", [0, 1])
def test_a_fork_drops_what_the_schema_no_longer_declares(store: Store, step: int) -> None:
    Engine(Graph([write, ask], state=TalkWithTone), store=store).run(
        {"topic": "ships", "tone": "loud"}, run_id="r"
    )
    engine = Engine(Graph([write, ask], state=Talk), store=store)
    forked, lost = lost_in(lambda: engine.fork("r", step=step, values={"topic": "boats"}, run_id="f"))
    assert lost == {"tone", "volume"}
    assert forked.status == "waiting"
    assert forked.values.keys() == {"topic", "draft", "answer"}
    assert engine.state("f", step=step).values.keys() == {"topic", "draft", "answer"}
    assert engine.resume("f", answer="yes")["answer"] == "yes"
    assert engine.replay("f").ok
    assert "volume" in engine.state("r").values
    again, lost = lost_in(lambda: engine.fork("f", run_id="g"))
    assert (again.values, lost) == (engine.state("f").values, set())
    if store.encodes:
        assert list(problems(store, store.row("f"))) == []


def test_a_fork_that_lost_fields_can_be_rerun_and_exported(store: Store) -> None:
    Engine(Graph([write, ask], state=TalkWithTone), store=store).run(
        {"topic": "ships", "tone": "loud"}, run_id="r"
    )
    engine = Engine(Graph([write, ask], state=Talk), store=store)
    lost_in(lambda: engine.fork("r", step=0, run_id="f"))
    engine.resume("f", answer="yes")
    assert engine.rerun("f", run_id="again").values.keys() == {"topic", "draft", "answer"}
    elsewhere = Engine(store=MemoryStore())
    elsewhere.import_run(engine.export_run("f"))
    assert elsewhere.state("f").digest == engine.state("f").digest
    assert elsewhere.state("f").values == engine.state("f").values


def test_a_rerun_drops_what_the_schema_no_longer_declares(store: Store) -> None:
    Engine(Graph([write, ask], state=TalkWithTone), store=store).run(
        {"topic": "ships", "tone": "loud"}, run_id="r"
    )
    engine = Engine(Graph([write, ask], state=Talk), store=store)
    rerun, lost = lost_in(lambda: engine.rerun("r"))
    assert (rerun.status, "tone" in lost) == ("waiting", True)


def test_a_fork_drops_an_input_that_no_node_reads_any_more(store: Store) -> None:
    @node(output="draft", name="write")
    def write_in_a_tone(topic: str, tone: str) -> str:
        return f"{tone} about {topic}"

    Engine(Graph([write_in_a_tone, ask]), store=store).run({"topic": "ships", "tone": "loud"}, run_id="r")
    engine = Engine(Graph([write, ask]), store=store)
    forked, lost = lost_in(lambda: engine.fork("r", step=0, run_id="f"))
    assert (lost, forked["draft"]) == ({"tone"}, "about ships")
    assert "tone" not in engine.state("f").values


def test_a_fork_that_is_given_what_the_schema_does_not_declare_is_refused(store: Store) -> None:
    engine = Engine(Graph([write, ask], state=Talk), store=store)
    engine.run({"topic": "ships"}, run_id="r")
    with pytest.raises(InputError):
        engine.fork("r", values={"tone": "loud"})


# -- another graph -------------------------------------------------------------------------------------------------


@node(output="printed")
def print_out(draft: str) -> str:
    return f"*{draft}*"


@pytest.mark.parametrize(
    "changed",
    [Graph([write, ask, print_out]), Graph([write, ask], state=Talk), Graph([write, ask], entry="write")],
)
def test_another_graph_is_refused_unless_it_is_accepted(store: Store, changed: Graph) -> None:
    before = Engine(Graph([write, ask]), store=store)
    before.run({"topic": "ships"}, run_id="r")
    digests = [each.digest for each in before.history("r")]
    engine = Engine(changed, store=store)
    with pytest.raises(GraphChangedError):
        engine.resume("r", answer="yes")
    assert [each.digest for each in engine.history("r")] == digests
    assert engine.result("r").status == "waiting"
    result = engine.resume("r", answer="yes", accept_changes=True)
    assert (result.status, result["answer"]) == ("completed", "yes")
    assert [each.digest for each in engine.history("r")][:2] == digests
    assert engine.replay("r").ok
    with pytest.raises(GraphChangedError):
        before.resume("r", answer="yes")


def test_an_equal_graph_is_not_another_one(store: Store) -> None:
    Engine(Graph([write, ask]), store=store).run({"topic": "ships"}, run_id="r")
    assert Engine(Graph([write, ask]), store=store).resume("r", answer="yes")["answer"] == "yes"
