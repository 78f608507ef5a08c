"""A model on loopback that speaks the chat protocols of OpenAI and Anthropic, for the recipes.

Its answers follow from the conversation alone:

- It asks for the tool `weather` if one is offered, the user asks about the weather, and no result is there yet.
- After a result of a tool it repeats the result.
- Otherwise it answers with the user's words in upper case.

`calls` counts the requests. With ``"stream": true`` it sends one word at a time as server-sent events.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = tuple[str, dict[str, Any]]


class ModelServer(ThreadingHTTPServer):
    """The server; `url` is where it listens."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve until the end of the block."""
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, ModelServer)
        self.server.calls += 1
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        speak = _openai if self.path.endswith("/chat/completions") else _anthropic
        whole, events = speak(asked, self.server.calls)
        if asked.get("stream"):
            self._send("text/event-stream", "".join(_lines(kind, data) for kind, data in events))
        else:
            self._send("application/json", json.dumps(whole))

    def _send(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _lines(kind: str, data: dict[str, Any]) -> str:
    if kind == "done":
        return "data: [DONE]\n\n"
    return (f"event: {kind}\n" if kind else "") + f"data: {json.dumps(data)}\n\n"


def _reply(text: str, has_tool: bool, result: str | None) -> str | None:
    """Return the answer, or None to call the tool."""
    if result is not None:
        return f"The tool says: {result}"
    if has_tool and "weather" in text.lower():
        return None
    return text.upper()


def _openai(asked: dict[str, Any], number: int) -> tuple[dict[str, Any], list[Event]]:
    last = asked["messages"][-1]
    user = next(m["content"] for m in reversed(asked["messages"]) if m["role"] == "user")
    reply = _reply(user, bool(asked.get("tools")), last["content"] if last["role"] == "tool" else None)
    head = {"id": f"chat-{number}", "created": 0, "model": asked["model"]}
    message: dict[str, Any] = {"role": "assistant", "content": reply}
    if reply is None:
        arguments = json.dumps({"city": user.split()[-1].strip("?")})
        call = {"id": f"call-{number}", "type": "function"}
        message["tool_calls"] = [{**call, "function": {"name": "weather", "arguments": arguments}}]
    reason = "stop" if reply else "tool_calls"
    whole = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }
    chunk = {**head, "object": "chat.completion.chunk"}
    words = re.findall(r" ?[^ ]+", reply or "")
    events: list[Event] = [
        ("", {**chunk, "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
        for word in words
    ]
    events.append(("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
    return whole, [*events, ("done", {})]


def _anthropic(asked: dict[str, Any], number: int) -> tuple[dict[str, Any], list[Event]]:
    last = asked["messages"][-1]["content"]
    user = next(m["content"] for m in asked["messages"] if isinstance(m["content"], str))
    results = [] if isinstance(last, str) else [part for part in last if part["type"] == "tool_result"]
    reply = _reply(
        user if results else str(last), bool(asked.get("tools")), results[0]["content"] if results else None
    )
    content: list[dict[str, Any]] = [{"type": "text", "text": reply}]
    if reply is None:
        city = user.split()[-1].strip("?")
        content = [{"type": "tool_use", "id": f"call-{number}", "name": "weather", "input": {"city": city}}]
    reason = "end_turn" if reply else "tool_use"
    head = {"id": f"msg-{number}", "type": "message", "role": "assistant", "model": asked["model"]}
    usage = {"input_tokens": 7, "output_tokens": 5}
    whole = {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}
    words = re.findall(r" ?[^ ]+", reply or "")
    start = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Event] = [
        ("message_start", {"type": "message_start", "message": start}),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ),
        *(
            (
                "content_block_delta",
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}},
            )
            for word in words
        ),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 5},
            },
        ),
        ("message_stop", {"type": "message_stop"}),
    ]
    return whole, events
