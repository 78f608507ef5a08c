"""What the page does to runs: the functions of the command line, without user code in the server.

- An answer is a message to the run. The process that owns the run, or takes it from a queue, converts the answer to its
  type.
- Resume, and a fork without new values, put a run into a queue: the graph without code, from the stored description, is
  enough for that.
- Rerun, replay and a fork with values need the code: they are given to a process that the server starts, if it was
  started with ``MODULE:GRAPH`` for this graph. Otherwise the answer has the command to type.
"""

from __future__ import annotations

import json
import re
import secrets
from itertools import islice
from typing import Any

import msgspec

from clew import Engine
from clew.engine.records import Question
from clew.errors import RunStateError, UnknownRunError
from clew.json_schema import problems
from clew.runtime.log.reader import RunReader, StoredRun
from clew.runtime.messages import answer_run
from clew.runtime.opener import RunOpener
from clew.runtime.review.replay_report import ReplayReport
from clew.runtime.settings import read_settings
from clew.runtime.submission import put_again, queue_fork, queueing_opener
from clew.stores import RunRow, Store
from clew.views.commands import command, run_command
from clew.views.questions import answer_schema, questions_of
from clew.views.run.header import RunHeader
from clew.web.answers import ApiError
from clew.web.processes import ServerProcesses, failed
from clew.web.value_verbs import ValueVerbs

Json = dict[str, Any]

