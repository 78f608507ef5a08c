"""What answers the calls of a replayed node: its recordings, and the logs of its children.

An async call or a child may still be open when its node ends, for example because another one has failed. In this case,
it has no recording. So in a replay, an awaited call without a recording waits as long as the node took when it was
recorded. If the node has not ended by then, it needs a response that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from clew.engine.frame import Item
from clew.engine.machine import Machine
from clew.engine.records import Question
from clew.errors import ReplayMismatchError, ReplayMissingError
from clew.graph import Graph
from clew.runtime.calls.ambiguity import about, place_text
from clew.runtime.calls.children import CHILD, given_to
from clew.runtime.calls.host import Host
from clew.runtime.calls.recorder import OWN, ItemCalls, answer, is_async, now
from clew.runtime.calls.scopes import Asking, NodeCall, Scope
from clew.runtime.calls.waiting import WaitRequest, outcome_of
from clew.runtime.log.entries.call_records import RecordedCall, Request, digest_of_values
from clew.runtime.log.entries.wait_records import WaitEnd, WaitRecord
from clew.runtime.log.run_log import RunLog
from clew.runtime.result import RunResult
from clew.runtime.review.replay_report import Divergence, Kind
from clew.runtime.review.value_diff import difference
from clew.runtime.settings import Settings
from clew.state import same


class RecordedCallSource:
    """Answers `ctx.record` from recordings. It collects calls without one, in case the node catches the error."""

    def __init__(self, run_id: str, calls: Iterable[RecordedCall], asked: Mapping[str, Question]) -> None:
        self._run_id = run_id
        by_path: dict[str, list[RecordedCall]] = {}
        for call in calls:
            by_path.setdefault(call.path, []).append(call)
        self._histories = {path: ItemCalls(found) for path, found in by_path.items()}
        self._asked = asked
        self.answered = 0
        self.patience = 0.0  # how long an awaited call without a recording waits, in seconds
        self.mismatches: list[tuple[Kind, str, str]] = []

    def has(self, path: str) -> bool:
        """Return whether the external calls of an item were recorded."""
        history = self._histories.get(path)
        return history is not None and any(not call.name.startswith(OWN) for call in history.calls)

    def recorded(self, item: Item, attempt: int, scope: Scope) -> RecordedCall | None:
        """Return the recording that would answer a call at this place."""
        history = self._histories.get(item.path, _NOTHING)
        return next(iter(history.candidates(item.frame.epoch, attempt, scope.place)), None)

    def call(self, call: NodeCall) -> Any:
        """Return the recorded result of a call: of this attempt, or a successful one of another attempt.

        Raises:
            ReplayMissingError: If the call was not recorded.
            ReplayMismatchError: If a different call was recorded.
        """
        item, attempt, scope, name, fn, args, kwargs = call
        history = self._histories.get(item.path, _NOTHING)
        known = history.candidates(item.frame.epoch, attempt, scope.place)
        at = place_text(scope.place)
        where = f"node {item.node.name!r} at {item.path}, call {at} ({name!r})"
        if not known:
            question = self._asked.get(item.path)
            if question is not None and question.position.startswith(f"{at}."):
                # the call ended with this question, so it has no recording
                raise scope.unwind(Asking(question.question))
            if is_async(fn):
                return self._open(where)
            raise self._missing(where)
        for found in known:
            if found.name == name and same(found.request, (args, kwargs)):
                self.answered += 1
                return answer(found, item, self._run_id)
        found = known[0]
        if found.name != name:
            message, diff = f"{where} was {found.name!r} when recorded", ""
        else:
            message = f"{where} has different arguments than when recorded"
            diff = difference(_readable(found.request), _readable((args, kwargs)))
        self.mismatches.append(("call", message, diff))
        raise ReplayMismatchError(f"{message}\n{diff}" if diff else message)

    def missing_wait(self, item: Item, name: str) -> ReplayMissingError:
        """Return the error of a node that waits for a signal that it did not wait for when recorded."""
        return self._missing(f"node {item.node.name!r} at {item.path}, wait for {name!r}")

    def _missing(self, where: str) -> ReplayMissingError:
        message = f"{where} was never recorded; it is new, or the node took a different path"
        self.mismatches.append(("missing", message, ""))
        return ReplayMissingError(message)

    async def _open(self, where: str) -> Any:
        """Wait, as a call that was open when its node ended."""
        import asyncio

        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await asyncio.sleep(self.patience)
        raise self._missing(where)


_NOTHING = ItemCalls()
_TURNS = 50  # of the event loop, in which a node ends that does not wait for time


class ReplayHost(Host):
    """Calls nodes with recordings instead of external calls, without listeners and sleeps."""

    def __init__(
        self,
        log: RunLog,
        machine: Machine,
        settings: Settings,
        recordings: RecordedCallSource,
        children: ReplayedChildren,
    ) -> None:
        super().__init__(log.row.run_id, machine, settings)
        self.recorder = recordings
        self.inside: list[
            tuple[str, Divergence]
        ] = []  # what differs in children, each with the place of the child
        self._recordings = recordings
        self._asked = log.asked
        self._children = children
        self._ends = log.wait_ends
        self._waits: dict[tuple[str, str], list[WaitRecord]] = {}
        for wait in sorted(log.waits, key=lambda wait: wait.n):
            self._waits.setdefault((wait.path, wait.position), []).append(wait)

    def wait(self, item: Item, attempt: int, request: WaitRequest, scope: Scope) -> Any:
        """Return the recorded end of a wait; do not wait."""
        value = self._waited(item, attempt, request)
        return _settled(value) if item.node.mode in ("async", "async_generator") else value

    def ask(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        """Return the recorded end of a question that got no answer in time."""
        return self._end_of(item, attempt, request)

    def has_slept(self, item: Item, attempt: int, position: str) -> bool:
        """Return whether the recorded run has slept here, so that any number of seconds is valid."""
        return any(wait.reason == "sleep" for wait in self._waits.get((item.path, position), ()))

    def _waited(self, item: Item, attempt: int, request: WaitRequest) -> Any:
        if request.reason == "sleep":
            return None
        end = self._end_of(item, attempt, request)
        if end is None:
            raise self._recordings.missing_wait(item, request.name)
        return outcome_of(request, end, item)

    def _end_of(self, item: Item, attempt: int, request: WaitRequest) -> WaitEnd | None:
        key, last = (item.path, request.position), None
        for wait in self._waits.get(key, ()):
            end = self._ends.get((wait.path, wait.n))
            if end is None or end.how == "left" or wait.wanted[:2] != request.wanted[:2]:
                continue
            if end.how != "late" or (wait.attempt, wait.epoch) == (attempt, item.frame.epoch):
                last = end
        return last

    def run_child(
        self, item: Item, attempt: int, scope: Scope, graph: Graph, values: Any, key: str | None
    ) -> Any:
        """Replay a child, and return its recorded result."""
        given = given_to(graph, values, key)
        is_async = item.node.mode in ("async", "async_generator")
        return (self._alater if is_async else self._child)(item, attempt, scope, graph, given, key)

    async def _alater(self, item: Item, attempt: int, scope: Scope, graph: Graph, *request: Any) -> RunResult:
        """Call `_child`. If the child had not ended when its node did, wait for it as long as the node did."""
        place = item.path + about(scope.place)
        is_asked = any(path.startswith(f"{place}/") for path in self._asked)
        if not is_asked and self._recordings.recorded(item, attempt, scope) is None:
            self._replay(place, self._children.find(self.run_id, place), graph)
            await self._recordings.call(NodeCall(item, attempt, scope, CHILD, _anever, (), {}))
        return self._child(item, attempt, scope, graph, *request)

    def _child(
        self, item: Item, attempt: int, scope: Scope, graph: Graph, given: dict[str, Any], key: str | None
    ) -> RunResult:
        place = item.path + about(scope.place)
        asked = [question for path, question in self._asked.items() if path.startswith(f"{place}/")]
        recorded = self._recordings.recorded(item, attempt, scope)
        if recorded is None and asked:
            self._replay(place, self._children.find(self.run_id, place), graph)
            raise scope.unwind(Asking(asked[0].question, asked[0].path.removeprefix(item.path)))
        request: tuple[Any, ...] = (graph.name or "", "", given, key)
        if recorded is not None and recorded.name == CHILD:
            self._compare(item, place, recorded, given)
            # another structure is not another call: the replay of the child reports it
            request = (request[0], *recorded.request[0][1:3], key)
            if recorded.error is not None:
                self._replay(place, self._children.find(self.run_id, place), graph)
        run_id = self._recordings.call(NodeCall(item, attempt, scope, CHILD, _never, request, {}))
        if isawaitable(run_id):
            run_id = now(run_id)
        self._replay(place, run_id, graph)
        return self._children.result(run_id, graph)

    def _compare(self, item: Item, place: str, recorded: RecordedCall, given: Mapping[str, Any]) -> None:
        """Raise ReplayMismatchError if the values of a child differ from the recorded ones."""
        run_id = recorded.response or self._children.find(self.run_id, place)
        was = {} if run_id is None else self._children.given(run_id)
        known = recorded.request[0][2]
        if same(was, given) or (
            known == digest_of_values(given) if isinstance(known, str) else same(known, given)
        ):
            return
        message = f"node {item.node.name!r} at {item.path} gives other values to its child at {place}"
        diff = difference(was, given)
        self._recordings.mismatches.append(("call", message, diff))
        raise ReplayMismatchError(f"{message}\n{diff}")

    def _replay(self, place: str, run_id: str | None, graph: Graph) -> None:
        if run_id is not None:
            self.inside += [(place, each) for each in self._children.replay(run_id, graph)]


class ReplayedChildren(Protocol):
    """Replays the children of a run."""

    def find(self, run_id: str, place: str) -> str | None:
        """Return the last child of a run at a place."""

    def given(self, run_id: str) -> Mapping[str, Any]:
        """Return the values that a child was given."""

    def replay(self, run_id: str, graph: Graph) -> Sequence[Divergence]:
        """Replay a child; return what differs."""

    def result(self, run_id: str, graph: Graph) -> RunResult:
        """Return the recorded result of a child."""


def _never() -> None:
    """Stand for a function that a replay does not call."""


async def _anever() -> None:
    """Stand for an async function that a replay does not call."""


async def _settled(value: Any) -> Any:
    return value


def _readable(request: Request) -> dict[str, Any]:
    """Return the arguments of a request by position and name."""
    args, kwargs = request
    return {**{f"argument {place}": value for place, value in enumerate(args, 1)}, **kwargs}
