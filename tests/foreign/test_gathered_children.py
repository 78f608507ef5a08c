"""A report made of parts that run at the same time: one part fails, the report is tried again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew import Context, Engine, Graph, RetryPolicy, SQLiteStore, interrupt, node


class Service:
    """A model that takes a moment, and counts what it is asked; it rejects some topics at first."""

    def __init__(self, *rejected: str) -> None:
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self._rejected = list(rejected)

    async def __call__(self, topic: str) -> str:
        self.asked.append(topic)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.01)
        finally:
            self.at_once -= 1
        if topic in self._rejected:
            self._rejected.remove(topic)
            raise ConnectionError(topic)
        return topic.upper()


def report_on(service: Service) -> Graph:
    @node(output="text")
    async def write(topic, ctx: Context):
        ctx.emit("writing", topic)
        return await ctx.record("model", service, topic)

    part = Graph([write], name="part")

    @node(output="report", retry=RetryPolicy(max_attempts=3, base_delay=0))
    async def report(topics, ctx: Context):
        parts = await asyncio.gather(*(ctx.run(part, {"topic": topic}) for topic in topics))
        return " ".join(part["text"] for part in parts)

    return Graph([report])


TOPICS = ["tea", "milk", "salt", "rice", "corn"]


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 8])
def test_a_report_is_tried_again(tmp_path: Path, is_durable: bool, limit: int) -> None:
    service = Service("milk")
    store = {"store": SQLiteStore(tmp_path / "runs.db")} if is_durable else {}
    engine = Engine(report_on(service), max_concurrent_nodes=limit, **store)
    assert engine.run({"topics": TOPICS}, run_id="r")["report"] == "TEA MILK SALT RICE CORN"
    assert service.most_at_once <= limit
    assert {run.status for run in engine.runs(children=True)} == {"completed"}
    assert engine.replay("r").ok


def test_a_report_fails_and_is_resumed_in_another_process(tmp_path: Path) -> None:
    service = Service("milk", "milk", "milk")
    graph = report_on(service)
    engine = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), publish=True)
    with pytest.raises(ConnectionError) as raised:
        engine.run({"topics": TOPICS}, run_id="r")
    assert "report#0!1/write#0" in raised.value.__notes__[0]
    assert engine.replay("r").ok
    engine.close()

    other = Engine(graph, store=SQLiteStore(tmp_path / "runs.db"), publish=True)
    assert other.resume("r")["report"] == "TEA MILK SALT RICE CORN"
    assert other.replay("r").ok
    said = {event.data["data"] for event in other.handle("r").events() if event.kind == "emitted"}
    assert said == set(TOPICS)
    assert not list(other.store.check())


def test_one_part_asks_while_the_others_work(tmp_path: Path) -> None:
    service = Service()

    @interrupt(output="text")
    def ask(topic):
        return f"{topic}?"

    asking, writing = Graph([ask], name="asking"), report_on(service)

    @node(output="both")
    async def both(topic, ctx: Context):
        asked, written = await asyncio.gather(
            ctx.run(asking, {"topic": topic}), ctx.run(writing, {"topics": [topic]})
        )
        return asked["text"], written["report"]

    engine = Engine(Graph([both]), store=SQLiteStore(tmp_path / "runs.db"))
    result = engine.run({"topic": "tea"}, run_id="r")
    assert (result.status, [each.question for each in result.questions]) == ("waiting", ["tea?"])
    assert engine.replay("r").ok
    assert engine.resume("r", answer="yes")["both"] == ("yes", "TEA")
    assert {run.status for run in engine.runs(children=True)} == {"completed"}
    assert engine.replay("r").ok
