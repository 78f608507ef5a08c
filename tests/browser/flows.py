"""Graphs whose runs the page shows in the tests and in the pictures of the documentation.

`PACE` scales how long the nodes take: 1.0 gives timelines that are worth looking at, tests use a small number.
"""

from __future__ import annotations

import operator
import os
import threading
import time as clock
from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from clew import Context, Graph, NodePolicy, RetryPolicy, Send, interrupt, merge, node, route

PACE = float(os.environ.get("CLEW_PAGE_PACE", "0.01"))


def pause(seconds: float) -> None:
    clock.sleep(seconds * PACE)


# -- an agent that asks ------------------------------------------------------------------------------------------


class Decision(msgspec.Struct):
    action: Literal["refund", "replace", "decline"]
    amount: float
    notify: bool = True
    note: str = ""


class Ticket(TypedDict, total=False):
    ticket: str
    call: str
    plan: list[str]
    policy: str
    messages: Annotated[list[dict[str, str]], operator.add]
    findings: Annotated[dict[str, Any], merge]
    risk: float
    draft: str
    decision: Decision
    sent: str


ROUNDS = [["order", "customer"], ["customer", "refunds", "stock"], []]
TOOLS: dict[str, tuple[float, Any]] = {
    "order": (0.09, {"id": "A-10423", "total": 64.9, "status": "delivered"}),
    "customer": (0.16, {"id": 771, "since": 2019, "orders": 23, "country": "GR"}),
    "refunds": (0.25, {"count": 1, "total": 18.5}),
    "stock": (0.1, {"sku": "KTL-2L-RED", "left": 4}),
}


def ask_model(seen: int) -> list[str]:
    pause(0.17)
    return ROUNDS[0] if not seen else ROUNDS[1] if seen == 2 else ROUNDS[2]


@node(output="plan")
def think(ticket: str, messages: list[dict[str, str]], ctx: Context) -> list[str]:
    return ctx.record("ask_model", ask_model, len(messages))


@route(targets=["use_tool", "draft_reply"])
def next_move(plan: list[str]) -> Any:
    return [Send("use_tool", {"call": call}) for call in plan] if plan else "draft_reply"


def look_up(name: str) -> Any:
    seconds, found = TOOLS[name]
    pause(seconds)
    return found


@node(
    output=("messages", "findings"),
    policy=NodePolicy(retry_policy=RetryPolicy(max_attempts=3, base_delay=0.24 * PACE)),
)
def use_tool(call: str, ctx: Context) -> Any:
    if call == "customer" and ctx.attempt == 0:
        pause(0.12)
        raise ConnectionError("the tool answered 503")
    found = ctx.record(call, look_up, call)
    return [{"role": "tool", "content": f"{call} → {found}"}], {call: found}


@node(output="policy")
def read_policy(ticket: str) -> str:
    pause(1.05)
    return "Refunds above 50 € need a person."


@node(output="risk")
def score(plan: list[str], findings: dict[str, Any]) -> float:
    pause(0.06)
    return 0.109


def write_letter(findings: list[str]) -> str:
    pause(0.22)
    return (
        "Dear Ms Makri,\n\nyour kettle (order A-10423) shows as delivered on 6 November, but nobody signed for it. "
        "By our terms such a parcel counts as lost, and we make it good.\n\nYours, the shop"
    )


@node(output="draft")
def draft_reply(findings: dict[str, Any], policy: str, ctx: Context) -> str:
    return ctx.record("write_letter", write_letter, sorted(findings))


@interrupt(output="decision")
def approve(draft: str, risk: float) -> dict[str, Any]:
    return {
        "ask": "Refund 64.90 € for order A-10423?",
        "why": "above the 50 € limit of the policy",
        "risk": risk,
        "draft": draft,
    }


@node(output="sent")
def send(draft: str, decision: Decision) -> str:
    pause(0.1)
    return f"{decision.action} {decision.amount}"


support = Graph(
    [think, next_move, use_tool, read_policy, score, draft_reply, approve, send], state=Ticket, name="support"
)

# -- an invoice that fails ---------------------------------------------------------------------------------------


@node(output="lines")
def read_lines(invoice: dict[str, Any]) -> list[dict[str, Any]]:
    pause(0.03)
    return invoice["lines"]


def fetch_rates() -> dict[str, float]:
    pause(0.08)
    return {"EUR": 1, "USD": 1.0874}


