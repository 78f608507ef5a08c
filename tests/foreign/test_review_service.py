"""A service for reviews: a browser follows a run in one process, and two people answer through two others.

The runs are on PostgreSQL. The service was written from the documentation, with the mistakes of a first version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import httpx
import psycopg
import pytest

from tests.docs.test_service_recipe import served
from tests.stores.servers import PostgresServer

pytest.importorskip("fastapi")

SERVICE = """
import json
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse

from clew import ClewError, Context, Engine, Graph, interrupt, node


@node(output="summary")
async def summarize(text: str, ctx: Context) -> str:
    ctx.emit("log", {"words": len(text.split())})
    return text.split()[0]


@interrupt(output="legal")
def ask_legal(summary):
    return f"May we say {summary!r}?"


@interrupt(output="editor")
def ask_editor(summary):
    return {"ask": "Is it good?", "summary": summary}


@node(output="published")
def publish(summary, legal, editor):
    if summary == "poison":
        raise ConnectionError("the printer is down")
    return summary if legal and editor else "nothing"


graph = Graph([summarize, ask_legal, ask_editor, publish], name="reviews")
engine = Engine(graph, store=os.environ["STORE"], publish=True, check=False)


@asynccontextmanager
async def lifespan(app):
    yield
    await engine.aclose()


app = FastAPI(lifespan=lifespan)


@app.exception_handler(ClewError)
async def refuse(request: Request, error: ClewError):
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, 409)


@app.post("/reviews")
def start(text: str, name: str):  # no event loop here: the run gets a thread
    return {"run": engine.start({"text": text}, run_id=name).run_id}


@app.get("/reviews/{run}/events")
async def follow(run: str, last_event_id: str | None = Header(None)):
    events = engine.handle(run).events(after=last_event_id, follow=True)

    async def lines():
        async for event in events:
            data = json.dumps(dict(event.data), default=str)
            yield f"id: {event.cursor}\\nevent: {event.kind}\\ndata: {data}\\n\\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/reviews/{run}")
def show(run: str):
    handle = engine.handle(run)
    return {
        "status": handle.status,
        "questions": {question.path: question.question for question in handle.questions},
        "values": dict(engine.state(run).values),
    }


@app.post("/reviews/{run}/answer")
async def answer(run: str, value: bool, question: str | None = None):
    result = await engine.handle(run).answer(value, question)
    return {"status": result.status}


@app.get("/reviews/{run}/result")
def result(run: str):
    found = engine.handle(run).result()
    return {"status": found.status, "error": None if found.error is None else str(found.error)}


# -- the first version of some of them


@app.get("/wrong/{run}/result")
async def wrong_result(run: str):
    return engine.handle(run).result().values


@app.get("/wrong/{run}/events")
async def wrong_events(run: str):
    return [event.kind for event in engine.handle(run).events()]
"""


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory, server: PostgresServer
) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Two processes of the service on one database."""
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "service.py").write_text(SERVICE)
    database = f"reviews_{token_hex(6)}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    address = f"postgresql://postgres@/{database}?host={server.folder}"
    with served(folder, address) as one, served(folder, address) as two:
        yield one, two


def begin(client: httpx.Client, name: str, text: str = "ships float") -> None:
    client.post("/reviews", params={"text": text, "name": name}).raise_for_status()


def events(client: httpx.Client, run: str, after: str | None = None) -> Iterator[tuple[str, str, Any]]:
    """Yield the id, the kind and the data of each event, as a browser gets them."""
    headers = {} if after is None else {"Last-Event-ID": after}
    with client.stream("GET", f"/reviews/{run}/events", headers=headers) as response:
        found: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, found[name] = line.partition(": ")
            else:
                yield found["id"], found["event"], json.loads(found["data"])


def detail(response: httpx.Response) -> str:
    assert response.status_code == 409, response.text
    return str(response.json()["detail"])


def test_two_people_answer_through_two_processes(services: tuple[httpx.Client, httpx.Client]) -> None:
    one, two = services
    begin(one, "ships")
    seen: list[tuple[str, Any]] = []
    asked: set[str] = set()
    for _, kind, data in events(one, "ships"):
        seen.append((kind, data))
        if kind == "interrupted" and data["node"] not in asked:
            asked.add(data["node"])
            if len(asked) == 2:
                assert one.get("/reviews/ships/result").json()["status"] == "waiting"
                questions = one.get("/reviews/ships").json()["questions"]
                assert questions == two.get("/reviews/ships").json()["questions"]
                ambiguous = detail(two.post("/reviews/ships/answer?value=true"))
                assert "ask_legal#0" in ambiguous
                assert "ask_editor#0" in ambiguous
                for client, path in ((two, "ask_legal#0"), (one, "ask_editor#0")):
                    given = client.post("/reviews/ships/answer", params={"value": True, "question": path})
                    assert given.status_code == 200, given.text
    kinds = [kind for kind, _ in seen]
    assert kinds.count("step_committed") == 3
    assert [data["data"] for kind, data in seen if kind == "emitted"] == [{"words": 2}]
    assert (kinds[-1], seen[-1][1]["status"]) == ("run_finished", "completed")
    for client in services:
        assert client.get("/reviews/ships").json()["values"]["published"] == "ships"


def test_a_browser_comes_back_to_the_other_process(services: tuple[httpx.Client, httpx.Client]) -> None:
    one, two = services
    begin(one, "tea")
    last = next(
        cursor for cursor, kind, _ in events(one, "tea") if kind == "step_committed"
    )  # then it is gone
    assert one.get("/reviews/tea/result").json()["status"] == "waiting"
    for path, status in (("ask_legal#0", "waiting"), ("ask_editor#0", "completed")):
        response = two.post("/reviews/tea/answer", params={"value": False, "question": path})
        assert response.json() == {"status": status}
    rest = [kind for _, kind, _ in events(two, "tea", last)]
    assert rest.count("step_committed") == 2
    assert two.get("/reviews/tea").json()["values"]["published"] == "nothing"


def test_a_failed_run_is_a_result(services: tuple[httpx.Client, httpx.Client]) -> None:
    one, two = services
    begin(one, "poison", text="poison pen")
    assert one.get("/reviews/poison/result").json() == {"status": "waiting", "error": None}
    for path, status in (("ask_legal#0", "waiting"), ("ask_editor#0", "failed")):
        response = two.post("/reviews/poison/answer", params={"value": True, "question": path})
        assert response.json() == {"status": status}
    for client in services:
        assert client.get("/reviews/poison/result").json() == {
            "status": "failed",
            "error": "the printer is down",
        }


def test_first_versions_say_what_to_write(services: tuple[httpx.Client, httpx.Client]) -> None:
    one, _ = services
    begin(one, "first")
    assert "await the handle" in detail(one.get("/wrong/first/result"))
    assert "`async for`" in detail(one.get("/wrong/first/events"))
    assert "choose another run_id" in detail(one.post("/reviews", params={"text": "again", "name": "first"}))
    assert "run 'frist' does not exist; did you mean 'first'?" in detail(one.get("/reviews/frist"))
