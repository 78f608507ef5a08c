"""The JSON API, compared with what the engine says about the same runs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote

import msgspec
import pydantic
import pytest
from starlette.testclient import TestClient

from clew import Context, Engine, Graph, SQLiteStore, Worker, interrupt, node
from clew.testing import VirtualClock
from tests.browser import flows
from tests.browser.filled import engine_of
from tests.browser.flows import HOSTILE


def get(client: TestClient, path: str, status: int = 200, **params: Any) -> Any:
    answer = client.get(f"/api/{path}", params=params)
    assert answer.status_code == status, answer.text
    assert answer.headers["clew-api"] == "1"
    return answer.json()


def post(client: TestClient, path: str, body: Any, status: int = 202) -> Any:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def ids(page: Any) -> list[str]:
    return [row["id"] for row in page["runs"]]


def work(store: SQLiteStore, *graphs: Graph) -> None:
    Worker(list(graphs), store=store, grace=0.0).run(until_idle=True)


# -- the list ----------------------------------------------------------------------------------------------------------


def test_the_list_shows_newest_runs_first_with_what_they_say(client: TestClient) -> None:
    page = get(client, "runs")
    rows = {row["id"]: row for row in page["runs"]}
    assert ids(page)[:2] == ["letter-queued", HOSTILE]
    assert page["counts"] == {
        "all": 11,
        "completed": 5,
        "failed": 1,
        "queued": 1,
        "waiting": 4,
        "needs_me": 5,
    }
    assert rows["invoice-2207"]["says"]["type"] == "KeyError"
    assert rows["ticket-8841"]["says"]["text"] == "Refund 64.90 € for order A-10423?"
    assert rows["walk-77-short"]["says"]["kind"] == "fork"
    assert (rows["walk-77"]["steps"], rows["ticket-8841"]["attributes"]) == (121, {"tenant": "acme"})


@pytest.mark.parametrize("query, limit", [("", 1), ("", 3), ("graph:w", 1), ("-graph:walk", 2), ("a", 4)])
@pytest.mark.parametrize("sort", ["-started", "started", "-steps", "id"])
def test_pages_list_each_run_once(client: TestClient, query: str, limit: int, sort: str) -> None:
    everything = ids(get(client, "runs", q=query, sort=sort))
    found, cursor = list[str](), None
    while True:
        page = get(client, "runs", q=query, sort=sort, limit=limit, **({"after": cursor} if cursor else {}))
        found += ids(page)
        cursor = page["next"]
        if cursor is None:
            break
    assert found == everything


@pytest.mark.parametrize(
    "query, found",
    [
        ("CHF", {"invoice-2207"}),
        ("status:failed", {"invoice-2207"}),
        ("status:needs-me -graph:letter", {"invoice-2207", "ticket-8841"}),
        ("error:keyerror", {"invoice-2207"}),
        ("attr:tenant=acme", {"ticket-8841"}),
        ("steps:>100", {"walk-77"}),
        ("steps:<=41 graph:walk", {"walk-77-short"}),
        ("parent:walk-77", {"walk-77-short"}),
        ("is:fork", {"walk-77-short"}),
        ("is:queued", {"letter-queued"}),
        ("queue:default", {"letter-queued"}),
        ("queue:mail", set()),
        ("node:sum_up", {"invoice-2207", "invoice-2199"}),
        ("value:upto=20", {"walk-77-short"}),
        ('"onerror=alert"', {HOSTILE}),
        ("took:>1h", set()),
        ("after:1h status:completed graph:audit", {"audit-0931"}),
        ("before:2001-01-01", set()),
    ],
)
def test_a_query_selects(client: TestClient, query: str, found: set[str]) -> None:
    page = get(client, "runs", q=query)
    assert set(ids(page)) == found
    assert [part["error"] for part in page["query"]] == [None] * len(page["query"])


@pytest.mark.parametrize(
    "part", ["foo:1", "status:done", "took:>fast", "steps:x", "attr:x", "is:old", "after:when"]
)
def test_an_invalid_part_is_marked_and_the_rest_works(client: TestClient, part: str) -> None:
    page = get(client, "runs", q=f"graph:walk {part}")
    assert set(ids(page)) == {"walk-77", "walk-77-short"}
    wrong = page["query"][1]
    assert wrong["error"]
    assert (wrong["start"], wrong["end"]) == (11, 11 + len(part))


def test_errors_have_a_type_and_a_hint(client: TestClient) -> None:
    assert get(client, "runs", 400, sort="age")["error"]["type"] == "InputError"
    assert get(client, "runs/nobody", 404)["error"]["type"] == "UnknownRunError"
    assert get(client, "nothing", 404)["error"]["type"] == "UnknownAddress"
    assert get(client, "runs/walk-77/state/500", 404)["error"]["type"] == "UnknownRunError"
    assert get(client, "runs/walk-77/values/1/nothing", 404)["error"]["type"] == "UnknownValueError"
    assert get(client, "runs", 400, after="%%%")["error"]["type"] in ("InputError", "StoreError")


# -- one run -----------------------------------------------------------------------------------------------------------


def test_the_header_of_a_run_that_asks(client: TestClient) -> None:
    run = get(client, "runs/ticket-8841")
    assert (run["status"], run["first"], run["last"], run["calls"], run["retries"]) == ("waiting", 0, 9, 9, 2)
    assert next(verb["verb"] for verb in run["verbs"]) == "answer"
    assert {verb["verb"]: verb["enabled"] for verb in run["verbs"]}["resume"] is False
    (question,) = run["questions"]
    assert question["title"] == "Refund 64.90 € for order A-10423?"
    assert question["schema"]["$defs"]["Decision"]["required"] == ["action", "amount"]
    assert question["next"] == ["send"]
    assert run["worker"]["available"] is False
    assert "clew worker tests.browser.flows:support" in run["worker"]["command"]


def test_the_header_of_a_run_that_failed_has_the_users_frames(client: TestClient) -> None:
    run = get(client, "runs/invoice-2207")
    (failure,) = run["failures"]
    assert (failure["type"], failure["path"], failure["attempts"]) == ("KeyError", "sum_up#0", 3)
    assert {frame["function"] for frame in failure["traceback"] if frame["own"]} >= {"sum_up"}
    assert failure["started"]
    assert any(not frame["own"] for frame in failure["traceback"])
    assert next(verb["verb"] for verb in run["verbs"]) == "resume"


def test_forks_and_parents(client: TestClient) -> None:
    assert get(client, "runs/walk-77")["forks"] == [
        {"id": "walk-77-short", "step": 10, "status": "completed"}
    ]
    assert get(client, "runs/walk-77-short")["parent"] == {"id": "walk-77", "step": 10}


def test_ids_with_slashes_and_dots(client: TestClient, store: SQLiteStore) -> None:
    engine = Engine(flows.letter, store=store)
    for run_id in ("a/b", "..", ".", "~x", "a%2Fb", "ü🧵"):
        engine.run({"text": "t"}, run_id=run_id)
        mark = "~" if run_id in ("..", ".") or run_id.startswith("~") else ""
        assert get(client, f"runs/{mark}{quote(run_id, safe='')}")["id"] == run_id


def test_the_graph_has_every_node_and_no_gap_in_its_arrows(client: TestClient) -> None:
    graph = get(client, "runs/ticket-8841/graph")
    assert {box["name"] for box in graph["boxes"]} >= {"think", "approve", "send", "ticket"}
    assert {node["name"]: node["kind"] for node in graph["nodes"]}["approve"] == "interrupt"
    assert all(arrow["path"].count("M") == 1 for arrow in graph["arrows"])
    assert graph["state"]["fields"]["plan"]["type"] == "list[str]"


def test_items_are_those_of_the_history(client: TestClient, store: SQLiteStore) -> None:
    for run_id in ("ticket-8842", "audit-0931", "walk-77", "walk-77-short"):
        first = get(client, f"runs/{run_id}")["first"] + 1
        items = get(client, f"runs/{run_id}/items", **{"from": first, "to": 1000})
        history = Engine(store=store).history(run_id)
        expected = [(path, point.step_id) for point in history for path in point.items]
        assert list(zip(items["columns"]["path"], items["columns"]["step"])) == expected
        assert items["open"] == []


def test_windows_of_items_join(client: TestClient) -> None:
    whole = get(client, "runs/walk-77/items", **{"from": 1, "to": 500})["columns"]["path"]
    found, first = list[str](), 1
    while first is not None:
        window = get(client, "runs/walk-77/items", **{"from": first, "to": first + 6})
        found += window["columns"]["path"]
        first = window["next"]
    assert found == whole


LOST = """
import os, sys
from clew import Engine, Graph, Send, SQLiteStore, node, route

