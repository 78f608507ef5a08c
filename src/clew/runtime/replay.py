"""Replay: run the nodes of a recorded run once more, against its recordings, and say where today's code differs.

Nothing outside is touched. Recorded calls are answered from the log, and so are questions; `ctx.sleep` does not sleep;
nodes with side effects that were not recorded call by call are not called, their recorded outcome stands. All other
nodes are called for real, each with exactly what it saw then, because the recorded outcome is what the chain goes on
with, whatever the node returned now. So one difference does not hide the next: `strict` stops at the first, otherwise
all are listed.
"""

from __future__ import annotations

import difflib
import json
from typing import Any, Literal

import msgspec

from clew.engine.machine import Machine
from clew.engine.outcomes import read
from clew.engine.records import Outcome, Step
from clew.engine.strand import Item
from clew.engine.terms import Memory, Options
from clew.errors import ClewError, EncodeError, ReplayError, ReplayMismatchError, ReplayMissingError
from clew.graph import Send
from clew.runtime.context import Asking
from clew.runtime.ledger import Ledger
from clew.runtime.log import RunLog
from clew.runtime.recorder import RecordedCall
from clew.runtime.session import Session
from clew.runtime.settings import Settings
from clew.state import encode


class Divergence(msgspec.Struct, frozen=True):
    """One place where a replay is not what was recorded."""

    kind: Literal["update", "decision", "error", "call", "missing", "absent", "extra", "step"]
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

    def __bool__(self) -> bool:
        return not self.divergences

    @property
    def ok(self) -> bool:
        """Whether the replay ended in the same digests."""
        return not self.divergences

    def check(self) -> None:
        """Raise ReplayError with the first difference, if there is one."""
        if self.divergences:
            raise ReplayError(f"run {self.run_id!r} does not replay: {self.divergences[0]}")

    def __str__(self) -> str:
        seen = f"{self.steps} steps, {self.items} items, {self.calls} recorded calls"
        if self.ok:
            return f"run {self.run_id!r} replays: {seen}"
        told = "\n".join(str(each) for each in self.divergences)
        return f"run {self.run_id!r} does not replay ({seen}):\n{told}"


class Recordings:
    """Answers recorded calls; stands where a run has its recorder."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        self._calls: dict[tuple[str, int], list[RecordedCall]] = {}
        self.answered = 0
        for call in calls:
            self._calls.setdefault((call.path, call.number), []).append(call)

    def call(
        self,
        session: Session,
        item: Item,
        number: int,
        name: str,
        fn: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The recording of a call: of this attempt, or a success of an earlier one."""
        known = self._calls.get((item.path, number), [])
        own = [c for c in known if c.attempt == item.attempt] or [c for c in known if c.error is None]
        where = f"node {item.node.name!r} at {item.path}, call {number} ({name!r})"
        if not own:
            raise ReplayMissingError(f"{where} was never recorded; it is new, or the node took another way")
        found = own[-1]
        if found.name != name:
            raise ReplayMismatchError(f"{where}: the recording is of {found.name!r}")
        if encode([list(found.request[0]), found.request[1]]) != encode([list(args), kwargs]):
            told = difference([list(found.request[0]), found.request[1]], [list(args), kwargs])
            raise ReplayMismatchError(f"{where} asks for something else than was recorded:\n{told}")
        self.answered += 1
        if found.error is not None:
            raise found.error
        return _ready(found.response) if found.awaited else found.response


class _Stopped(Exception):
    """A strict replay has found its first difference."""


