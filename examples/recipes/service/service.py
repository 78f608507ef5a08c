import asyncio
import json
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from clew import Context, Engine, Graph, interrupt, node
from clew.errors import InputError, RunOwnedError, RunStateError, UnknownRunError


@node(output="offer")
async def make_offer(item: str, ctx: Context) -> str:
    ctx.emit("log", f"looking up {item}")
    return f"{item} for 42"


@interrupt(output="accepted")
def ask(offer: str) -> str:
    return f"Accept {offer}?"


@node(output="order")
async def place(offer: str, accepted: bool) -> str:
    return f"ordered {offer}" if accepted else "cancelled"


graph = Graph([make_offer, ask, place], name="orders")
engine = Engine(graph, store=os.environ.get("STORE", "orders.db"), publish=True, check=False)


@asynccontextmanager
async def lifespan(app: FastAPI):
    yield
    await engine.aclose()  # runs that are still at work are stored as cancelled


STATUS = {UnknownRunError: 404, RunOwnedError: 409, RunStateError: 409, InputError: 422}


async def refuse(request: Request, error: Exception) -> JSONResponse:
    code = next(code for kind, code in STATUS.items() if isinstance(error, kind))
    return JSONResponse({"detail": str(error)}, code)


app = FastAPI(lifespan=lifespan, exception_handlers=dict.fromkeys(STATUS, refuse))


class Order(BaseModel):
    item: str


@app.post("/runs")
async def start(order: Order) -> dict:
    handle = engine.start(order.model_dump())
    await anext(handle.events())  # the run is stored, so every process knows it
    return {"run": handle.run_id}


@app.get("/runs/{run_id}/events")
async def events(run_id: str, last_event_id: str | None = Header(None)) -> StreamingResponse:
    handle = engine.handle(run_id)
    found = handle.events(after=last_event_id)  # InputError if it is not a cursor of this run
    await asyncio.to_thread(lambda: handle.status)  # UnknownRunError, before the response begins

    async def lines():
        try:
            async for event in found:
                data = json.dumps({"step": event.step, "path": event.path}, default=str)
                yield f"id: {event.cursor}\nevent: {event.kind}\ndata: {data}\n\n"
        except RunStateError as error:  # the process of the run is gone
            yield f"event: lost\ndata: {json.dumps(str(error))}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/runs/{run_id}")
def show(run_id: str) -> dict:
    handle = engine.handle(run_id)
    questions = {question.path: question.question for question in handle.questions}
    return {"status": handle.status, "questions": questions, "values": dict(engine.state(run_id).values)}


@app.post("/runs/{run_id}/answer")
async def answer(run_id: str, accepted: bool) -> dict:
    result = await engine.handle(run_id).answer(accepted)
    return {"run": run_id, "status": result.status}
