"""Which calls a state offers, and in which order they are tried."""

from __future__ import annotations

from typing import Any

import pytest

from clew.explore.api.calls import CRITICAL, LEADING, PROBING, UNLINKED, Call, CallTable
from clew.explore.api.logins import Authentication
from clew.explore.api.openapi.document import ApiDocument
from clew.explore.api.requests import RequestBuilder
from clew.explore.api.resources import Made, new_resource
from clew.explore.api.turns import CallTurns
from clew.explore.model.actions import Action


def operation(body: dict[str, Any] | None = None, required: tuple[str, ...] = ()) -> dict[str, Any]:
    if body is None:
        return {"responses": {}}
    schema = {"type": "object", "properties": body, "required": list(required)}
    return {"responses": {}, "requestBody": {"content": {"application/json": {"schema": schema}}}}


NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
DOCUMENT = {
    "openapi": "3.1.0",
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "key"}}},
    "security": [{"key": []}],
    "paths": {
        "/books": {"post": operation({"title": TEXT})},
        "/shelves": {"post": operation({"name": TEXT, "book_id": NUMBER})},
        "/loans": {"post": operation({"book_id": NUMBER}, ("book_id",)), "get": operation()},
        "/loans/{id}/end": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": NUMBER}],
            "post": operation(),
        },
        "/loans/{id}/sign": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": NUMBER}],
            "post": operation(),
        },
    },
}
BOOK = {"POST /books": [new_resource({"id": 40, "title": "a"}, {}, "alice", {})]}
LOAN: Made = {**BOOK, "POST /loans": [new_resource({"id": 50}, {}, "alice", {})]}


@pytest.fixture
def table() -> CallTable:
    document = ApiDocument(DOCUMENT)
    return CallTable(document, Authentication(document, ["key of alice", "key of bob"], 2), 2)


def named(table: CallTable, made: Made) -> dict[str, Call]:
    return {call.name: call for call in table.offered(made, {})}


def sent(table: CallTable, name: str, made: Made) -> Any:
    return RequestBuilder(table).build(named(table, made)[name], made, None).json


def test_a_call_that_must_refer_to_something_says_what_is_missing(table: CallTable) -> None:
    assert named(table, {})["POST /loans [#0, without books]"].rank == UNLINKED
    assert named(table, BOOK)["POST /loans [#0]"].rank == LEADING
    gone: Made = {"POST /books": [{**BOOK["POST /books"][0], "gone": True}]}
    assert "POST /loans [#0, without books]" in named(table, gone)
    table.independent = {"POST /loans"}  # calibration saw that it is accepted
    assert "POST /loans [#0]" in named(table, {})


def test_a_reference_to_nothing_is_left_out_where_it_is_optional(table: CallTable) -> None:
    assert set(sent(table, "POST /shelves [#0]", {})) == {"name"}
    assert sent(table, "POST /shelves [#0]", BOOK)["book_id"] == 40
    assert set(sent(table, "POST /loans [#0, without books]", {})) == {"book_id"}
    assert sent(table, "POST /loans [#0]", BOOK) == {"book_id": 40}


def test_what_may_be_critical_comes_first(table: CallTable) -> None:
    calls = named(table, LOAN)
    assert calls["POST /loans [anonymous]"].rank == CRITICAL
    assert calls["GET /loans [anonymous]"].rank == PROBING  # nothing is written
    assert calls["GET /loans"].rank == PROBING


class Order:
    """Names the calls in the order in which they are tried; `rejected` are the names that the service rejects."""

    def __init__(self, table: CallTable, rejected: set[str]) -> None:
        self.calls: dict[str, Call] = {}
        self.actions: list[Action] = []
        self.numbers: dict[str, int] = {}
        self.tried: list[tuple[int, str]] = []
        self.table, self.rejected = table, rejected
        strategy = CallTurns(self.calls.get, lambda: self.tried[-1][1] in self.rejected)
        self.frontier = strategy.start(self.actions)
        self.pairs = self.frontier.pairs()

    def add(self, node: int, made: Made) -> None:
        offered = named(self.table, made)
        for name, call in offered.items():
            if name not in self.numbers:
                self.numbers[name] = len(self.actions)
                self.calls[name] = call
                self.actions.append(Action(name, lambda _: None, probe=call.probe))
        self.frontier.add(node, [self.numbers[name] for name in offered])

    def next(self) -> tuple[int, str]:
        node, action = next(self.pairs)
        self.tried.append((node, self.actions[action].name))
        return self.tried[-1]

    def until(self, name: str) -> None:
        while self.next()[1] != name:
            pass


def test_a_call_without_credentials_is_tried_where_the_same_call_was_accepted(table: CallTable) -> None:
    rejected = {f"POST /{each} [anonymous]" for each in ("books", "shelves", "loans")}
    order = Order(table, rejected | {"POST /loans [#0, without books]"})
    order.add(0, {})
    assert {order.next()[1], order.next()[1]} == {"POST /books [anonymous]", "POST /shelves [anonymous]"}
    order.until("POST /books [#0]")
    order.add(1, BOOK)
    assert order.next() == (1, "POST /books [anonymous]")
    # the loan is possible now, and its probe comes first
    assert order.next() == (1, "POST /loans [anonymous]")


def test_a_rejected_call_is_tried_again_after_another_one_about_the_same_resource(table: CallTable) -> None:
    end, sign = "POST /loans/{id}/end [loans#0]", "POST /loans/{id}/sign [loans#0]"
    order = Order(table, {end})
    order.add(0, LOAN)
    order.until(end)
    order.until(sign)
    order.add(1, {**LOAN, "POST /loans/{id}/sign": []})
    while (found := order.next())[1].endswith("anonymous]"):
        pass
    assert found == (1, end)


def test_calls_about_one_resource_follow_each_other_in_every_second_turn(table: CallTable) -> None:
    end, sign = "POST /loans/{id}/end [loans#0]", "POST /loans/{id}/sign [loans#0]"
    order = Order(table, set())
    order.add(0, LOAN)
    order.until(end)
    order.until(sign)
    order.add(1, LOAN)
    found = [order.next() for _ in range(20)]
    after = [each for each in found if not each[1].endswith("anonymous]")]
    assert {(1, end), (1, sign)} <= {*after[:4]}  # the same call again, too
    assert len({*after[:4]} - {(1, end), (1, sign)}) == 2


def test_a_write_by_a_former_identifier_follows_the_call_that_replaced_it(table: CallTable) -> None:
    sign = "POST /loans/{id}/sign [loans#0]"
    order = Order(table, set())
    order.add(0, LOAN)
    order.until(sign)
    renamed = {**new_resource({"id": 51}, {}, "alice", {}), "former": {"id": 50}}
    order.add(1, {**LOAN, "POST /loans": [renamed]})
    found = [order.next() for _ in range(8)]
    after = [each for each in found if not each[1].endswith("anonymous]")]
    assert {*after[:2]} == {(1, f"POST /loans/{{id}}/{each} [loans#0 formerly]") for each in ("sign", "end")}


def test_a_deleted_resource_is_only_probed(table: CallTable) -> None:
    gone = {**new_resource({"id": 50}, {}, "alice", {}), "gone": True}
    found = named(table, {**LOAN, "POST /loans": [gone]})
    deleted = {name: call for name, call in found.items() if "deleted" in name}
    assert set(deleted) == {f"POST /loans/{{id}}/{each} [loans#0 deleted]" for each in ("sign", "end")}
    assert all(call.probe for call in deleted.values())