_MOST_PROBLEMS = 50  # of an answer
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class Verbs:
    """Changes the runs of one store."""

    def __init__(self, store: Store, address: str, *, processes: ServerProcesses | None = None) -> None:
        self.store = store
        self.address = address
        self.processes = processes
        self._runs = RunReader(None, store, "error")
        self._header = RunHeader(self._runs, address)
        self._engine = Engine(store=store)
        self.values = ValueVerbs(address, processes)

    @property
    def target(self) -> str:
        """The graph that the server was started with."""
        return "" if self.processes is None else self.processes.target

    def worker_json(self) -> Json | None:
        """Return the worker that the server has started."""
        return None if self.processes is None else self.processes.worker_json()

    def _opener(self) -> RunOpener:
        return RunOpener(None, self.store, read_settings({}, self.store), ())

    def done(self, run_id: str, *, command: str = "") -> Json:
        """Return what a verb has done: the status of the run, and whether a worker will take it."""
        row = self.store.row(run_id)
        entry = self.store.entry(run_id)
        worker = self._header.worker(row)
        found: Json = {"run": run_id, "status": row.status, "queued": entry is not None, "worker": worker}
        return {**found, "command": command or run_command("show", run_id, address=self.address)}

    # -- verbs -------------------------------------------------------------------------------------------

    def answer(self, run_id: str, body: Json, by: str) -> Json:
        """Answer a question."""
        path, number = body.get("path", ""), body.get("number")
        if "answer" not in body:
            raise ApiError(
                400, "InputError", "the body has no answer", hint='send {"path": ..., "answer": ...}'
            )
        if not isinstance(path, str) or not (number is None or type(number) is int):
            raise ApiError(400, "InputError", "path has to be a text and number a whole number")
        run = self._runs.open(run_id)
        question = self._question(run, path, number)
        found = islice(problems(answer_schema(run, question)[0], body["answer"]), _MOST_PROBLEMS)
        wrong = [{"at": at, "message": message} for at, message in found]
        if wrong:
            first = wrong[0]
            place = f"{first['at'][1:]}: " if first["at"] else ""
            raise ApiError(422, "AnswerError", f"{place}{first['message']}", fields=wrong)
        who = body.get("by")
        name = f"{who[:100]} ({by})" if isinstance(who, str) and who else by
        answer_run(self._opener(), run_id, question.path, body["answer"], by=name, is_json=True)
        return self.done(run_id)

    def _question(self, run: StoredRun, path: str, number: int | None) -> Question:
        """Return the open question at a path, or the only one; `number` is that of the question that was read."""
        run_id, asked = run.row.run_id, run.log().asked
        if not path and len(asked) == 1:
            path = next(iter(asked))
        if path not in asked:
            raise RunStateError(f"run {run_id!r} has no question at {path!r}; it may have been answered")
        if number is not None and number != asked[path].number:
            raise RunStateError(
                f"run {run_id!r} asks something else at {path!r} now; read the question again"
            )
        if any(each["sent"] and each["path"] == path for each in questions_of(run, self.address)):
            raise RunStateError(
                f"run {run_id!r} has an answer at {path!r} that waits for a worker; it cannot be changed"
            )
        return asked[path]

    def resume(self, run_id: str, body: Json, by: str) -> Json:
        """Put a run that has stopped into a queue."""
        run = self._runs.open(run_id)
        if run.row.status in ("waiting", "sleeping"):
            raise RunStateError(f"run {run_id!r} is {run.row.status}; answer its question, or wait")
        put_again(queueing_opener(self.store, run), run_id)
        return self.done(run_id)

    def fork(self, run_id: str, body: Json, by: str) -> Json:
        """Start a run from a step of another one."""
        step, values, new = body.get("step"), body.get("values") or {}, self._new_id(body, f"{run_id}-fork")
        if not (step is None or type(step) in (int, str)) or not isinstance(values, dict):
            raise ApiError(400, "InputError", "step has to be a number or a label, and values an object")
        run = self._runs.open(run_id)
        if values:
            pairs = [f"{name}={json.dumps(value)}" for name, value in values.items()]
            steps = [] if step is None else ["--step", str(step)]
            return self._by_command(run.row, "fork", new, *steps, "--", run_id, *pairs)
        queue_fork(run, step, new)
        return self.done(new)

    def rerun(self, run_id: str, body: Json, by: str) -> Json:
        """Run again with the same input, and reuse what is still valid."""
        values, new = body.get("values") or {}, self._new_id(body, f"{run_id}-rerun")
        if not isinstance(values, dict):
            raise ApiError(400, "InputError", "values has to be an object")
        pairs = [f"{name}={json.dumps(value)}" for name, value in values.items()]
        return self._by_command(self.store.row(run_id), "rerun", new, "--", run_id, *pairs)

    def replay(self, run_id: str, body: Json, by: str) -> Json:
        """Check that the code still produces the recorded results."""
        row = self.store.row(run_id)
        processes = self._with_code(row, "replay")
        _, found, errors = processes.result("replay", "--keep-going", "--", run_id)
        if not isinstance(found, list) or not found:
            raise failed(errors)
        verdict = found[0]
        report = verdict.get("report")
        text = str(msgspec.convert(report, ReplayReport)) if report else verdict.get("problem") or errors
        differences = report["divergences"] if report else []
        return {"ok": bool(verdict.get("ok")), "differences": differences, "text": text}

    def cancel(self, run_id: str, body: Json, by: str) -> Json:
        """Cancel a run, wherever it executes."""
        if not self._engine.cancel(run_id):
            raise RunStateError(f"run {run_id!r} has ended; nothing is left to cancel")
        return self.done(run_id)

    def delete(self, run_id: str, body: Json, by: str) -> Json:
        self._engine.delete(run_id)
        return {"run": run_id, "status": "deleted", "queued": False, "worker": None, "command": None}

    # -- commands ----------------------------------------------------------------------------------------

    def _new_id(self, body: Json, name: str) -> str:
        given = body.get("run_id")
        if given is not None and (not isinstance(given, str) or not given):
            raise ApiError(400, "InputError", "run_id has to be a text that is not empty")
        return given or f"{_UNSAFE.sub('-', name).strip('-') or 'run'}-{secrets.token_hex(3)}"

    def _with_code(self, row: RunRow, verb: str) -> ServerProcesses:
        if not self._is_served(row):
            server = command("serve", row.target or "MODULE:GRAPH", address=self.address)
            raise ApiError(
                409,
                "CodeNeeded",
                f"{verb} needs the code of the graph, and this server does not have it",
                hint=f"start the server with `{server}`, or type the command",
                command=run_command(verb, row.run_id, address=self.address),
            )
        assert self.processes is not None
        return self.processes

    def _is_served(self, row: RunRow) -> bool:
        """Return whether the server has the graph of a run. A run from Python may have no target: then the name of
        its graph decides, or its structure."""
        if not self.target or self.processes is None:
            return False
        if row.target:
            return row.target == self.target
        name, structure = self.processes.graph()
        return bool(row.graph and row.graph == name) or bool(row.structure and row.structure == structure)

    def _by_command(self, row: RunRow, verb: str, new: str, *arguments: str) -> Json:
        processes = self._with_code(row, verb)

        def exists() -> bool:
            try:
                self.store.row(new)
            except UnknownRunError:
                return False
            return True

        if exists():
            raise ApiError(409, "RunExistsError", f"run {new!r} already exists", hint="choose another id")
        processes.begin(exists, verb, "--run-id", new, *arguments)
        return self.done(new)
