"""Replay: call the nodes of a recorded run again with its recordings, and report where the current code differs.

A replay has no external effects. Recorded calls and questions are answered from the log, and `ctx.sleep` does not
sleep. Nodes with side effects that were not recorded call by call are not called; their recorded outcome is used. The
same applies to reused items. All other nodes are called with their recorded inputs, because the chain always continues
with the recorded outcome. So one difference does not hide the next: `strict` stops at the first, otherwise all are
listed.

A failed item is called as its last attempt, and has to fail with the same error. Errors that cannot be reproduced are
not checked: timeouts, ambiguous calls, values that could not be stored, and inputs that changed while the node ran. An
item whose update a reducer rejected has to return. Of a rescued item, neither the node nor its rescue is called. If the
rescue failed, both are called, and the rescue has to fail with the same error.

Custom reducers are not called, because steps contain their results. A changed reducer is a difference by itself.

A child is replayed in the same way, against its own log. The node gets the recorded result even if the child differs.

An unfinished run is replayed as far as it was recorded. In a completed run, an item without a recording is a
difference. Its outcome is unknown, so the replay follows the chain only up to its step.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from clew.display import brief
from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.options import Options, PriorWork
from clew.engine.program import Program
from clew.engine.records import Failure, FinishedItem, Outcome, Question, Start, Step
from clew.engine.updates.failed_attempts import can_be_rescued
from clew.engine.updates.outcomes import read
from clew.error_text import message_of, type_name
from clew.errors import AmbiguousCallError, ClewError, EncodeError, MutationError, NodeTimeoutError
from clew.graph import Send
from clew.runtime.calls.arguments import unbuilt_input
from clew.runtime.calls.scopes import Asking
from clew.runtime.log.checks.fingerprints import changed_reducers, structure_changes
from clew.runtime.log.entries.stored_errors import name_of
from clew.runtime.log.run_log import RunLog
from clew.runtime.review.recorded_calls import RecordedCallSource, ReplayedChildren, ReplayHost
from clew.runtime.review.replay_report import Divergence, Kind, ReplayReport
from clew.runtime.review.value_diff import difference
from clew.runtime.settings import Settings
from clew.state import position_of, same
from clew.state.stored_object import have_been_made


class _CallResult(msgspec.Struct):
    """The result of calling a node: a value, a question or an error."""

    value: Any = None
    asking: Asking | None = None
    error: Exception | None = None


class Replayer:
    """One replay."""

    def __init__(
        self, log: RunLog, program: Program, settings: Settings, *, strict: bool, children: ReplayedChildren
    ) -> None:
        self._log = log
        self._graph, self._strict = program.graph, strict
        self._items = 0
        self._settled: set[str] = set()  # items that have an outcome in this replay
        self._reached: set[str] = set()  # items that failed or asked when recorded, and are reached
        self._broken: list[str] = []  # subgraph items that fail with the current code
        self._recordings = RecordedCallSource(log.row.run_id, log.calls, log.asked)
        # the questions of each item that waits, also of its children: item!call/...
        self._asked = dict[str, dict[str, Question]]()
        for path, asked in log.asked.items():
            self._asked.setdefault(path.partition("!")[0], {})[path] = asked
        self._steps = log.steps_by_place()
        self._outcomes = log.outcomes()
        # failures of the step that was not committed
        self._failed = {each.path: each for each in log.row.failures if each.node and not each.rescued}
        options = Options(
            seed=log.row.seed,
            max_steps=settings.max_steps + position_of(log.start).began,
            on_error="continue",  # a recorded failure is adopted like any outcome
            on_conflict=log.on_conflict,
            edits=log.edits,
        )
        prior_work = PriorWork(log.rescued(), log.answers, attempts=log.attempts, retraced=self._steps)
        self._machine = Machine.restore(program, log.start, options, prior_work)
        self._host = ReplayHost(log, self._machine, settings, self._recordings, children)

    def run(self) -> ReplayReport:
        """Replay to the end of the recording."""
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
        stuck_at: int | None = None  # the step of the first item without a recorded outcome
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
            elif item.path in self._asked:
                self._reached.add(item.path)
                if self._may_be_called(item):
                    yield from self._check_question(item, self._asked[item.path])
            elif log.row.status == "completed":
                stuck_at = min(stuck_at or item.order[0], item.order[0])
                yield _at(item, "extra", "it runs now, but did not when recorded")
            yield from self._check_records()
        yield from self._check_records()
        yield from self._absent(stuck_at)

    def _may_be_called(self, item: Item) -> bool:
        """Return whether an item can be called without side effects, according to its node."""
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
                from clew.runtime.process.own_loop import run_coroutine  # it imports asyncio

                recorded = self._outcomes.get(item.path)
                duration = recorded.duration if recorded is not None else _PATIENCE
                self._recordings.patience = min(duration, _MOST_PATIENCE)
                value = run_coroutine(partial(_awaited, item, value))
        except Asking as asking:
            return _CallResult(asking=asking)
        except Exception as error:
            return _CallResult(error=error)
        return _CallResult(value)

    def _call_mismatches(self, item: Item) -> list[Divergence]:
        """Return the calls without a matching recording, and what differs in children.

        After one, the result of the node is meaningless.
        """
        found, self._recordings.mismatches = self._recordings.mismatches, []
        inside, self._host.inside = self._host.inside, []
        step = item.order[0]
        return [
            *(_at(item, kind, message, diff) for kind, message, diff in found),
            *(
                Divergence(each.kind, step, f"{place}/{each.path}", each.node, each.message, each.diff)
                for place, each in inside
            ),
        ]

    def _check_outcome(self, item: Item, recorded: Outcome) -> Iterator[Divergence]:
        ended = self._call(item)
        if found := self._call_mismatches(item):
            yield from found
        elif ended.asking is not None:
            yield _at(item, "question", f"it asks {brief(ended.asking.question)}, but did not when recorded")
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

    def _check_failure(self, item: Item, error: BaseException, is_rejected: bool) -> Iterator[Divergence]:
        """Check that a failed item fails with the same error. If its update was rejected, it has to return."""
        if issubclass(type(error), _NOT_AGAIN) or not self._may_be_called(item):
            return
        was, node = _error_text(error), item.node
        ended, now = self._failed_call(item)
        if node.rescuer is not None and not is_rejected and not self._recordings.mismatches:
            if now is None and node.policy.timeout is not None:
                return  # the rescue may have followed a timeout
            if now is not None and can_be_rescued(now) and _error_text(now) != was:
                item.node, item.failures = node.rescuer, (Failure(now),)
                ended, now = self._failed_call(item)
                item.node = node
        if found := self._call_mismatches(item):
            yield from found
        elif ended.asking is not None:
            yield _at(
                item, "question", f"it asks {brief(ended.asking.question)}, but raised {was} when recorded"
            )
        elif is_rejected:
            if now is not None:
                yield _at(item, "error", _raises(now))
        elif now is None:
            yield _at(item, "error", f"it raised {was} when recorded, but returns now")
        elif _error_text(now) != was:
            yield _at(item, "error", "it raises a different error", difference(was, _error_text(now)))

    def _failed_call(self, item: Item) -> tuple[_CallResult, Exception | None]:
        """Call an item; return the result, and the error with which it fails: that of its value, if it is invalid."""
        ended, view = self._call(item), item.batch.working_state
        if ended.error is None and ended.asking is None:
            try:
                read(view.program, item.node, ended.value, view)
            except ClewError as invalid:
                return ended, invalid
        return ended, ended.error

    def _compare(self, item: Item, recorded: Outcome, update: Any, decision: Any) -> Iterator[Divergence]:
        if not same(dict(recorded.update), update):
            yield _at(
                item, "update", "it returns a different value", difference(dict(recorded.update), update)
            )
        elif not same(_plain(recorded.decision), _plain(decision)):
            diff = difference(_plain(recorded.decision), _plain(decision))
            yield _at(item, "decision", "it makes a different decision", diff)

    def _check_question(self, item: Item, questions: Mapping[str, Question]) -> Iterator[Divergence]:
        """Compare a question with the recorded one at its path. Of several children, any may ask first."""
        ended = self._call(item)
        path = item.path if ended.asking is None else item.path + ended.asking.about
        question = questions.get(path, next(iter(questions.values()))).question
        asked = ended.value if item.node.kind == "interrupt" else ended.asking and ended.asking.question
        if found := self._call_mismatches(item):
            yield from found
        elif ended.error is not None or (ended.asking is None and item.node.kind != "interrupt"):
            yield _at(item, "question", f"it asked {brief(question)} when recorded, but does not now")
        elif not same(asked, question):
            yield _at(item, "question", "it asks a different question", difference(question, asked))

    def _reducers(self) -> Iterator[Divergence]:
        """Yield the first step of each value whose reducer has changed: later inputs may differ."""
        for value in changed_reducers(self._log.row, self._machine.root.program.graph):
            inside, _, name = value.rpartition("/")
            for (prefix, number), step in sorted(self._steps.items()):
                nodes = "/".join(part.partition("#")[0] for part in prefix.split("/")[:-1])
                if nodes == inside and any(name in outcome.update for outcome in step.outcomes):
                    at = number if not prefix else self._step_of(prefix[:-1])
                    message = f"the reducer of {name!r} has changed since the run was recorded"
                    yield Divergence("reducer", at, prefix[:-1], "", message)
                    break

    # -- the chain ---------------------------------------------------------------------------------------

    def _check_records(self) -> Iterator[Divergence]:
        """Compare the records of the machine: steps, and initial states of subgraphs."""
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
            diff = difference(dict(known[0].values), dict(start.values))
            message = "the subgraph starts with different values"
            yield Divergence("start", self._step_of(path), path, _node_of(path), message, diff)

    def _check_step(self, step: Step) -> Iterator[Divergence]:
        then = self._steps.get((step.prefix, step.number))
        if then is None:
            if self._log.row.status == "completed":
                items = ", ".join(step.prefix + o.path for o in step.outcomes)
                yield Divergence("step", step.number, "", "", f"the step of {items} is not in the recording")
            return
        was, now = [o.path for o in then.outcomes], [o.path for o in step.outcomes]
        if was != now:
            message = "the step has different items"
            yield Divergence("step", step.number, step.prefix[:-1], "", message, difference(was, now))
            return
        for old, new in zip(then.outcomes, step.outcomes, strict=True):
            path = step.prefix + new.path
            if old.error is not None:
                continue
            if new.error is not None:  # a subgraph that could not start or end
                self._broken.append(path)
                yield Divergence("error", step.number, path, new.node, _raises(new.error))
            elif not same(dict(old.update), dict(new.update)):  # of a subgraph, or an answer
                diff = difference(dict(old.update), dict(new.update))
                yield Divergence("update", step.number, path, new.node, "it returns a different value", diff)

    def _absent(self, stuck_at: int | None) -> Iterator[Divergence]:
        """Yield the items that ran, failed or asked when recorded, but do not run now.

        Lookahead beyond the last step and discarded work in failed items depend on timing, so they are ignored. So is
        the work in subgraph items that a person has ended by hand: the step by hand is repeated as it is.
        """
        stuck = math.inf if stuck_at is None else stuck_at
        last = self._log.start.step + len(self._log.steps)
        over = tuple(f"{path}{sign}" for path in self._ended_around() for sign in "/[")
        for path, outcome in self._outcomes.items():
            if path in self._settled or path.startswith(over):
                continue
            if (step := self._step_of(path)) <= min(stuck, last):
                yield Divergence("absent", step, path, outcome.node, "it ran when recorded, but does not now")
        known = {*self._reached, *self._settled, *self._outcomes}
        for path, failure in self._failed.items():
            has_begun = any(prefix.startswith((f"{path}/", f"{path}[")) for prefix in self._log.frames)
            if path not in known and not has_begun and failure.step <= stuck:
                message = "it failed when recorded, but does not run now"
                yield Divergence("absent", failure.step, path, failure.node, message)
        for path in self._asked:
            is_known = path in self._reached or path in self._settled
            if not (is_known or path.startswith(over) or self._is_ahead(path, last)):
                message = "it asked a question when recorded, but does not run now"
                yield Divergence("absent", self._step_of(path), path, _node_of(path), message)

    def _is_ahead(self, path: str, last: int) -> bool:
        """Return whether an item asked in a step after the first one that is not committed."""
        frame = self._log.frames.get(path[: path.rfind("/") + 1])
        committed = last if frame is None else len(frame[1])
        return max(question.step for question in self._asked[path].values()) > committed + 1

    def _ended_around(self) -> Iterator[str]:
        """Yield the items that ended without the items inside them: they failed, or a person ended them."""
        yield from self._broken
        for path, failure in self._failed.items():
            yield from (path, *failure.around)
        yield from (path for path, each in self._outcomes.items() if each.error is not None or each.rescued)
        yield from (f"{prefix}{each.node}#{each.visit}" for prefix, each in self._made_by_hand())

    def _made_by_hand(self) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes by hand of nodes, with the prefixes of their frames."""
        for (prefix, _), step in self._log.edits.items():
            yield from ((prefix, each) for each in step.outcomes if each.by_hand and each.node)

    def _step_of(self, path: str) -> int:
        """Return the step of the run that contains an item or its enclosing item."""
        root, is_inside, _ = path.partition("/")
        for step in self._log.steps:
            for outcome in step.outcomes:
                if outcome.path == root or (is_inside and root.startswith(f"{outcome.path}[")):
                    return step.number
        return self._log.start.step + len(self._log.steps) + 1


