"""Instrumented HTTP clients inside nodes: their spans are below the call, and the recorded request is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor

from clew import Context, Engine, Graph, node
from tests.observe.spans import Traces, span_id, trace_id


def test_a_request_of_an_instrumented_client_is_below_the_recorded_call(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("traceparent", ""))
        return httpx.Response(200, json={"n": 1})

    with Traces() as traces, httpx.Client(transport=httpx.MockTransport(answer)) as client:
        HTTPXClientInstrumentor.instrument_client(client, tracer_provider=traces.provider)

        @node(output="found")
        def fetch(url: str, ctx: Context) -> Any:
            return ctx.record("fetch", lambda address: client.get(address).json(), url)

        with Engine(
            Graph([fetch], name="g"), store=tmp_path / "runs.db", listeners=[traces.tracing()]
        ) as engine:
            engine.run({"url": "http://localhost/x"}, run_id="r")
            assert traces.lineage("GET") == ["GET", "fetch", "fetch", "step", "run g"]
            span = traces.one("GET")
            assert [each.rpartition("-")[0] for each in sent] == [
                f"00-{trace_id(span):032x}-{span_id(span):016x}"
            ]
            (recorded,) = [
                entry
                for entry in engine.store.entries("r")
                if b"http://localhost/x" in entry.body and entry.path
            ]
            assert b"traceparent" not in recorded.body
            assert engine.replay("r").ok
            assert len(sent) == 1