@route(targets=["work"])
def each(parts: int):
    return [Send("work", {"part": part}) for part in range(parts)]

@node(output="done")
def work(part: int):
    os._exit(0)

Engine(Graph([each, work]), store=SQLiteStore(sys.argv[1])).run({"parts": 3}, run_id="gone")
"""


def test_an_invalid_cursor_of_questions_is_an_invalid_parameter(client: TestClient) -> None:
    assert get(client, "questions", 400, after="zzz")["error"]["type"] == "InputError"


def test_a_status_that_no_run_has_is_not_counted(client: TestClient, store: SQLiteStore) -> None:
    assert "running" not in get(client, "runs")["counts"]
    store._db.execute("UPDATE runs SET status = 'running' WHERE run_id = 'walk-77'")  # without an owner
    counts = get(client, "runs")["counts"]
    assert counts["lost"] == 1
    assert "running" not in counts


def test_items_that_a_run_does_not_have_are_not_explained(client: TestClient) -> None:
    for item in ("scan#0", "scan#0[900]", "scan#7"):
        assert get(client, "runs/audit-0931/why", 404, item=item)["error"]["type"] == "UnknownRunError"
    assert get(client, "runs/audit-0931/why", item="scan#0[3]")["items"]["scan#0[3]"]["state"] == "done"


def test_an_answered_question_that_waits_for_a_worker_is_no_longer_open(client: TestClient) -> None:
    def is_listed() -> bool:
        return any(each["run"] == "letter-331" for each in get(client, "questions")["questions"])

    def answer_verb() -> Any:
        return next(each for each in get(client, "runs/letter-331")["verbs"] if each["verb"] == "answer")

    before = get(client, "")["counts"]["questions"]
    assert before == len(get(client, "questions")["questions"])
    assert is_listed()
    assert answer_verb()["enabled"]
    post(client, "runs/letter-331/answer", {"answer": True})
    assert get(client, "")["counts"]["questions"] == before - 1
    assert not is_listed()
    assert not answer_verb()["enabled"]
    (row,) = get(client, "runs", q="letter-331")["runs"]
    assert (row["status"], row["says"]["kind"]) == ("waiting", "queued")
    assert get(client, "runs/letter-331/questions/ask_editor%230")["sent"]["answer"] is True


@node(output="first")
def ask_first(topic: str, ctx: Context) -> Any:
    return ctx.interrupt("First?")


@node(output="second")
def ask_second(topic: str, ctx: Context) -> Any:
    return ctx.interrupt("Second?")


def test_several_questions_are_answered_with_a_file(client: TestClient, store: SQLiteStore) -> None:
    Engine(Graph([ask_first, ask_second]), store=store, check=False).run({"topic": "x"}, run_id="two")
    run = get(client, "runs/two")
    answer = next(each for each in run["verbs"] if each["verb"] == "answer")
    for command in (answer["command"], *(each["command"] for each in run["questions"])):
        assert "--answers FILE" in command
    (one,) = get(client, "runs/letter-331")["questions"]
    assert "--answer JSON" in one["command"]


def test_a_failed_run_that_was_put_into_a_queue_executes_nothing(client: TestClient) -> None:
    before = get(client, "runs/invoice-2207/items")
    assert [(item["path"], item["state"]) for item in before["open"]] == [("sum_up#0", "failed")]
    post(client, "runs/invoice-2207/resume", {})
    assert get(client, "runs/invoice-2207")["status"] == "queued"
    found = get(client, "runs/invoice-2207/items")
    assert [(item["path"], item["state"]) for item in found["open"]] == [("sum_up#0", "next")]
    assert len(found["attempts"]["sum_up#0"]) == 2


def test_items_begin_with_the_first_step_of_a_fork_or_of_a_later_turn(
    client: TestClient, store: SQLiteStore
) -> None:
    engine = engine_of(store, flows.walk, "walk")
    for upto in (3, 6):
        turn = engine.run({"at": 0, "upto": upto}, thread="talk")
    for run, begin in (("walk-77-short", 10), (turn.run_id, 3), ("walk-77", 0)):
        first = get(client, f"runs/{run}")["first"]
        assert begin <= first
        for given in ({}, {"from": 0}, {"from": -1}, {"from": 1, "to": 200}):
            found = get(client, f"runs/{run}/items", **given)
            assert found["from"] == first + 1
            assert found["columns"]["step"][0] == first + 1


def test_a_run_whose_process_ended_executes_nothing(client: TestClient, place: Path) -> None:
    subprocess.run([sys.executable, "-c", LOST, str(place)], check=True, timeout=120)
    (row,) = get(client, "runs", q="is:lost")["runs"]
    assert (row["id"], row["status"], row["took"]) == ("gone", "lost", None)
    assert ids(get(client, "runs", sort="-took"))[-1] in {"gone", "letter-queued"}
    states = {item["path"]: item["state"] for item in get(client, "runs/gone/items")["open"]}
    assert states == {f"work#0[{number}]": "next" for number in range(3)}


def test_failed_attempts_have_times(client: TestClient) -> None:
    items = get(client, "runs/ticket-8841/items")
    (attempt,) = items["attempts"]["use_tool#0[1]"]
    place = items["columns"]["path"].index("use_tool#0[1]")
    assert attempt["start"] <= attempt["end"] <= attempt["due"] <= items["columns"]["start"][place] + 0.001
    assert items["open"][0]["state"] == "asks"


def test_the_waits_of_items_have_times(client: TestClient, store: SQLiteStore) -> None:
    Engine(flows.patient, store=store, clock=VirtualClock()).run({"wish": "tea"}, run_id="patient")
    found = get(client, "runs/patient/items")
    (slept,) = found["waits"]["rest#0"]
    began = dict(zip(found["columns"]["path"], found["columns"]["start"]))["rest#0"]
    assert slept["for"] == "sleep"
    assert slept["end"] - slept["start"] == pytest.approx(flows.DAYS)
    assert slept["end"] <= began + 0.001
    items = get(client, "runs/ticket-8842/items")
    (asked,) = items["waits"]["approve#0"]
    assert (asked["for"], asked["start"] <= asked["end"]) == ("answer", True)
    (asks,) = get(client, "runs/ticket-8841/items")["waits"]["approve#0"]
    assert (asks["for"], asks["end"]) == ("answer", None)


def test_found_items_of_a_whole_run(client: TestClient) -> None:
    retried = get(client, "runs/audit-0931/items", show="retried")["columns"]["path"]
    assert retried == ["scan#0[7]"]
    slowest = get(client, "runs/audit-0931/items", show="slowest", limit=5)["columns"]["duration"]
    assert slowest == sorted(slowest, reverse=True)
    overview = get(client, "runs/walk-77/overview", buckets=7)
    assert sum(overview["columns"]["items"]) == 121
    assert overview["marks"] == [{"step": 10, "kind": "fork", "text": "walk-77-short"}]


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", ["ticket-8842", "walk-77", "walk-77-short", "audit-0931"])
def test_changes_lead_from_state_to_state(client: TestClient, store: SQLiteStore, run_id: str) -> None:
    engine = Engine(store=store)
    points = engine.history(run_id)
    first = points[0].step_id
    found = get(client, f"runs/{run_id}/changes", **{"from": first, "to": first + 399})["steps"]
    assert [step["k"] for step in found] == [point.step_id for point in points]
    assert [step["digest"] for step in found] == [point.digest for point in points]
    versions = dict[str, int]()
    for step, point in zip(found, points):
        for change in step["changes"]:
            versions[change["name"]] = change["version"]
        assert versions == dict(point.state.versions)


def test_states_are_those_of_the_engine_in_any_order(client: TestClient, store: SQLiteStore) -> None:
    engine = Engine(store=store)
    for number in (121, 0, 60, 61, 59, 7, 120, 1):
        state = get(client, f"runs/walk-77/state/{number}")
        known = engine.state("walk-77", number)
        assert {each["name"]: each["value"] for each in state["values"]} == dict(known.values)
        assert state["digest"] == known.digest
    last = get(client, "runs/walk-77/state/last")
    writers = {each["name"]: (each["writer"], each["step"]) for each in last["values"]}
    assert writers["at"] == ("step_on#59", 120)
    assert writers["upto"] == (None, None)


def test_lists_are_compared_by_their_common_rows(client: TestClient) -> None:
    steps = get(client, "runs/ticket-8842/changes", **{"from": 0, "to": 50})["steps"]
    grown = next(c for step in steps for c in step["changes"] if c["name"] == "messages" and step["k"])
    assert [row[0] for row in grown["diff"]] == ["+", "+"]
    keys = next(c for step in steps for c in step["changes"] if c["name"] == "findings" and step["k"])
    assert {row[1] for row in keys["diff"]} == {"order", "customer"}


def test_long_lists_and_large_values_are_cut(client: TestClient, store: SQLiteStore) -> None:
    class Log(TypedDict):
        n: int
        rows: list[int]
        text: str

    @node(output=("n", "rows", "text"))
    def grow(start: int) -> Any:
        return start, list(range(5_000)), "x" * 200_000

    Engine(Graph([grow], name="grow"), store=store).run({"start": 1}, run_id="grow")
    state = {each["name"]: each for each in get(client, "runs/grow/state/1")["values"]}
    assert state["rows"]["cut"]
    assert state["rows"]["value"]["size"] == 5_000
    assert len(state["rows"]["value"]["shown"]) < 1_000
    assert state["text"]["value"]["$"] == "large"
    whole = get(client, "runs/grow/values/1/rows")
    assert (len(whole["value"]), whole["cut"]) == (5_000, False)
    assert len(get(client, "runs/grow/values/last/text")["value"]) == 200_000


def test_instances_show_as_class_and_fields(client: TestClient) -> None:
    value = get(client, "runs/ticket-8842/values/last/decision")["value"]
    assert (value["$"], value["class"], value["module"]) == ("object", "Decision", "tests.browser.flows")
    assert value["fields"]["action"] == "refund"


# -- reasons, calls, log -----------------------------------------------------------------------------------------------


def test_every_item_is_explained_back_to_the_start(client: TestClient) -> None:
    items = get(client, "runs/ticket-8842/items")["columns"]
    for path, step in zip(items["path"], items["step"]):
        found = get(client, "runs/ticket-8842/why", item=path)
        assert found["items"][path]["step"] == step
        assert found["thread"][0] == path
        assert all(reason["step"] < step for reason in found["items"][path]["reasons"])
        root = found["items"][found["thread"][-1]]
        assert {reason["kind"] for reason in root["reasons"]} & {"given", "start"}


def test_a_waiting_item_and_a_value_are_explained(client: TestClient) -> None:
    found = get(client, "runs/ticket-8841/why", item="approve#0")
    assert found["items"]["approve#0"]["state"] == "asks"
    assert found["thread"][:3] == ["approve#0", "score#0", "think#2"]
    sent = found["items"]["use_tool#0[1]"]["reasons"][0]
    assert (sent["kind"], sent["times"]) == ("sent", 2)
    assert get(client, "runs/ticket-8841/why", value="draft")["item"] == "draft_reply#0"
    assert get(client, "runs/ticket-8841/why", value="ticket")["reasons"][0]["kind"] == "given"
    assert get(client, "runs/ticket-8841/why", 404, item="nobody#0")["error"]["type"] == "UnknownRunError"
    assert get(client, "runs/ticket-8841/why", 400)["error"]["type"] == "InputError"


def test_recorded_calls(client: TestClient) -> None:
    calls = get(client, "runs/ticket-8841/calls")
    assert calls["count"] == 9
    (call,) = get(client, "runs/ticket-8841/calls", item="use_tool#0[1]")["calls"]
    assert (call["name"], call["attempt"], call["args"]) == ("customer", 1, ["customer"])
    assert call["response"] == {"id": 771, "since": 2019, "orders": 23, "country": "GR"}
    assert len(get(client, "runs/ticket-8841/calls", limit=1)["calls"]) == 1


def test_the_log_has_times_and_who_answered(client: TestClient) -> None:
    entries = get(client, "runs/ticket-8842/log")["entries"]
    kinds = [each["kind"] for each in entries]
    assert kinds == ["started", "retry", "retry", "question", "answer", "ended"]
    assert all(each["time"] for each in entries)
    assert entries[4]["by"]


# -- questions and verbs -----------------------------------------------------------------------------------------------


def test_all_questions(client: TestClient) -> None:
    found = get(client, "questions")["questions"]
    assert [each["run"] for each in found] == ["letter-331", "letter-332", "ticket-8841", HOSTILE]


def test_an_answer_is_checked_sent_and_worked_off(client: TestClient, store: SQLiteStore) -> None:
    wrong = post(
        client,
        "runs/ticket-8841/answer",
        {"path": "approve#0", "answer": {"action": "refund", "amount": "64,90"}},
        422,
    )
    assert wrong["error"]["fields"] == [{"at": "/amount", "message": "a number is expected: 64.90"}]
    post(client, "runs/ticket-8841/answer", {"path": "nobody#0", "answer": 1}, 409)
    post(client, "runs/ticket-8841/answer", {"path": "approve#0", "answer": {}, "number": 3}, 409)
    done = post(
        client,
        "runs/ticket-8841/answer",
        {"path": "approve#0", "number": 0, "by": "Ann", "answer": {"action": "refund", "amount": 64.9}},
    )
    assert done["queued"]
    assert done["worker"]["available"] is False
    (sent,) = get(client, "runs/ticket-8841")["questions"]
    assert (sent["open"], sent["sent"]["answer"]) == (True, {"action": "refund", "amount": 64.9})
    assert sent["sent"]["by"].startswith("Ann")
    again = {"path": "approve#0", "answer": {"action": "decline", "amount": 0}}
    assert post(client, "runs/ticket-8841/answer", again, 409)["error"]["type"] == "RunStateError"
    work(store, flows.support)
    run = get(client, "runs/ticket-8841")
    assert (run["status"], run["questions"]) == ("completed", [])
    assert Engine(flows.support, store=store).result("ticket-8841")["sent"] == "refund 64.9"
    answered = get(client, f"runs/ticket-8841/questions/{quote('approve#0')}")
    assert answered["open"] is False
    assert answered["answered"]["by"].startswith("Ann (page")


class PydanticDecision(pydantic.BaseModel):
    action: str
    amount: float = pydantic.Field(gt=0)


@dataclass
class PlainDecision:
    action: str
    amount: float


STRUCT = msgspec.defstruct(
    "Struct", [("text", str), ("decision", flows.Decision | None, None), ("kind", str, "")]
)
PYDANTIC = pydantic.create_model(
    "Pydantic", text=(str, ...), decision=(PydanticDecision | None, None), kind=(str, "")
)
TYPED: Any = TypedDict("TYPED", {"text": str, "decision": PlainDecision, "kind": str})
DATACLASS = make_dataclass(
    "Data",
    [
        ("text", str),
        ("decision", PlainDecision | None, field(default=None)),
        ("kind", str, field(default="")),
    ],
)


@interrupt(output="decision")
def decide(text: str) -> str:
    return text


@node(output="kind")
def kind_of(decision: Any) -> str:
    return f"{type(decision).__name__} {decision.amount}"


@pytest.mark.parametrize("state", [STRUCT, PYDANTIC, TYPED, DATACLASS])
def test_an_answer_is_converted_for_every_kind_of_schema(
    client: TestClient, store: SQLiteStore, state: Any
) -> None:
    graph = Graph([decide, kind_of], state=state, name="typed")
    engine = Engine(graph, store=store)
    engine.run({"text": "how much?"}, run_id="typed")
    post(client, "runs/typed/answer", {"answer": {"action": "refund", "amount": "none"}}, 422)
    post(client, "runs/typed/answer", {"answer": {"action": "refund", "amount": 2.5}})
    work(store, graph)
    assert engine.result("typed")["kind"].endswith("Decision 2.5")


def test_a_rejected_answer_returns_to_the_question(client: TestClient, store: SQLiteStore) -> None:
    """The schema accepts it, the model does not: only the process that owns the run can know."""

    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("it is odd")
            return n

    made = pydantic.create_model("P", text=(str, ...), even=(Even | None, None))

    @interrupt(output="even")
    def ask(text: str) -> str:
        return text

    graph = Graph([ask], state=made, name="even")
    Engine(graph, store=store).run({"text": "?"}, run_id="even")
    post(client, "runs/even/answer", {"answer": {"n": 3}})
    work(store, graph)
    (question,) = get(client, "runs/even")["questions"]
    assert "it is odd" in question["refused"]
    post(client, "runs/even/answer", {"answer": {"n": 4}})
    work(store, graph)
    assert get(client, "runs/even")["status"] == "completed"


def test_a_question_with_a_type_stores_its_schema_and_asks_again(
    client: TestClient, store: SQLiteStore
) -> None:
    @node(output="amount")
    def ask(text: str, ctx: Context) -> float:
        return ctx.interrupt({"ask": text}, type=PydanticDecision).amount

    graph = Graph([ask], name="typed-ask")
    engine = Engine(graph, store=store)
    engine.run({"text": "how much?"}, run_id="typed-ask")
    (question,) = get(client, "runs/typed-ask")["questions"]
    assert (question["type"], question["schema"]["required"]) == ("PydanticDecision", ["action", "amount"])
    post(client, "runs/typed-ask/answer", {"answer": {"action": "a", "amount": -1}}, 422)
    engine.resume("typed-ask", answer={"action": "a", "amount": -1})  # past the page: the node refuses it
    (question,) = get(client, "runs/typed-ask")["questions"]
    assert question["number"] == 1
    assert "greater than 0" in question["refused"]
    post(client, "runs/typed-ask/answer", {"answer": {"action": "a", "amount": 2}})
    work(store, graph)
    assert engine.result("typed-ask")["amount"] == 2
    assert engine.replay("typed-ask").ok


def test_resume_queues_a_run_that_was_never_queued(client: TestClient, store: SQLiteStore) -> None:
    assert store.entry("invoice-2207") is None
    assert post(client, "runs/invoice-2207/resume", {})["status"] == "queued"
    work(store, flows.invoice)
    run = get(client, "runs/invoice-2207")
    assert run["status"] == "failed"
    entries = get(client, "runs/invoice-2207/log")["entries"]
    (resumed,) = [each for each in entries if each["kind"] == "resume"]
    assert resumed["time"]
    assert resumed["by"]
    assert post(client, "runs/walk-77/resume", {}, 409)["error"]["type"] == "RunStateError"
    assert post(client, "runs/letter-331/resume", {}, 409)["error"]["type"] == "RunStateError"


def test_a_fork_is_queued_and_runs_with_the_same_code(client: TestClient, store: SQLiteStore) -> None:
    done = post(client, "runs/walk-77/fork", {"step": 5, "run_id": "again"})
    assert (done["run"], done["status"]) == ("again", "queued")
    assert store.row("again").codes == store.row("walk-77").codes
    work(store, flows.walk)
    engine = Engine(flows.walk, store=store)
    assert engine.state("again").values == engine.state("walk-77").values
    assert engine.replay("again").ok
    assert (
        post(client, "runs/walk-77/fork", {"step": 5, "run_id": "again"}, 409)["error"]["type"]
        == "RunExistsError"
    )
    assert post(client, "runs/walk-77/fork", {"step": 5000}, 404)["error"]["type"] == "UnknownRunError"


def test_what_needs_code_is_refused_with_the_command(client: TestClient) -> None:
    for verb, body in (("rerun", {}), ("replay", {}), ("fork", {"step": 1, "values": {"upto": 3}})):
        error = post(client, f"runs/walk-77/{verb}", body, 409)["error"]
        assert error["type"] == "CodeNeeded"
        assert error["command"].startswith(f"clew {verb} walk-77")


def test_cancel_and_delete(client: TestClient, store: SQLiteStore) -> None:
    assert post(client, "runs/letter-queued/cancel", {})["status"] == "cancelled"
    assert post(client, "runs/letter-queued/cancel", {}, 409)["error"]["type"] == "RunStateError"
    answer = client.delete("/api/runs/letter-queued")
    assert answer.status_code == 200
    assert get(client, "runs/letter-queued", 404)
    assert client.delete("/api/runs/walk-77").status_code == 409  # it has a fork


def test_two_runs_are_compared(client: TestClient) -> None:
    found = get(client, "diff", a="walk-77", b="walk-77-short")
    assert (found["common"], found["since"], found["first"], found["same"]) == ("walk-77", 10, 10, False)
    assert found["steps"][0]["set"][0]["name"] == "upto"
    assert {each["name"] for each in found["values"]} == {"at", "upto"}
    assert get(client, "diff", a="walk-77", b="walk-77")["same"] is True
    assert get(client, "diff", a="walk-77", b="walk-77-short", k=12)["equal"] == ["at"]


def test_queues_say_what_nobody_serves(client: TestClient) -> None:
    found = get(client, "queues")
    assert [(each["name"], each["ready"], each["served"]) for each in found["queues"]] == [
        ("default", 1, False)
    ]
    assert found["unserved"][0]["command"].startswith("clew worker tests.browser.flows:letter")


def test_the_command_for_unserved_runs_names_all_their_queues(client: TestClient, store: SQLiteStore) -> None:
    engine_of(store, flows.letter, "letter").submit({"text": "x"}, run_id="low", queue="low")
    (unserved,) = get(client, "queues")["unserved"]
    assert unserved["count"] == 2
    assert "--queue default,low" in unserved["command"]


def test_each_queue_has_a_curve_of_the_runs_that_ended(client: TestClient, store: SQLiteStore) -> None:
    engine = engine_of(store, flows.walk, "walk")
    for name in ("a", "b"):
        engine.submit({"at": 0, "upto": 1}, run_id=name, queue="reports")
    Worker(flows.walk, store=store, queues=["reports"]).run(until_idle=True)
    found = {each["name"]: each for each in get(client, "queues", window=900)["queues"]}
    assert list(found) == ["default", "reports"]
    assert (found["reports"]["ready"], found["reports"]["oldest"]) == (0, None)
    assert (sum(found["reports"]["finished"]), len(found["reports"]["finished"])) == (2, 60)
    assert found["default"]["finished"] == []


def test_the_runs_that_ended_are_counted_by_time(client: TestClient) -> None:
    found = get(client, "queues", window=900)
    assert found["totals"]["window"] == 900
    assert (found["totals"]["finished"], found["totals"]["failed"]) == (6, 1)
    assert sum(found["series"]["finished"]) == 6
    assert len(found["series"]["finished"]) * found["series"]["width"] == 900
    assert 0 <= found["totals"]["p50"] <= found["totals"]["p95"]
    assert get(client, "queues", window=5)["totals"]["window"] == 900
    assert get(client, "queues", 400, window="x")["error"]["type"] == "InputError"


def test_a_run_is_exported(client: TestClient, store: SQLiteStore, tmp_path: Path) -> None:
    document = get(client, "runs/walk-77/export")
    other = Engine(store=tmp_path / "other.db")
    try:
        assert other.import_run(document).run_id == "walk-77"
    finally:
        other.close()


# -- what runs now -----------------------------------------------------------------------------------------------------


def test_what_a_worker_executes_now_is_known(client: TestClient, store: SQLiteStore) -> None:
    """The worker says it in its row when it renews its lease; the page does not have to guess."""
    begun, may_end = threading.Barrier(3), threading.Event()

    def wait(a: int) -> int:
        begun.wait(60)
        assert may_end.wait(120)
        return a

    graph = Graph([node(output=f"{name}_done", name=name)(wait) for name in ("one", "two")], name="slow")
    Engine(graph, store=store).submit({"a": 1}, run_id="slow")
    worker = Worker([graph], store=store, lease=600.0)
    thread = threading.Thread(target=worker.run, kwargs={"until_idle": True})
    thread.start()
    try:
        begun.wait(60)
        deadline = time.monotonic() + 60
        while True:
            worker._renewer._beat()  # what its thread does three times per lease
            items = get(client, "runs/slow/items")["open"]
            assert [(item["path"], item["state"]) for item in items] == [
                ("one#0", "running"),
                ("two#0", "running"),
            ]
            if not items[0]["guessed"]:
                break
            assert time.monotonic() < deadline
        assert all(item["start"] is not None for item in items)
        row = next(row for row in get(client, "runs")["runs"] if row["id"] == "slow")
        assert row["status"] == "running"
        assert row["owner"]["alive"] is True
    finally:
        may_end.set()
        thread.join(60)
    assert get(client, "runs/slow")["status"] == "completed"


def test_the_command_line_answers_a_run_that_was_never_queued(client: TestClient, store: SQLiteStore) -> None:
    assert store.entry("letter-331") is None
    Engine(store=store).answer("letter-331", True)
    assert store.entry("letter-331") is not None
    work(store, flows.letter)
    assert get(client, "runs/letter-331")["status"] == "completed"