def _at(item: Item, kind: Kind, message: str, diff: str = "") -> Divergence:
    return Divergence(kind, item.order[0], item.path, item.node.name, message, diff)


_NOT_AGAIN = (NodeTimeoutError, AmbiguousCallError, EncodeError, MutationError)
# seconds for a call that was open at the end of a node; the log of a failure has no duration
_PATIENCE, _MOST_PATIENCE = 0.5, 5.0
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def _error_text(error: BaseException) -> str:
    """Return an error as text without addresses, which differ between processes."""
    kind, message = name_of(error)
    return f"{kind.rpartition(':')[2]}: {_ADDRESS.sub('0x...', message)}"


def _raises(error: BaseException) -> str:
    return f"it raises {type_name(error)}: {message_of(error)}, but returned when recorded"


def _node_of(path: str) -> str:
    return path.rpartition("/")[2].partition("#")[0]


def _plain(decision: Any) -> Any:
    if decision is None:
        return None
    return [[c.target, dict(c.payload)] if isinstance(c, Send) else c for c in decision]


async def _awaited(item: Item, value: Any) -> Any:
    """Await a node. A CancelledError that it raises itself is an error of the node."""
    import asyncio

    from clew.runtime.calls.cancellations import own_error  # it imports asyncio

    try:
        return await value
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise own_error(item, error) from error
