"""A dependency graph for the page: events, their titles and thumbnails, and a page for each."""

from __future__ import annotations

from typing import Any

from clew import DependencyGraph, schema


def _ids(inputs: list[Any], old: Any, bindings: dict[str, str]) -> list[str]:
    return [event["id"] for event in inputs[0] if event["kind"] == bindings["kind"]]


def _event(inputs: list[Any], old: Any, bindings: dict[str, str]) -> Any:
    return next((event for event in inputs[0] if event["id"] == bindings["e"]), None)


def _title(inputs: list[Any], old: Any, bindings: dict[str, str]) -> str:
    return f"{inputs[2].get(bindings['e'], bindings['e'])}, one of {len(inputs[1])}"


def _thumb(inputs: list[Any], old: Any, bindings: dict[str, str]) -> str:
    return f"thumb {bindings['e']} {inputs[1]} of {len(inputs[2])}"


def _index(inputs: list[Any], old: Any, bindings: dict[str, str]) -> list[str]:
    return sorted(inputs[0] + inputs[1])


def _page(inputs: list[Any], old: Any, bindings: dict[str, str]) -> str:
    return f"<h1>{inputs[0]}</h1>{inputs[1]}"


SCHEMAS = [
    schema("ids(kind)", inputs=["events"], computor=_ids),
    schema("event(e)", inputs=["events"], computor=_event),
    schema("index", inputs=["ids('note')", "ids('photo')"], computor=_index),
    schema("title(e)", inputs=["event(e)", "ids('photo')", "names"], computor=_title),
    schema("thumb(e)", inputs=["event(e)", "size", "ids('photo')"], computor=_thumb),
    schema("page(e)", inputs=["title(e)", "thumb(e)", "index"], computor=_page),
]
graph = DependencyGraph(SCHEMAS, name="events")
