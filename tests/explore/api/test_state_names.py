"""The identity of states: keys of all kinds give the same states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.explore import explore_api
from clew.explore.api.resources import Made, forget_rows, new_resource
from tests.explore.api.items_service import DOCUMENT, KEYS, WITH_PUT, items


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_all_kinds_give_the_same_states(tmp_path: Path, key: str) -> None:
    document: Any = DOCUMENT
    if key == "uuid":
        document = json.loads(json.dumps(DOCUMENT).replace('"integer"', '"string"'))
    path = str(tmp_path / "items.db")
    result = explore_api(
        items(path, key=key),
        openapi=document,
        systems=path,
        resources=3,
        max_requests=3000,
        settle=0,
        progress=False,
    )
    assert not result.truncated
    assert result.violations == []
    # the first n items were created, and each of them was deleted or not
    assert len(result.states) == 1 + 2 + 4 + 8


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_all_kinds_give_the_same_states_also_if_items_change(tmp_path: Path, key: str) -> None:
    document: Any = WITH_PUT
    if key == "uuid":
        document = json.loads(json.dumps(WITH_PUT).replace('"integer"', '"string"'))
    path = str(tmp_path / "items.db")
    result = explore_api(
        items(path, key=key), openapi=document, systems=path, max_requests=3000, settle=0, progress=False
    )
    assert not result.truncated
    assert result.violations == []
    # the first n items were created; each of them is there or was deleted, and was changed before or not
    assert len(result.states) == 1 + 4 + 16


COLUMN = ["db", "tasks", "id"]


def made() -> Made:
    return {"POST /tasks": [new_resource({"id": n, "name": "a"}, {}, None, {"id": COLUMN}) for n in (1, 2)]}


def test_what_a_deletion_removes_is_gone_also_if_it_deletes_something_else() -> None:
    found = made()
    forget_rows(found, lambda _: {"2"}, deletes=True)
    assert [each["gone"] for each in found["POST /tasks"]] == [True, False]
    assert [each["rows"] for each in found["POST /tasks"]] == [{}, {"id": COLUMN}]


def test_what_moves_to_another_table_is_not_gone() -> None:
    found = made()
    forget_rows(found, lambda _: {"2"}, deletes=False)
    assert [each["gone"] for each in found["POST /tasks"]] == [False, False]
    assert [each["rows"] for each in found["POST /tasks"]] == [{}, {"id": COLUMN}]
