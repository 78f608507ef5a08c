"""Inspecting a store calls no hook of a registered class, wherever a run holds an instance of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import (
    Context,
    Engine,
    Graph,
    MemoryStore,
    SideEffectPolicy,
    SQLiteStore,
    StoredObject,
    node,
    register_type,
)

calls: list[str] = []


class Secret:
    def __init__(self, value: str) -> None:
        self.value = value


def decoded(value: str) -> Secret:
    calls.append("decode")
    return Secret(value)


def upgraded(fields: Any) -> Any:
    calls.append("upgrade")
    return fields


register_type(Secret, encode=lambda secret: secret.value, decode=decoded, upgrade=upgraded)


class Boom(ValueError):
    pass


class Held(Exception):
    def __init__(self, secret: Secret) -> None:
        super().__init__("held")
        self.secret = secret


def fails(x: int) -> int:
    raise Boom(Secret("an argument"), [Secret("in a list")]) from Held(Secret("of a cause"))


@node(output="y", name="fails")
def raises_argument(x: int) -> int:
    return fails(x)


@node(output="y", name="fails")
def raises_attribute(x: int) -> int:
    raise Held(Secret("an attribute"))


@node(output="y", name="fails")
def raises_group(x: int) -> int:
    raise ExceptionGroup("two", [Boom(Secret("first")), Held(Secret("second"))])


@node(output="y", name="fails", side_effects=SideEffectPolicy(recordable=True))
def raises_recorded(x: int, ctx: Context) -> int:
    return int(ctx.record("call", fails, x))


@node(output="z")
def returns(x: int) -> Secret:
    return Secret("a value")


FAILING = [raises_argument, raises_attribute, raises_group, raises_recorded]


@pytest.fixture(params=FAILING, ids=lambda each: each.func.__name__)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "runs.db")
    Engine(Graph([request.param]), store=store).run({"x": 1}, run_id="failed", check=False)
    Engine(Graph([returns]), store=store).run({"x": 1}, run_id="done")
    calls.clear()
    yield store
    store.close()


def imported(viewer: Engine) -> None:
    with Engine(store=MemoryStore()) as other:
        other.import_run(viewer.export_run("failed"))
        other.result("failed")


def imported_to_file(viewer: Engine) -> None:
    document = viewer.export_run("failed")
    viewer.delete("failed")
    viewer.import_run(document)


VERBS: dict[str, Callable[[Engine], Any]] = {
    "state": lambda viewer: viewer.state("done").get("z"),
    "runs": lambda viewer: viewer.runs(),
    "result": lambda viewer: viewer.result("failed").error,
    "export": lambda viewer: viewer.export_run("failed"),
    "history": lambda viewer: viewer.history("failed"),
    "diff": lambda viewer: viewer.diff("failed", "done"),
    "why": lambda viewer: viewer.why("done", "z"),
    "frontier": lambda viewer: viewer.frontier("failed"),
    "prune": lambda viewer: viewer.prune(keep=0),
    "import": imported,
    "import to a file": imported_to_file,
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_calls_a_hook(store: SQLiteStore, verb: str) -> None:
    VERBS[verb](Engine(store=store))
    assert calls == []


def test_what_an_exception_held_is_shown_as_a_stored_object(tmp_path: Path) -> None:
    with Engine(Graph([raises_argument]), store=SQLiteStore(tmp_path / "runs.db")) as engine:
        engine.run({"x": 1}, run_id="r", check=False)
        (row,) = Engine(store=engine.store).runs()
        assert row.status == "failed"
        assert isinstance(row.error, ValueError)
        assert isinstance(row.error.args[0], StoredObject)