@node(output="rates")
def rates(invoice: dict[str, Any], ctx: Context) -> dict[str, float]:
    return ctx.record("fetch_rates", fetch_rates)


def in_euro(line: dict[str, Any], rates: dict[str, float]) -> float:
    return line["amount"] / rates[line["currency"]]


@node(output="total", policy=NodePolicy(retry_policy=RetryPolicy(max_attempts=3, base_delay=0.1 * PACE)))
def sum_up(lines: list[dict[str, Any]], rates: dict[str, float]) -> float:
    pause(0.02)
    return sum(in_euro(line, rates) for line in lines)


@node(output="booked")
def book(total: float) -> bool:
    pause(0.02)
    return total > 0


invoice = Graph([read_lines, rates, sum_up, book], name="invoice")

# -- a fan-out with retries --------------------------------------------------------------------------------------


class Audit(TypedDict, total=False):
    files: list[str]
    file: str
    found: Annotated[dict[str, int], merge]
    total: int


@route(targets=["scan"])
def each_file(files: list[str]) -> list[Send]:
    return [Send("scan", {"file": name}) for name in files]


@node(output="found", policy=NodePolicy(retry_policy=RetryPolicy(max_attempts=3, base_delay=0.03 * PACE)))
def scan(file: str, ctx: Context) -> dict[str, int]:
    number = int("".join(filter(str.isdigit, file)) or 0)
    rng = Random(number)
    pause(0.36 if number == 317 else min(0.09, 0.004 + rng.expovariate(90)))
    if number % 61 == 7 and ctx.attempt == 0:
        raise ConnectionError("storage answered 503")
    return {file: number % 17}


@node(output="total")
def tally(found: dict[str, int]) -> int:
    pause(0.04)
    return sum(found.values())


audit = Graph([each_file, scan, tally], state=Audit, name="audit")

# -- a long walk, an editor, and a slow run ----------------------------------------------------------------------


@node(output="at")
def step_on(at: int) -> int:
    return at + 1


@route(targets=["step_on", "END"])
def more(at: int, upto: int) -> str:
    return "step_on" if at < upto else "END"


walk = Graph([step_on, more], name="walk")


@interrupt(output="approved")
def ask_editor(text: str) -> str:
    return f"Publish {text!r}?"


@node(output="published")
def publish(text: str, approved: bool) -> str:
    return text if approved else ""


letter = Graph([ask_editor, publish], name="letter")


class Appointment(msgspec.Struct):
    """An answer with a field of each kind that has a control of its own."""

    urgency: Literal["low", "high", "at once"]
    day: date
    at: time
    remind: Annotated[datetime, msgspec.Meta(tz=True)]
    price: Decimal
    until: datetime = datetime(2026, 12, 1, 18, 30)
    begin: Annotated[datetime, msgspec.Meta(tz=True)] = datetime(2026, 11, 30, 3, 30, tzinfo=UTC)
    followed_by: date | None = None


@node(output="appointment")
def arrange(ctx: Context) -> Appointment:
    return ctx.interrupt("When?", type=Appointment)


appointments = Graph([arrange], name="appointments")


@node(output="ticks")
def tick(ticks: int, delay: float) -> int:
    clock.sleep(delay)
    return ticks + 1


@route(targets=["tick", "END"])
def again(ticks: int, upto: int) -> str:
    return "tick" if ticks < upto else "END"


ticking = Graph([tick, again], name="ticking")

# -- a run that waits long ---------------------------------------------------------------------------------------

DAYS = 2 * 86_400.0


@node(output="made")
def make(wish: str) -> str:
    return wish


@node(output="rested", after="make")
def rest(wish: str, ctx: Context) -> bool:
    ctx.sleep(DAYS)
    return True


@node(
    output="served",
    policy=NodePolicy(retry_policy=RetryPolicy(max_attempts=2, base_delay=DAYS, max_delay=DAYS)),
)
def serve(made: str, rested: bool, ctx: Context) -> str:
    if ctx.attempt == 0:
        raise ConnectionError("nobody is there")
    return made


patient = Graph([make, rest, serve], name="patient")

# -- a run that is ahead of a slow node ---------------------------------------------------------------------------

NIGHT_IS_AHEAD, NIGHT_MAY_END = threading.Event(), threading.Event()
NIGHT: dict[str, Any] = {"log": ["mailer", "carts", "stock"], "rounds": 0, "odd": 0}


