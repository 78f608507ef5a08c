"""An exported run survives JSON tools, and any other change of it is noticed; nothing is half imported."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import pytest

from clew import Context, Engine, Graph, MemoryStore, node
from clew.errors import CheckpointError


class Sample(TypedDict, total=False):
    n: int
    f: float
    big: int
    x: dict[Any, Any]
    m: Annotated[list[Any], operator.add]
    b: bytes


@node(writes=("f", "big", "x", "m", "b"))
def make(n, ctx: Context):
    ctx.record("multiply", lambda value: value * 1.0, n)
    return {
        "f": 0.0,
        "big": 2**80,
        "x": {
            "d": Decimal("1.10"),
            "t": datetime(2024, 5, 1, tzinfo=UTC),
            1: -0.0,
            "z": 1e300,
            "k": 3.0,
            "$int": "5",
        },
        "m": [n, 1.0, "\u2028é\U0001f600"],
        "b": b"q" * 70_000,
    }


@node(output="m")
def halve(n, f):
    return [n / 2]


@pytest.fixture(scope="module")
def original() -> Engine:
    engine = Engine(Graph([make, halve], state=Sample))
    engine.run({"n": 4}, run_id="r")
    return engine


def imported(document: Any) -> Engine:
    engine = Engine(store=MemoryStore())
    try:
        engine.import_run(document)
    except CheckpointError:
        assert engine.runs() == []
        raise
    return engine


def by_javascript(value: Any) -> Any:
    """What JSON.parse and JSON.stringify make of it: every number is a double, and whole ones print as integers."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    if isinstance(value, list):
        return [by_javascript(item) for item in value]
    return {key: by_javascript(item) for key, item in value.items()}


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


@pytest.mark.parametrize(
    "tool",
    [
        lambda document: json.loads(json.dumps(document)),
        lambda document: json.loads(json.dumps(document, sort_keys=True, indent=2)),
        by_javascript,
    ],
    ids=["python", "sorted and indented", "javascript"],
)
@pytest.mark.parametrize("latest", [False, True])
def test_it_survives_json_tools(original: Engine, tool: Any, latest: bool) -> None:
    engine = imported(tool(original.export_run("r", latest=latest)))
    state, expected = engine.state("r"), original.state("r")
    assert state.digest == expected.digest
    assert repr(sorted(state.values.items())) == repr(sorted(expected.values.items()))


DELETED = object()
CHANGES = [None, 7, "zz", [], {}, True, 1.5, -1, DELETED]


@pytest.mark.parametrize("share", range(3))
def test_every_other_change_is_noticed(original: Engine, share: int) -> None:
    document = json.loads(json.dumps(original.export_run("r")))
    accepted, tried = [], 0
    for number, path in enumerate(paths(document)):
        for change in CHANGES[(number + share) % 9 : (number + share) % 9 + 1]:
            changed = copy.deepcopy(document)
            place = changed
            for key in path[:-1]:
                place = place[key]
            old = place[path[-1]]
            if change is DELETED:
                del place[path[-1]]
            elif type(old) is type(change) and old == change:
                continue
            else:
                place[path[-1]] = change
            tried += 1
            try:
                imported(changed)
            except CheckpointError:
                continue
            accepted.append((path, change))
    assert accepted == []
    assert tried > 250
