"""Replay: run the nodes of a recorded run once more, against its recordings, and say where today's code differs.

Nothing outside is touched. Recorded calls are answered from the log, and so are questions; `ctx.sleep` does not sleep;
nodes with side effects that were not recorded call by call are not called, their recorded outcome stands, and so does
that of items that were reused from elsewhere. All other nodes are called for real, each with exactly what it saw then,
because the recorded outcome is what the chain goes on with, whatever the node returned now. So one difference does not
hide the next: `strict` stops at the first, otherwise all are listed.

An item that failed is called too, as its last attempt, and has to fail with the same error. What cannot come out
the same is not asked for: that something took too long, that nobody knew whether a call was made, that something
could not be stored, that an input changed while the node ran. An update that a reducer refused is that of an item
which returned.

Custom reducers are not called: what they made then is in the steps. That one is another now is a difference by itself.

A run that has not ended is replayed as far as it got. An item that has no recording because the run had ended is a
difference, and as its outcome is unknown, the chain is followed no further than its step.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

import msgspec

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.outcomes import read
from clew.engine.program import Program
from clew.engine.records import FinishedItem, Outcome, Question, Start, Step
from clew.error_text import message_of, type_name
from clew.errors import (
    AmbiguousCallError,
    ClewError,
    EncodeError,
    MutationError,
    NodeTimeoutError,
    ReplayError,
    ReplayMismatchError,
    ReplayMissingError,
)
from clew.graph import Send
from clew.runtime.calls.ambiguity import place_text
from clew.runtime.calls.arguments import unbuilt_input
from clew.runtime.calls.host import Host
from clew.runtime.calls.recorder import OWN, ItemCalls, answer, same
from clew.runtime.calls.scopes import Asking, Scope
from clew.runtime.log.call_records import RecordedCall, Request
from clew.runtime.log.fingerprints import changed_reducers, structure_changes
from clew.runtime.log.run_log import RunLog
from clew.runtime.log.stored_errors import name_of
from clew.runtime.review.value_diff import difference
from clew.runtime.settings import Settings
from clew.state.stored_object import have_been_made

Kind = Literal[
    "reducer",
    "update",
    "decision",
    "error",
    "question",
    "call",
    "missing",
    "start",
    "step",
    "extra",
    "absent",
]


class Divergence(msgspec.Struct, frozen=True):
    """One place where a replay is not what was recorded."""

    kind: Kind
    step: int
    path: str
    node: str
    message: str
    diff: str = ""

    def __str__(self) -> str:
        told = f"step {self.step}, {self.path or 'the chain'}: {self.message}"
        return f"{told}\n{self.diff}" if self.diff else told


class ReplayReport(msgspec.Struct, frozen=True):
    """What a replay found. It is true if nothing differs."""

    run_id: str
    steps: int
    items: int
    calls: int
    divergences: tuple[Divergence, ...]
    graph: str = ""
    """In what the graph is another than when the run was recorded, if something differs and that may be why."""

    def __bool__(self) -> bool:
        return not self.divergences

    @property
    def ok(self) -> bool:
        """Whether the replay ended in the same digests."""
        return not self.divergences

    def check(self) -> None:
        """Raise the first difference, if there is one.

        Raises:
            ReplayMismatchError: If a recorded call differs.
            ReplayMissingError: If a call was never recorded.
            ReplayError: If something else differs.
        """
        if self.divergences:
            first = self.divergences[0]
            raise _RAISED.get(first.kind, ReplayError)(
                f"run {self.run_id!r} does not replay: {self._why()}{first}"
            )

    def _why(self) -> str:
        return f"it was recorded with another graph ({self.graph}); " if self.graph else ""

    def __str__(self) -> str:
        seen = ", ".join(
            f"{count} {what}{'' if count == 1 else 's'}"
            for count, what in ((self.steps, "step"), (self.items, "item"), (self.calls, "recorded call"))
        )
        if self.ok:
            return f"run {self.run_id!r} replays: {seen}"
        told = "\n".join(str(each) for each in self.divergences)
        why = f"\nit was recorded with another graph ({self.graph})" if self.graph else ""
        return f"run {self.run_id!r} does not replay ({seen}):{why}\n{told}"


_RAISED: dict[str, type[ReplayError]] = {"call": ReplayMismatchError, "missing": ReplayMissingError}


class RecordedCallSource:
    """Answers `ctx.record` from recordings; what it cannot answer is noted, should the node swallow the error."""

    def __init__(self, run_id: str, calls: Iterable[RecordedCall], asked: Mapping[str, Question]) -> None:
        self._run_id = run_id
        by_path: dict[str, list[RecordedCall]] = {}
        for call in calls:
            by_path.setdefault(call.path, []).append(call)
        self._histories = {path: ItemCalls(found) for path, found in by_path.items()}
        self._asked = asked
        self.answered = 0
        self.wrong: list[tuple[Kind, str, str]] = []

    def has(self, path: str) -> bool:
        """Whether an item's calls to the outside world were recorded one by one."""
        history = self._histories.get(path)
        return history is not None and any(not call.name.startswith(OWN) for call in history.calls)

    def call(
        self,
        item: Item,
        attempt: int,
        scope: Scope,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The recording of a call: of this attempt, or a success of another one."""
        history = self._histories.get(item.path, _NOTHING)
        known = history.candidates(item.frame.epoch, attempt, scope.place)
        at = place_text(scope.place)
        where = f"node {item.node.name!r} at {item.path}, call {at} ({name!r})"
        if not known:
            question = self._asked.get(item.path)
            if question is not None and question.position.startswith(f"{at}."):
                raise Asking(
                    question.question
                )  # the call was left with it: what it did before was not recorded
            told = f"{where} was never recorded: it is new, or the node went another way"
            self.wrong.append(("missing", told, ""))
            raise ReplayMissingError(told)
        for found in known:
            if found.name == name and same(found.request, (args, kwargs)):
                self.answered += 1
                return answer(found, item, self._run_id)
        found = known[0]
        if found.name != name:
            told, diff = f"{where} was {found.name!r} when recorded", ""
        else:
            told = f"{where} asks for something else than was recorded"
            diff = difference(_readable(found.request), _readable((args, kwargs)))
        self.wrong.append(("call", told, diff))
        raise ReplayMismatchError(f"{told}\n{diff}" if diff else told)


_NOTHING = ItemCalls()


class _ReplayHost(Host):
    """Has nodes called with recordings for the outside world; nobody listens, and nothing sleeps."""

    def __init__(
        self, run_id: str, machine: Machine, settings: Settings, recordings: RecordedCallSource
    ) -> None:
        super().__init__(run_id, machine, settings)
        self.recorder = recordings


class _CallResult(msgspec.Struct):
    """How a call of a node ended: with a value, a question or an error."""

    value: Any = None
    asking: Asking | None = None
    error: Exception | None = None


class Replayer:
    """One replay."""

    def __init__(self, log: RunLog, program: Program, settings: Settings, *, strict: bool) -> None:
        self._log = log
        self._graph = program.graph
        self._strict = strict
        self._items = 0
        self._settled: set[str] = set()  # items that have an outcome in this replay
        self._reached: set[str] = set()  # items that had failed, and were called
        self._broken: list[str] = []  # subgraphs of which today's code makes nothing
        self._recordings = RecordedCallSource(log.row.run_id, log.calls, log.asked)
        self._steps = log.steps_by_place()
        self._outcomes = log.outcomes()
        # of the step that was not committed
        self._failed = {failure.path: failure for failure in log.row.failures if failure.node}
        options = Options(
            seed=log.row.seed,
            max_steps=settings.max_steps,
            on_error="continue",  # a recorded failure is taken over like any outcome
            on_conflict=log.on_conflict,  # type: ignore[arg-type]
        )
        memory = PriorWork(answers=log.answers, attempts=log.attempts, retraced=self._steps)
        self._machine = Machine.restore(program, log.start, options, memory)
        self._host = _ReplayHost(log.row.run_id, self._machine, settings, self._recordings)

    def run(self) -> ReplayReport:
        """Replay to the end of what was recorded."""
        found = tuple(islice(self._differences(), 1 if self._strict else None))
        return ReplayReport(
            run_id=self._log.row.run_id,
            steps=self._machine.root.step - self._log.start.step,
            items=self._items,
            calls=self._recordings.answered,
            divergences=found,
            graph="; ".join(structure_changes(self._log.row, self._graph)) if found else "",
        )

    def _differences(self) -> Iterator[Divergence]:
        machine, log = self._machine, self._log
        yield from self._reducers()
        stuck_at: int | None = None  # the step of the first item whose outcome nobody knows
        while (item := machine.take()) is not None:
            recorded = self._outcomes.get(item.path)
            if recorded is not None:
                self._items += 1
                if recorded.error is not None:
                    yield from self._check_failure(item, recorded.error, bool(recorded.refused))
                elif not recorded.cached and self._may_be_called(item):
                    yield from self._check_outcome(item, recorded)
                machine.adopt(item, recorded)
            elif item.path in self._failed:
                self._items += 1
                self._reached.add(item.path)
                failure = self._failed[item.path]
                yield from self._check_failure(item, failure.error, bool(failure.refused))
            elif item.path in log.asked and self._may_be_called(item):
                yield from self._check_question(item, log.asked[item.path].question)
            elif log.row.status == "completed":
                stuck_at = min(stuck_at or item.order[0], item.order[0])
                yield _at(item, "extra", "it runs now, and did not when the run was recorded")
            yield from self._check_records()
        yield from self._check_records()
        yield from self._absent(stuck_at)

    def _may_be_called(self, item: Item) -> bool:
        """Whether calling an item's function touches nothing outside, as far as its node says."""
        effects = item.node.side_effects
        return not (effects.recordable or effects.requires_idempotency) or self._recordings.has(item.path)

    # -- items -------------------------------------------------------------------------------------------

    def _call(self, item: Item) -> _CallResult:
        unbuilt = unbuilt_input(item, self._log.row.run_id) if have_been_made() else None
        if unbuilt is not None:
            return _CallResult(error=unbuilt)
        try:
            value = self._host.call(item)
            if item.node.mode in ("async", "async_generator"):
                value = asyncio.run(_awaited(value))
        except Asking as asking:
            return _CallResult(asking=asking)
        except Exception as error:
            return _CallResult(error=error)
        return _CallResult(value)

    def _wrong_calls(self, item: Item) -> list[Divergence]:
        """What the recordings could not answer. Whatever the node did after that says nothing."""
        wrong, self._recordings.wrong = self._recordings.wrong, []
        return [_at(item, kind, message, diff) for kind, message, diff in wrong]

    def _check_outcome(self, item: Item, recorded: Outcome) -> Iterator[Divergence]:
        ended = self._call(item)
        if wrong := self._wrong_calls(item):
            yield from wrong
        elif ended.asking is not None:
            yield _at(item, "question", f"it asks {ended.asking.question!r}, and did not when recorded")
        elif ended.error is not None:
            yield _at(item, "error", _raises(ended.error))
        else:
            view = item.batch.working_state
            try:
                update, decision = read(view.program, item.node, ended.value, view)
            except ClewError as error:
                yield _at(item, "error", str(error))
            else:
                yield from self._compare(item, recorded, dict(update), decision)

    def _check_failure(self, item: Item, error: BaseException, is_refused: bool) -> Iterator[Divergence]:
        """It failed when recorded: it has to do so now, in the same way. If its update was refused, it had returned."""
        if issubclass(type(error), _NOT_AGAIN) or not self._may_be_called(item):
            return
        ended, view = self._call(item), item.batch.working_state
        now: Exception | None = ended.error
        if now is None and ended.asking is None:
            try:
                read(view.program, item.node, ended.value, view)
            except ClewError as refused:
                now = refused
        was = _told(error)
        if wrong := self._wrong_calls(item):
            yield from wrong
        elif ended.asking is not None:
            yield _at(item, "question", f"it asks {ended.asking.question!r}, and raised {was} when recorded")
        elif is_refused:
            if now is not None:
                yield _at(item, "error", _raises(now))
        elif now is None:
            yield _at(item, "error", f"it raised {was} when recorded, and returns now")
        elif _told(now) != was:
            yield _at(item, "error", "it raises something else", difference(was, _told(now)))

    def _compare(self, item: Item, recorded: Outcome, update: Any, decision: Any) -> Iterator[Divergence]:
        if not same(dict(recorded.update), update):
            yield _at(item, "update", "it returns something else", difference(dict(recorded.update), update))
        elif not same(_plain(recorded.decision), _plain(decision)):
            told = difference(_plain(recorded.decision), _plain(decision))
            yield _at(item, "decision", "it decides something else", told)

    def _check_question(self, item: Item, question: Any) -> Iterator[Divergence]:
        ended = self._call(item)
        asked = ended.value if item.node.kind == "interrupt" else ended.asking and ended.asking.question
        if wrong := self._wrong_calls(item):
            yield from wrong
        elif ended.error is not None or (ended.asking is None and item.node.kind != "interrupt"):
            yield _at(item, "question", f"it asked {question!r} when recorded, and does not now")
        elif not same(asked, question):
            yield _at(item, "question", "it asks something else", difference(question, asked))

    def _reducers(self) -> Iterator[Divergence]:
        """Values that other reducers than today's were applied to: from there on, what nodes see may be another."""
        for value in changed_reducers(self._log.row, self._machine.root.program.graph):
            inside, _, name = value.rpartition("/")
            for (prefix, number), step in sorted(self._steps.items()):
                nodes = "/".join(part.partition("#")[0] for part in prefix.split("/")[:-1])
                if nodes == inside and any(name in outcome.update for outcome in step.outcomes):
                    at = number if not prefix else self._step_of(prefix[:-1])
                    told = f"the reducer of {name!r} is another than when the run was recorded"
                    yield Divergence("reducer", at, prefix[:-1], "", told)
                    break

    # -- the chain ---------------------------------------------------------------------------------------

    def _check_records(self) -> Iterator[Divergence]:
        """What the machine made of the outcomes: the steps, and what subgraphs began with."""
        records = list(self._machine.outbox)
        self._machine.outbox.clear()
        for record in records:
            if isinstance(record, FinishedItem):
                self._settled.add(record.path)
            elif isinstance(record, Start):
                yield from self._check_start(record)
            elif isinstance(record, Step):
                self._settled.update(record.prefix + outcome.path for outcome in record.outcomes)
                yield from self._check_step(record)

    def _check_start(self, start: Start) -> Iterator[Divergence]:
        known = self._log.frames.get(start.prefix)
        if known is not None and not same(dict(known[0].values), dict(start.values)):
            path = start.prefix[:-1]
            told = difference(dict(known[0].values), dict(start.values))
            message = "the graph inside begins with something else"
            yield Divergence("start", self._step_of(path), path, _node_of(path), message, told)

    def _check_step(self, step: Step) -> Iterator[Divergence]:
        then = self._steps.get((step.prefix, step.number))
        if then is None:
            if self._log.row.status == "completed":
                told = (
                    f"{', '.join(step.prefix + o.path for o in step.outcomes)} is a step that was not there"
                )
                yield Divergence("step", step.number, "", "", told)
            return
        was, now = [o.path for o in then.outcomes], [o.path for o in step.outcomes]
        if was != now:
            told = "its items are something else"
            yield Divergence("step", step.number, step.prefix[:-1], "", told, difference(was, now))
            return
        for old, new in zip(then.outcomes, step.outcomes, strict=True):
            path = step.prefix + new.path
            if old.error is not None:
                continue
            if new.error is not None:  # of a subgraph that could not begin or end
                self._broken.append(path)
                yield Divergence("error", step.number, path, new.node, _raises(new.error))
            elif not same(dict(old.update), dict(new.update)):  # a subgraph's, or an answer
                told = difference(dict(old.update), dict(new.update))
                yield Divergence("update", step.number, path, new.node, "it gives something else", told)

    def _absent(self, stuck_at: int | None) -> Iterator[Divergence]:
        """What ran when recorded, and does not now. How far a run was ahead of its last step, and what was let fall
        inside an item that failed, is a matter of time, and says nothing."""
        last = self._log.start.step + len(self._log.steps)
        failed = [path for path, outcome in self._outcomes.items() if outcome.error is not None]
        around = [path for failure in self._failed.values() for path in failure.around]
        over = tuple(
            f"{path}{end}" for path in (*self._broken, *self._failed, *around, *failed) for end in "/["
        )
        for path, outcome in self._outcomes.items():
            step = self._step_of(path)
            if step > last or path.startswith(over):
                continue
            if path not in self._settled and (stuck_at is None or step <= stuck_at):
                yield Divergence("absent", step, path, outcome.node, "it ran when recorded, and does not now")
        for path, failure in self._failed.items():
            is_known = path in self._reached or path in self._settled or path in self._outcomes
            begun = any(prefix.startswith((f"{path}/", f"{path}[")) for prefix in self._log.frames)
            if not is_known and not begun and (stuck_at is None or failure.step <= stuck_at):
                told = "it failed when recorded, and does not run now"
                yield Divergence("absent", failure.step, path, failure.node, told)

    def _step_of(self, path: str) -> int:
        """The step of the run in which an item, or what is around it, was recorded."""
        root, is_inside, _ = path.partition("/")
        for step in self._log.steps:
            for outcome in step.outcomes:
                if outcome.path == root or (is_inside and root.startswith(f"{outcome.path}[")):
                    return step.number
        return self._log.start.step + len(self._log.steps) + 1


def _at(item: Item, kind: Kind, message: str, diff: str = "") -> Divergence:
    return Divergence(kind, item.order[0], item.path, item.node.name, message, diff)


_NOT_AGAIN = (NodeTimeoutError, AmbiguousCallError, EncodeError, MutationError)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def _told(error: BaseException) -> str:
    """An error in words that are the same in every process."""
    kind, message = name_of(error)
    return f"{kind.rpartition(':')[2]}: {_ADDRESS.sub('0x...', message)}"


def _raises(error: BaseException) -> str:
    return f"it raises {type_name(error)}: {message_of(error)}, and returned when recorded"


def _node_of(path: str) -> str:
    return path.rpartition("/")[2].partition("#")[0]


def _readable(request: Request) -> dict[str, Any]:
    """A request by the places and names of its arguments."""
    args, kwargs = request
    return {**{f"argument {place}": value for place, value in enumerate(args, 1)}, **kwargs}


def _plain(decision: Any) -> Any:
    if decision is None:
        return None
    return [[c.target, dict(c.payload)] if isinstance(c, Send) else c for c in decision]


async def _awaited(value: Any) -> Any:
    return await value