class Night(TypedDict, total=False):
    log: list[str]
    records: list[str]
    service: str
    patterns: Annotated[dict[str, int], merge]
    book: str
    groups: list[str]
    rounds: Annotated[int, operator.add]
    odd: Annotated[int, lambda old, new: old + new]
    seen: str
    report: str


@node(output="records")
def parse(log: list[str]) -> list[str]:
    pause(0.08)
    return sorted(log)


@node(output="book", policy=NodePolicy(timeout=600))
def run_book(records: list[str]) -> str:
    NIGHT_MAY_END.wait(600)
    return "do nothing"


@route(targets=["scan"])
def each_service(records: list[str]) -> list[Send]:
    return [Send("scan", {"service": name}) for name in records]


@node(output="patterns")
def scan(service: str) -> dict[str, int]:
    pause(0.1 + 0.07 * len(service))
    return {service: len(service)}


@node(output="groups")
def sort_out(patterns: dict[str, int]) -> list[str]:
    pause(0.04)
    return sorted(patterns)


@route(targets=["fold", "END"])
def alike(groups: list[str]) -> str:
    if len(groups) > 1:
        return "fold"
    NIGHT_IS_AHEAD.set()
    return "END"


@node(output=("groups", "rounds", "odd"))
def fold(groups: list[str]) -> tuple[list[str], int, int]:
    pause(0.09)
    return [" + ".join(groups[:2]), *groups[2:]], 1, 1


@node(output="seen")
def see(odd: int) -> str:
    return str(odd)


@node(output="report")
def report(book: str, groups: list[str]) -> str:
    return f"{book}: {groups}"


night = Graph(
    [parse, run_book, each_service, scan, sort_out, alike, fold, see, report], state=Night, name="triage"
)

# -- names that try to be markup ---------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)>\"'/../&#"


@node(output="note", name="<img src=x onerror=alert(3)>")
def hostile_node(text: str) -> str:
    return f"<svg onload=alert(1)>{text}</svg>"


@node(output="done")
def hostile_error(note: str) -> str:
    raise ValueError(f"<script>alert('error')</script>{note}")


hostile = Graph([hostile_node, hostile_error], name="<b>bold</b>")

# -- subgraphs and child runs ------------------------------------------------------------------------------------


@node(output="words")
def split(text: str) -> list[str]:
    return text.split()


@node(output="size")
def measure(words: list[str]) -> int:
    return len(words)


counting = Graph([split, measure], name="counting")


@node(output="answer")
def compare(size: int, limit: int) -> bool:
    return size <= limit


checking = Graph([counting.as_node(name="count"), compare], name="checking")


@node(output="copies")
def hand_out(text: str, ctx: Context) -> int:
    result = ctx.run(counting, {"text": text})
    return int(result.values["size"])


nested = Graph([checking.as_node(name="check"), hand_out], name="nested")

# -- the answer of a question across databases, as the application leaves it ------------------------------------------


@node(output=("subgraph_outputs", "aggregator_response"))
def ask_sources(user_query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = {
        "shop": "SELECT city, SUM(total) AS sales FROM orders GROUP BY city",
        "post": "SELECT city, AVG(days) AS days FROM parcels GROUP BY city",
    }
    outputs = {
        name: {
            "sub_query": {"datasource_id": name},
            "sql_draft": sql,
            "artifact": {"row_count": 2, "content_hash": "9f2c61d0"},
            "status": "done",
        }
        for name, sql in asked.items()
    }
    rows = [["Bergen", 1290, 2.5], ['Oslo, "the capital"', 880, None]]
    table = {"columns": ["city", "sales", "days"], "rows": rows, "notes": ["joined by city"], "sql": ""}
    return outputs, table


@node(output="answer_synthesizer_response")
def say(aggregator_response: dict[str, Any]) -> dict[str, Any]:
    return {"answer": f"{len(aggregator_response['rows'])} cities.", "partial": False}


question = Graph([ask_sources, say], name="nl2sql")

# -- an answer without fields of its own, and an error with two causes --------------------------------------------


@node(output="counts")
def count_by_hand(shelf: str, ctx: Context) -> dict[str, int]:
    return ctx.interrupt(f"How many of each on {shelf}?", type=dict[str, int])


stocktaking = Graph([count_by_hand], name="stocktaking")


def to_number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise KeyError(text) from error


@node(output="price")
def read_price(tag: str) -> int:
    try:
        return to_number(tag)
    except KeyError as error:
        raise LookupError(f"{tag} has no price") from error


prices = Graph([read_price], name="prices")
