"""Values are shown, edited and sent with all their digits and kinds."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from clew import Context, Engine, Graph, Worker, node
from tests.browser.conftest import Open, Served

BIG = 12345678901234567890
MIXED = {
    "x": Decimal("0.10"),
    "y": 2**53 + 1,
    "t": (1, 2),
    "s": {3},
    "when": datetime(2026, 1, 2, 3, 4, 5),
}


@node(output="more")
def same(big: Any, mixed: Any, long: Any) -> Any:
    return big + 1


@node(output="found")
def ask(topic: str, ctx: Context) -> dict[str, int]:
    return ctx.interrupt("Which numbers?", type=dict[str, int])


@node(output="rows")
def collect(n: int) -> Any:
    return {str(number): "x" * 100 for number in range(n)}


exact = Graph([same], name="exact")
numbers = Graph([ask], name="numbers")


def run_exact(served: Served) -> None:
    values = {"big": BIG, "mixed": MIXED, "long": "x" * 1_300_000}
    Engine(exact, store=served.store, check=False).run(values, run_id="exact")


def test_values_keep_their_digits_and_kinds(served: Served, open_page: Open) -> None:
    run_exact(served)
    page = open_page(f"{served.url}/runs/exact?k=0", expect="409")
    page.get_by_role("button", name="JSON", exact=True).click()
    shown = json.loads(page.locator("section.value pre").inner_text())
    assert shown["big"] == BIG
    assert shown["mixed"]["x"] == {"$decimal": "0.10"}
    assert shown["mixed"]["t"] == {"$tuple": [1, 2]}
    assert "long" not in shown
    page.locator(".values").get_by_text("long (1.3 MB").wait_for()  # its size
    page.locator('[data-verb="fork"]').click()
    dialog = page.get_by_role("dialog")
    dialog.locator("summary", has_text="mixed").click()
    dialog.locator("summary", has_text="long").click()
    dialog.get_by_text("too large to edit here (1.3 MB").wait_for()
    area = dialog.get_by_label("mixed as JSON")
    edited = area.input_value().replace("0.10", "0.20")
    area.fill(edited)
    command = dialog.locator("[data-clew-copy]").get_attribute("data-clew-copy")
    assert '"y":9007199254740993' in command
    dialog.get_by_label("new run id").fill("my fork")
    command = dialog.locator("[data-clew-copy]").get_attribute("data-clew-copy")
    assert "--run-id 'my fork'" in command
    with page.expect_request("**/fork") as sent:
        dialog.get_by_role("button", name="Fork").click()
    body = json.loads(sent.value.post_data)
    assert body["values"] == {
        "mixed": {
            "x": {"$decimal": "0.20"},
            "y": 2**53 + 1,
            "t": {"$tuple": [1, 2]},
            "s": {"$set": [3]},
            "when": {"$datetime": "2026-01-02T03:04:05"},
        }
    }
    area.fill(edited.replace("0.20", "0.10"))  # what it was
    dialog.get_by_text("Values: change one").wait_for()


def test_a_large_value_that_came_is_named_in_changes(served: Served, open_page: Open) -> None:
    Engine(Graph([collect], name="collect"), store=served.store, check=False).run(
        {"n": 20_000}, run_id="rows"
    )
    page = open_page(f"{served.url}/runs/rows?k=1")
    page.locator('[data-clew-value="rows"]').get_by_text("a large value").wait_for()


def test_an_answer_keeps_its_digits(served: Served, open_page: Open) -> None:
    engine = Engine(numbers, store=served.store, check=False)
    engine.run({"topic": "x"}, run_id="numbers")
    page = open_page(f"{served.url}/runs/numbers/answer/ask%230")
    form = page.locator("[data-clew-form]")
    form.get_by_role("textbox").fill(f'{{"a": {BIG}, "b": 1}}')
    form.get_by_role("button", name="as JSON").click()
    assert str(BIG) in form.get_by_label("the answer as JSON").input_value()
    form.get_by_role("button", name="as a form").click()
    assert str(BIG) in form.get_by_role("textbox").input_value()
    form.get_by_role("button", name="Answer and go on").click()
    page.get_by_role("dialog").get_by_role("button", name="Good").click()
    Worker(numbers, store=served.store, slots=1).run(until_idle=True)
    assert engine.result("numbers")["found"] == {"a": BIG, "b": 1}