class Replayer:
    """One replay."""

    def __init__(self, log: RunLog, program: Any, settings: Settings, *, strict: bool) -> None:
        self._log = log
        self._strict = strict
        self._found: list[Divergence] = []
        self._items = 0
        self._recordings = Recordings(log.calls)
        self._chain = log.chain(program)
        self._outcomes: dict[str, Outcome] = dict(log.journal)
        for step in log.steps:
            self._outcomes.update((outcome.path, outcome) for outcome in step.outcomes)
        for prefix, (_, steps) in log.strands.items():
            for step in steps:
                self._outcomes.update((prefix + outcome.path, outcome) for outcome in step.outcomes)
        options = Options(
            seed=log.row.seed,
            max_steps=settings.max_steps,
            on_error="continue",
            on_conflict=settings.on_conflict,
        )
        self._machine = Machine.restore(program, log.start, options, Memory(answers=log.answers))
        self._session = _ReplaySession(log.row.run_id, self._machine, _Nowhere(), settings)
        self._session.use(self._recordings)

    def run(self) -> ReplayReport:
        """Replay to the end of what was recorded."""
        seen: set[str] = set()
        try:
            while (item := self._machine.take()) is not None:
                recorded = self._outcomes.get(item.path)
                if recorded is None:
                    if item.path not in self._log.asked and self._log.row.status == "completed":
                        self._note("extra", item, "it runs now, and did not when the run was recorded")
                    continue
                seen.add(item.path)
                self._items += 1
                self._replay(item, recorded)
                self._compare_steps()
            for path, outcome in self._outcomes.items():
                if path not in seen and not self._answered_otherwise(path):
                    self._add(
                        Divergence("absent", 0, path, outcome.node, "it ran when recorded, and does not now")
                    )
        except _Stopped:
            pass
        return ReplayReport(
            run_id=self._log.row.run_id,
            steps=self._machine.root.step - self._log.start.step,
            items=self._items,
            calls=self._recordings.answered,
            divergences=tuple(self._found),
        )

    def _answered_otherwise(self, path: str) -> bool:
        """Whether an item is no call: an answer, or a subgraph whose inside was replayed."""
        inside = (f"{path}/", f"{path}[")
        return path in self._log.answers or any(prefix.startswith(inside) for prefix in self._log.strands)

    def _replay(self, item: Item, recorded: Outcome) -> None:
        item.attempt = recorded.attempt
        effects = item.node.side_effects
        by_calls = any(path == item.path for path, _ in self._recordings._calls)
        if recorded.error is None and not recorded.cached and (by_calls or not _has_effects(effects)):
            self._call(item, recorded)
        self._machine.adopt(item, recorded)

    def _call(self, item: Item, recorded: Outcome) -> None:
        try:
            value = self._session.call(item)
            if item.node.mode in ("async", "async_generator"):
                import asyncio

                value = asyncio.run(_awaited(value))
        except ReplayMissingError as error:
            self._note("missing", item, str(error))
        except ReplayMismatchError as error:
            message, _, told = str(error).partition("\n")
            self._note("call", item, message, told)
        except Asking:
            self._note("extra", item, "it asks a question that was not asked when the run was recorded")
        except Exception as error:
            self._note(
                "error", item, f"it raised {type(error).__name__}: {error}, and returned when recorded"
            )
        else:
            self._compare(item, value, recorded)

    def _compare(self, item: Item, value: Any, recorded: Outcome) -> None:
        view = item.batch.level.view
        try:
            update, decision = read(view.program, item.node, value, view)
        except ClewError as error:
            self._note("error", item, str(error))
            return
        then, now = dict(recorded.update), dict(update)
        if not _same(then, now):
            self._note("update", item, "it returns something else", difference(then, now))
        elif not _same(_plain(recorded.decision), _plain(decision)):
            told = difference(_plain(recorded.decision), _plain(decision))
            self._note("decision", item, "it decides something else", told)

    def _compare_steps(self) -> None:
        for record in self._machine.outbox:
            if isinstance(record, Step) and not record.prefix:
                place = record.number - self._chain.first - 1
                then = self._log.steps[place] if place < len(self._log.steps) else None
                if then is None or [o.path for o in then.outcomes] != [o.path for o in record.outcomes]:
                    was = [o.path for o in then.outcomes] if then is not None else []
                    now = [o.path for o in record.outcomes]
                    self._add(Divergence("step", record.number, "", "", f"it has {now} and had {was}"))
        self._machine.outbox.clear()

    def _note(self, kind: Any, item: Item, message: str, diff: str = "") -> None:
        self._add(Divergence(kind, item.step, item.path, item.node.name, message, diff))

    def _add(self, divergence: Divergence) -> None:
        self._found.append(divergence)
        if self._strict:
            raise _Stopped


class _ReplaySession(Session):
    """A session in which nothing waits, and calls are answered from recordings."""

    def use(self, recordings: Recordings) -> None:
        """Answer calls from these."""
        self._recorder = recordings  # type: ignore[assignment]

    def sleep(self, item: Item, seconds: float) -> Any:
        """`ctx.sleep` does not sleep in a replay."""
        return _ready(None) if item.node.mode in ("async", "async_generator") else None

    def keep(self, entry: Any) -> None:
        """A replay keeps nothing."""


class _Nowhere(Ledger):
    """A ledger that writes nothing."""

    def __init__(self) -> None:
        self.records = []
        self._writer = None

    def write(self, records: Any) -> None:
        """Nothing."""


def _has_effects(policy: Any) -> bool:
    return bool(policy.recordable or policy.requires_idempotency)


def _plain(decision: Any) -> Any:
    if decision is None:
        return None
    return [[c.target, dict(c.payload)] if isinstance(c, Send) else c for c in decision]


def _same(one: Any, other: Any) -> bool:
    try:
        return encode(one) == encode(other)
    except EncodeError:
        return bool(one == other)


def difference(then: Any, now: Any) -> str:
    """Two values as a diff that a person can read."""

    def lines(value: Any) -> list[str]:
        try:
            tree = json.loads(encode(value))
        except EncodeError:
            return repr(value).splitlines()
        return json.dumps(tree, indent=2, ensure_ascii=False).splitlines()

    return "\n".join(difflib.unified_diff(lines(then), lines(now), "recorded", "now", lineterm="", n=2))


async def _ready(value: Any) -> Any:
    return value


async def _awaited(value: Any) -> Any:
    return await value
