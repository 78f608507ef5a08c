"""Questions of runs: what is asked, what kind of answer is expected, and what runs after it.

The JSON Schema of an answer is stored with the question if the node gave a type. For an interrupt node, it is that of
the value that the answer becomes, from the stored description of the graph. A question about a call that may have
happened has its own choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from clew.display import brief
from clew.engine.records import Question
from clew.error_text import encodable
from clew.errors import ClewError, UnknownRunError
from clew.graph import Graph
from clew.runtime.drivers.inbox import unpacked
from clew.runtime.log.entries.codec import EntryDecoder
from clew.runtime.log.entries.records import ANSWER, QUESTION, names_of
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.log.run_log import RunLog
from clew.stores import RunRow, Store
from clew.stores.protocol import Message
from clew.views.commands import run_command
from clew.views.descriptions import description_of, frame_description
from clew.views.run.stored_steps import record_of
from clew.views.shown import shown

Json = dict[str, Any]

_SHOWN = 64_000  # bytes of a question
_TITLE = 300
_COUNTED = 50  # waiting runs whose questions are counted


def open_questions(store: Store, row: RunRow) -> list[Question]:
    """Return the questions of a run that have no answer, from their entries alone."""
    found = store.within(row.run_id, names_of(QUESTION, ANSWER))
    answers = Counter(entry.path for entry in found if entry.kind == ANSWER.name)
    decoder = EntryDecoder(row.run_id, store.blob, row.created, classes=False)
    newest: dict[str, Question] = {}
    for entry in found:
        if entry.kind == QUESTION.name and entry.n >= answers[entry.path]:
            newest[entry.path] = decoder.record(entry)
    return sorted(newest.values(), key=lambda each: (each.step, each.path))


def unanswered(store: Store, row: RunRow) -> list[Question]:
    """Return the open questions of a run, without those whose answer waits for the process that takes the run."""
    asked = open_questions(store, row)
    sent = _answers(store, store.inbox(row.run_id)) if asked else {}
    return [each for each in asked if (each.path, each.position) not in sent]


def count_unanswered(store: Store, waiting: int) -> int:
    """Return how many questions are open in the store; of many waiting runs, how many runs."""
    if not 0 < waiting <= _COUNTED:
        return waiting
    found = 0
    for row in store.page(status="waiting", limit=_COUNTED)[0]:
        try:
            found += len(unanswered(store, row))
        except ClewError:  # the list says that it is damaged
            found += 1
    return found


def title_of(question: Any) -> str:
    """Return the text of a question: ``ask`` of a mapping, or the question itself."""
    if isinstance(question, dict):
        for name in ("ask", "question", "title", "text", "message"):
            if isinstance(question.get(name), str):
                question = question[name]
                break
    text = question if isinstance(question, str) else brief(question, _TITLE)
    text = " ".join(encodable(text).split())
    return text if len(text) <= _TITLE else f"{text[: _TITLE - 1]}…"


def _facts(question: Any) -> list[Json]:
    if not isinstance(question, dict):
        return []
    title = title_of(question)
    return [
        {"name": encodable(str(name)), "value": shown(value, _SHOWN)[0]}
        for name, value in question.items()
        if not (isinstance(value, str) and title_of(value) == title)
    ]


def node_at(graph: Graph, path: str) -> tuple[Graph, Any] | None:
    """Return the node that asks at a path, and its graph; None for a question about a call or in a child."""
    if "!" in path:
        return None
    inside, _, last = path.rpartition("/")
    for part in inside.split("/") if inside else ():
        node = graph.nodes.get(part.partition("#")[0])
        if node is None or node.subgraph is None:
            return None
        graph = node.subgraph.graph
    node = graph.nodes.get(last.partition("#")[0])
    return None if node is None else (graph, node)


def answer_schema(run: StoredRun, question: Question) -> tuple[Any, str, str | None]:
    """Return the JSON Schema of an answer (None if any is accepted), its type as text, and the value it becomes."""
    if question.schema is not None:
        return question.schema, question.type, None
    found = node_at(run.graph, question.path)
    if found is None:
        return None, "", None
    _, node = found
    if node.kind != "interrupt":
        return None, "", None
    name = node.outputs[0]
    form = frame_description(description_of(run), question.path)
    field = ((form or {}).get("state") or {}).get("fields", {}).get(name)
    if not isinstance(field, dict):
        return None, "", name
    return field.get("schema") or None, str(field.get("type", "")), name


def follow_ups(graph: Graph, question: Question) -> list[str]:
    """Return the nodes that read what the answer becomes, or follow the node that asks."""
    found = node_at(graph, question.path)
    if found is None:
        return []
    graph, node = found
    if node.kind != "interrupt":
        return [node.name]
    wrote = set(node.outputs)
    return [
        each.name
        for each in graph.nodes.values()
        if wrote & set(each.inputs) or node.name in each.after or (node.name, each.name) in graph.edges
    ][:8]


def questions_of(run: StoredRun, address: str) -> list[Json]:
    """Return the open questions of a run."""
    log = run.log()
    return [_json(run, log, question, address) for question in log.questions]


def question_json(run: StoredRun, path: str, address: str) -> Json:
    """Return the question at a path: open, or the last one that was answered."""
    log = run.log()
    if path in log.asked:
        return _json(run, log, log.asked[path], address)
    answered = _answered(run, path, address)
    if answered is None:
        raise UnknownRunError(f"run {run.row.run_id!r} has no question at {path!r}")
    return answered


def _answered(run: StoredRun, path: str, address: str) -> Json | None:
    answers = run.store.find(run.row.run_id, ANSWER.name, path)
    if not answers:
        return None
    record = record_of(run, answers[-1])
    asked = [record_of(run, each) for each in run.store.find(run.row.run_id, QUESTION.name, path)]
    node = path.rpartition("/")[2].partition("#")[0]
    question = asked[-1] if asked else Question(path, node, "", 0, record.number)
    given = {
        "time": record.time or None,
        "by": record.by or None,
        "answer": shown(record.answer, _SHOWN)[0],
    }
    known = (
        _json(run, None, question, address) if asked else {"run": run.row.run_id, "path": path, "node": node}
    )
    return {**known, "open": False, "answered": given}


def _json(run: StoredRun, log: RunLog | None, question: Question, address: str) -> Json:
    schema, type_, writes = answer_schema(run, question)
    row, run_id = run.row, run.row.run_id
    deadline = None
    for wait in log.waits if log is not None else ():
        if wait.path == question.path and wait.position == question.position and wait.reason == "question":
            deadline = wait.due
    return {
        "run": run_id,
        "graph": row.graph,
        "path": question.path,
        "node": question.node,
        "step": question.step,
        "number": question.number,
        "asked": question.time or None,
        "question": shown(question.question, _SHOWN)[0],
        "title": title_of(question.question),
        "facts": _facts(question.question),
        "schema": schema,
        "type": type_ or None,
        "writes": writes,
        "refused": question.error,
        "deadline": deadline,
        "next": follow_ups(run.graph, question),
        "open": True,
        "answered": None,
        "sent": _sent(run.store, log, question),
        "command": answer_command(run_id, 1 if log is None else len(log.asked), address),
    }


def answer_command(run_id: str, questions: int, address: str) -> str:
    """Return the command that answers a run: with a file, if it asks several questions."""
    option = "--answer JSON" if questions <= 1 else "--answers FILE"
    return run_command("resume", run_id, option, address=address)


def _sent(store: Store, log: RunLog | None, question: Question) -> Json | None:
    """Return the answer that waits in the inbox of a run for the process that takes it."""
    found = _answers(store, log.messages if log is not None else ()).get((question.path, question.position))
    if found is None:
        return None
    return {"by": encodable(str(found[3])) or None, "answer": shown(found[2], _SHOWN)[0]}


def _answers(store: Store, messages: Iterable[Message]) -> dict[tuple[str, str], Sequence[Any]]:
    """Return the answers among the messages to a run, the first for each question, by its path and position."""
    answers = dict[tuple[str, str], Sequence[Any]]()
    for message in messages:
        found = unpacked(store, message) if message.kind == ANSWER.name else None
        if isinstance(found, list | tuple):
            answers.setdefault((found[0], found[1]), found)
    return answers


def questions_json(runs: RunReader, cursor: str | None, limit: int, address: str) -> Json:
    """Return the questions of all runs that need an answer, oldest run first, one page of runs at a time."""
    rows, following = runs.store.page(status="waiting", order="oldest", limit=limit, cursor=cursor)
    found: list[Json] = []
    for row in rows:
        try:
            found += [each for each in questions_of(runs.open(row.run_id), address) if each["sent"] is None]
        except ClewError as error:
            found.append({"run": row.run_id, "graph": row.graph, "damage": str(error)})
    found.sort(key=lambda each: each.get("asked") or 0.0)
    return {"questions": found, "next": following}
