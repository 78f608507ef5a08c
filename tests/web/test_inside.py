"""Items inside subgraphs and child runs."""

from __future__ import annotations

from starlette.testclient import TestClient

from clew import Engine, Graph, SQLiteStore, node
from tests.browser import flows
from tests.web.test_api import get


def run_nested(store: SQLiteStore) -> None:
    values = {"text": "the harbour is closed", "limit": 9}
    Engine(flows.nested, store=store, check=False).run(values, run_id="nested")


def test_items_of_a_subgraph(client: TestClient, store: SQLiteStore) -> None:
    run_nested(store)
    found = get(client, "runs/nested/items", inside="check#0")
    assert found["columns"]["path"] == ["check#0/count#0", "check#0/compare#0"]
    assert found["columns"]["step"] == [1, 2]
    assert all(start >= 0 for start in found["columns"]["start"])
    deeper = get(client, "runs/nested/items", inside="check#0/count#0")["columns"]
    assert deeper["path"] == ["check#0/count#0/split#0", "check#0/count#0/measure#0"]
    assert get(client, "runs/nested/items", 404, inside="check#1")["error"]["type"] == "UnknownRunError"
    assert get(client, "runs/nested/items", 404, inside="hand_out#0")["error"]["type"] == "UnknownRunError"
    assert get(client, "runs/nobody/items", 404, inside="check#0")["error"]["type"] == "UnknownRunError"


def test_items_of_a_child_run(client: TestClient, store: SQLiteStore) -> None:
    run_nested(store)
    (child,) = get(client, "runs/nested")["children"]
    found = get(client, "runs/nested/items", inside=child["place"])
    assert (found["run"], found["columns"]["path"]) == (child["id"], ["split#0", "measure#0"])
    assert get(client, "runs/nested/items", 404, inside="hand_out#0!7")["error"]["type"] == "UnknownRunError"


def test_items_of_a_mapped_subgraph(client: TestClient, store: SQLiteStore) -> None:
    mapped = flows.counting.map_over("text")
    Engine(mapped, store=store, check=False).run({"text": ["a b", "c"]}, run_id="mapped")
    found = get(client, "runs/mapped/items", inside="counting#0")["columns"]["path"]
    assert found == [
        "counting#0[0]/split#0",
        "counting#0[0]/measure#0",
        "counting#0[1]/split#0",
        "counting#0[1]/measure#0",
    ]
    one = get(client, "runs/mapped/items", inside="counting#0[1]")["columns"]["path"]
    assert one == found[2:]
    thread = get(client, "runs/mapped/why", item="counting#0[1]/measure#0")["thread"]
    assert thread == ["counting#0[1]/measure#0", "counting#0[1]/split#0", "counting#0"]


def test_causes_of_an_item_of_a_subgraph(client: TestClient, store: SQLiteStore) -> None:
    run_nested(store)
    found = get(client, "runs/nested/why", item="check#0/count#0/measure#0")
    assert found["thread"] == [
        "check#0/count#0/measure#0",
        "check#0/count#0/split#0",
        "check#0/count#0",
        "check#0",
    ]
    reason = found["items"]["check#0/count#0/measure#0"]["reasons"][0]
    assert (reason["kind"], reason["path"], reason["value"]) == (
        "changed",
        "check#0/count#0/split#0",
        "words",
    )
    assert get(client, "runs/nested/why", 404, item="check#0/nobody#0")["error"]["type"] == "UnknownRunError"


def test_open_items_inside_a_subgraph(client: TestClient, store: SQLiteStore) -> None:
    asking = Graph([flows.letter.as_node(name="editor")])
    Engine(asking, store=store, check=False).run({"text": "x"}, run_id="asking")
    found = get(client, "runs/asking/items", inside="editor#0")
    assert [(item["path"], item["state"]) for item in found["open"]] == [("editor#0/ask_editor#0", "asks")]
    why = get(client, "runs/asking/why", item="editor#0/ask_editor#0")
    assert why["items"]["editor#0/ask_editor#0"]["state"] == "asks"
    assert why["thread"] == ["editor#0/ask_editor#0", "editor#0"]


def test_only_the_last_attempt_is_shown(client: TestClient, store: SQLiteStore) -> None:
    tries: list[int] = []

    @node(output="size")
    def fails_once(words: list[str]) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("again")
        return len(words)

    inner = Graph([flows.split, fails_once], name="inner")
    engine = Engine(Graph([inner.as_node(name="sub")]), store=store, check=False)
    engine.run({"text": "a b"}, run_id="twice")
    engine.resume("twice")
    assert get(client, "runs/twice/items", inside="sub#0")["columns"]["path"] == [
        "sub#0/split#0",
        "sub#0/fails_once#0",
    ]
