"""The addresses of the API: each reads its parameters, and calls a view or a verb."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from clew import Engine
from clew.errors import InputError
from clew.runtime.log.reader import RunReader
from clew.stores import Store
from clew.stores.factory import table_names
from clew.views.checks import TABLE as CHECKS
from clew.views.checks import check_json, checks_json
from clew.views.comparison import comparison_json
from clew.views.dependency_graphs import PREFIX, graphs_json
from clew.views.dependency_graphs import graph_json as values_json
from clew.views.questions import count_unanswered, question_json, questions_json
from clew.views.queues import WINDOWS, FinishedRuns, queues_json
from clew.views.run.calls import MOST as MOST_CALLS
from clew.views.run.calls import calls_json
from clew.views.run.header import RunHeader
from clew.views.run.index import MOST_FOUND, RunIndex
from clew.views.run.inside import inside_json
from clew.views.run.journal import MOST as MOST_ENTRIES
from clew.views.run.journal import journal_json
from clew.views.run.pictures import graph_json
from clew.views.run.states import RunStates
from clew.views.run.stored_steps import first_of
from clew.views.run.timeline import window
from clew.views.run.why import DEEPEST, why_json
from clew.views.run_list import MOST, PAGE, check_cursor, run_list_json
from clew.web.access import HEADERS
from clew.web.answers import VERSION, answer, encoded
from clew.web.routes import Routes
from clew.web.value_verbs import VERBS as VALUE_VERBS
from clew.web.verbs import Verbs

Handler = Callable[..., Any]


_FIRST = """\
from typing import Literal

from clew import Context, Graph, node


@node(output="draft")
def write(topic):
    return f"About {topic}."


@node(output="decision")
def decide(draft, ctx: Context):
    return ctx.interrupt(f"Publish {draft!r}?", type=Literal["yes", "no"])


graph = Graph([write, decide])
"""


def first_run(address: str) -> list[str]:
    """Return commands that make a first run, as they can be typed."""
    store = f" --store {shlex.quote(address)}" if address else ""
    is_file = not address.startswith(("postgresql:", "postgres:"))
    tried = [f"clew demo --store {shlex.quote(address or 'clew.db')}"] if is_file else []
    return [*tried, f"cat > first.py <<'END'\n{_FIRST}END", f"clew run first:graph topic=tides{store}"]


class Parameters:
    """The parameters of a request."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs
        self.by = ""  # who sent it

    def text(self, name: str, default: str = "") -> str:
        return next((value for key, value in self._pairs if key == name), default)

    def given(self, name: str) -> str | None:
        """Return a text, or None if it was not given."""
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        """Return every text that was given under a name."""
        return [value for key, value in self._pairs if key == name]

    def number(self, name: str, default: int, *, least: int = 0, most: int = 1 << 53) -> int:
        """Return a number between two limits. Raise InputError if it is not one."""
        text = self.text(name)
        if not text:
            return default
        if not re.fullmatch(r"-?\d{1,16}", text):
            raise InputError(f"{name} has to be a number, got {text!r}")
        return min(max(int(text), least), most)


