"""What the API says about items that ran ahead of a step that is still open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clew import Engine, SQLiteStore
from clew.web.server import create_app
from tests.browser import flows
from tests.web.test_api import get


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[TestClient, Callable[[], None]]]:
    """A run whose first slow node has not ended, while everything that does not need it has."""
    flows.NIGHT_IS_AHEAD.clear()
    flows.NIGHT_MAY_END.clear()
    store = SQLiteStore(tmp_path / "night.db")
    engine = Engine(flows.night, store=store, check=False)
    thread = threading.Thread(target=engine.run, args=(flows.NIGHT,), kwargs={"run_id": "night-1114"})
    thread.start()
    try:
        assert flows.NIGHT_IS_AHEAD.wait(60)

        def finish() -> None:
            flows.NIGHT_MAY_END.set()
            thread.join(60)

        with TestClient(create_app(store, address=""), base_url="http://localhost:8790") as client:
            until_logged(client)
            yield client, finish
    finally:
        flows.NIGHT_MAY_END.set()
        thread.join(60)
        store.close()


def until_logged(client: TestClient) -> None:
    """Wait until the last item that runs ahead is in the log, which may be after it has returned."""
    found: list[str] = []
    while "alike#2" not in found:
        items = get(client, "runs/night-1114/items")["open"]
        found = [item["path"] for item in items if item["state"] == "done"]


def test_items_that_ran_ahead_have_the_steps_that_they_will_have(
    running: tuple[TestClient, Callable[[], None]],
) -> None:
    client, finish = running
    found = get(client, "runs/night-1114/items")
    ahead = {item["path"]: item["step"] for item in found["open"] if item["state"] == "done"}
    (slow,) = [item for item in found["open"] if item["state"] == "running"]
    assert (slow["path"], slow["step"]) == ("run_book#0", 2)
    changes = get(client, "runs/night-1114/changes", **{"from": 0, "to": 100})
    provisional = {step["k"]: step for step in changes["steps"] if step["ahead"]}
    assert changes["last"] == 1
    assert sorted(provisional) == sorted(set(ahead.values()))
    assert all(step["digest"] is None for step in provisional.values())
    before = {step["k"]: step["changes"] for step in provisional.values()}
    state = get(client, "runs/night-1114/state/3")
    finish()
    after = get(client, "runs/night-1114/items")["columns"]
    assert ahead.items() <= dict(zip(after["path"], after["step"])).items()
    committed = {
        step["k"]: step["changes"]
        for step in get(client, "runs/night-1114/changes", **{"from": 0, "to": 100})["steps"]
    }
    for k, found_before in before.items():
        named = {change["name"]: change for change in committed[k]}
        for change in found_before:
            if change["name"] != "odd":
                assert {**change, "by": named[change["name"]]["by"]} == named[change["name"]]
    then = {value["name"]: value for value in get(client, "runs/night-1114/state/3")["values"]}
    assert state["ahead"]
    assert state["digest"] is None
    assert {value["name"]: value for value in state["values"]}.items() <= then.items()


def test_the_causes_of_items_that_ran_ahead(running: tuple[TestClient, Callable[[], None]]) -> None:
    client, _ = running
    found = get(client, "runs/night-1114/why", item="fold#1")
    assert found["thread"] == [
        "fold#1",
        "alike#1",
        "fold#0",
        "alike#0",
        "sort_out#0",
        "scan#0[2]",
        "each_service#0",
        "parse#0",
    ]
    assert found["items"]["fold#1"]["step"] == 8
    slow = get(client, "runs/night-1114/why", item="run_book#0")
    assert slow["thread"] == ["run_book#0", "parse#0"]
    assert slow["items"]["run_book#0"]["state"] == "running"


def test_a_value_of_a_custom_reducer_is_known_at_the_commit(
    running: tuple[TestClient, Callable[[], None]],
) -> None:
    client, _ = running
    steps = get(client, "runs/night-1114/changes", **{"from": 2, "to": 100})["steps"]
    folded = next(step for step in steps if "fold#0" in step["items"])
    new = {change["name"]: change["new"] for change in folded["changes"]}
    assert new["rounds"] == 1
    assert new["odd"]["kind"] == "provisional"
    assert get(client, "runs/night-1114/values/6/groups")["value"] == ["carts + mailer", "stock"]
    assert get(client, "runs/night-1114/state/99", 404)["error"]["type"] == "UnknownRunError"