class Api:
    """Answers the requests for one store."""

    def __init__(self, store: Store, address: str, verbs: Verbs, *, read_only: bool = False) -> None:
        self.store = store
        self.address = address
        self.verbs = verbs
        self.read_only = read_only
        self.runs = RunReader(None, store, "error")
        self.header = RunHeader(self.runs, address, read_only=read_only)
        self.states = RunStates(self.runs)
        self.index = RunIndex(self.runs, self.states)
        self.engine = Engine(store=store)
        self.finished = FinishedRuns(store)
        self.routes: Routes[Handler] = Routes()
        add = self.routes.add
        add("GET", "", self.server)
        add("GET", "runs", self.run_list)
        add("GET", "runs/*", self.run)
        add("GET", "runs/*/graph", self.graph)
        add("GET", "runs/*/items", self.items)
        add("GET", "runs/*/changes", self.changes)
        add("GET", "runs/*/state/*", self.state)
        add("GET", "runs/*/values/*/*", self.value)
        add("GET", "runs/*/why", self.why)
        add("GET", "runs/*/calls", self.calls)
        add("GET", "runs/*/log", self.log)
        add("GET", "runs/*/questions/*", self.question)
        add("GET", "runs/*/overview", self.overview)
        add("GET", "runs/*/export", self.export)
        add("GET", "questions", self.question_list)
        add("GET", "diff", self.diff)
        add("GET", "queues", self.queue_list)
        add("GET", "checks", self.check_list)
        add("GET", "checks/*", self.check)
        add("GET", "values", self.dependency_graphs)
        add("GET", "values/*", self.dependency_graph)
        for verb in ("answer", "resume", "fork", "rerun", "replay", "cancel"):
            add("POST", f"runs/*/{verb}", partial(self.verb, verb))
        add("DELETE", "runs/*", partial(self.verb, "delete"))
        for verb in VALUE_VERBS:
            add("POST", f"values/*/{verb}", partial(self.value_verb, verb))

    def now(self) -> float:
        """Return the time."""
        return time.time()

    def server(self, query: Parameters, body: Any) -> Any:
        """Return what this server is."""
        import clew

        return {
            "version": VERSION,
            "clew": clew.__version__,
            "store": {
                "name": self.address or "clew.db",
                "kind": type(self.store).__name__.removesuffix("Store"),
            },
            "read_only": self.read_only,
            "target": self.verbs.target or None,
            "worker": self.verbs.worker_json(),
            "counts": self.counts(),
            "first_run": first_run(self.address),
            "now": self.now(),
        }

    def counts(self) -> dict[str, int]:
        """Return the numbers in the navigation."""
        by_status = self.store.tally()
        return {
            "runs": sum(by_status.values()),
            "questions": count_unanswered(self.store, by_status.get("waiting", 0)),
            "queues": len(self.store.queues()),
            **self.extras(),
        }

    def extras(self) -> dict[str, int]:
        """Return the numbers of checks and dependency graphs."""
        names = table_names(self.store)
        found = checks_json(self.store)["checks"] if CHECKS in names else []
        bad = sum(bool(each["violations"]) for each in found)
        graphs = sum(name.startswith(PREFIX) for name in names)
        return {"checks": len(found), "checks_bad": bad, "values": graphs}

    def run_list(self, query: Parameters, body: Any) -> Any:
        """Return a page of runs."""
        limit = query.number("limit", PAGE, least=1, most=MOST)
        sort = query.text("sort", "-started")
        return run_list_json(self.runs, query.text("q"), sort, query.given("after"), limit, self.now())

    def run(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return the header of a run."""
        return self.header.json(run_id, self.now())

    def graph(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return the picture of the graph of a run."""
        run = self.runs.open(run_id)
        return answer(graph_json(run), headers={"etag": f'"{run.accepted.structure}"'})

    def items(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return what ran in a range of steps."""
        inside = query.text("inside")
        if inside:
            return inside_json(self.runs, run_id, inside)
        show = query.text("show")
        if show:
            limit = query.number("limit", 50, least=1, most=MOST_FOUND)
            return self.index.items(run_id, show, query.text("node"), limit)
        run = self.runs.open(run_id)
        if query.given("step") is not None:
            step = query.number("step", 1)
            return window(run, step, step)
        first = max(query.number("from", 1), first_of(run) + 1)
        return window(run, first, query.number("to", first + 199))

    def changes(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return what each step of a range changed."""
        first = query.number("from", 0)
        return self.states.changes(run_id, first, query.number("to", first + 199))

    def state(self, query: Parameters, body: Any, run_id: str, step: str) -> Any:
        return self.states.state(run_id, step)

    def value(self, query: Parameters, body: Any, run_id: str, step: str, name: str) -> Any:
        """Return one whole value, or its bytes."""
        if not query.given("raw"):
            return self.states.value(run_id, step, name)
        _, _, value = self.states.raw_value(run_id, step, name)
        if not isinstance(value, bytes | bytearray):
            value = encoded(self.states.value(run_id, step, name)["value"])
        headers = {
            **HEADERS,
            "content-disposition": 'attachment; filename="value.bin"',
            "cache-control": "no-store",
        }
        return Response(bytes(value), 200, headers, "application/octet-stream")

    def why(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Explain an item, a node or a value."""
        step = query.number("step", 0) if query.given("step") else None
        depth = query.number("depth", DEEPEST, least=1, most=DEEPEST)
        targets = (query.text("item"), query.text("node"), query.text("value"))
        return why_json(self.runs, self.states, run_id, *targets, step=step, depth=depth)

    def calls(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return recorded calls."""
        limit = query.number("limit", 100, least=1, most=MOST_CALLS)
        return calls_json(self.runs.open(run_id), query.text("item"), query.number("after", 0), limit)

    def log(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return what happened in addition to steps."""
        limit = query.number("limit", 200, least=1, most=MOST_ENTRIES)
        return journal_json(self.runs.open(run_id), query.number("after", 0), limit)

    def question(self, query: Parameters, body: Any, run_id: str, path: str) -> Any:
        return question_json(self.runs.open(run_id), path, self.address)

    def verb(self, verb: str, query: Parameters, body: Any, run_id: str) -> Any:
        """Do something to a run."""
        act: Callable[..., Any] = getattr(self.verbs, verb)
        made = act(run_id, body, query.by)
        return answer(made, 200 if verb in ("replay", "delete") else 202)

    def value_verb(self, verb: str, query: Parameters, body: Any, name: str) -> Any:
        """Do something to a value of a dependency graph."""
        return self.verbs.values.do(verb, name, body)

    def overview(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return the chain of a run in buckets."""
        return self.index.overview(run_id, query.number("buckets", 400, least=1, most=2_000))

    def export(self, query: Parameters, body: Any, run_id: str) -> Any:
        """Return a run as a document."""
        document = self.engine.export_run(run_id)
        return answer(document, headers={"content-disposition": 'attachment; filename="run.json"'})

    def question_list(self, query: Parameters, body: Any) -> Any:
        """Return all open questions."""
        cursor = query.given("after")
        if cursor is not None:
            check_cursor(cursor)
        return questions_json(self.runs, cursor, query.number("limit", 50, least=1, most=200), self.address)

    def diff(self, query: Parameters, body: Any) -> Any:
        """Compare two runs."""
        step = query.number("k", 0) if query.given("k") else None
        return comparison_json(self.runs, query.text("a"), query.text("b"), step, self.address)

    def queue_list(self, query: Parameters, body: Any) -> Any:
        """Return queues and workers."""
        wanted = query.number("window", 3_600)
        window = min(WINDOWS, key=lambda each: abs(each - wanted))
        return queues_json(self.store, self.address, self.finished.json(window, self.now()))

    def check_list(self, query: Parameters, body: Any) -> Any:
        return checks_json(self.store)

    def check(self, query: Parameters, body: Any, name: str) -> Any:
        return check_json(self.store, name)

    def dependency_graphs(self, query: Parameters, body: Any) -> Any:
        return graphs_json(self.store)

    def dependency_graph(self, query: Parameters, body: Any, name: str) -> Any:
        node = query.text("node")
        found = values_json(self.store, name, node, schemas=query.text("show") == "schemas")
        named = {"pull": node, "invalidate": node, "set": ""}
        commands = {verb: self.verbs.values.command(verb, named[verb] or "NODE") for verb in VALUE_VERBS}
        return {**found, "commands": commands}
