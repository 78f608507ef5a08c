"""Server-sent events: what has changed in the list and in some runs.

One task reads the store every `PAUSE` seconds for all streams, on a thread, and only what some stream follows. A
stream has its own position: the last step of each run that it has sent. The position is the id of its last event, so a
stream that continues after a lost connection misses no step and repeats none. Slow readers do not hold up others: a
stream has no queue, and gets the difference to the newest data when it is its turn.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from clew.errors import ClewError, UnknownRunError
from clew.runtime.log.entries.records import ANSWER, JOURNAL, QUESTION, RETRY, STEP, WAIT, WAITED, names_of
from clew.stores.protocol import LAST
from clew.views.run.timeline import open_items, window
from clew.views.run_list import status_counts
from clew.views.run_rows import RowReader
from clew.web.access import HEADERS
from clew.web.answers import VERSION, ApiError, encoded
from clew.web.api import Api, Parameters

log = logging.getLogger("clew.web")

PAUSE = 0.3
HEARTBEAT = 15.0
MOST_STREAMS = 64
MOST_RUNS = 20
_MOST_STEPS = 200
_LISTED = 200
_COUNTING = 2.0  # seconds between two counts of everything
_FOLLOWED = names_of(JOURNAL, QUESTION, ANSWER, RETRY, WAIT, WAITED)

Json = dict[str, Any]


class Seen(msgspec.Struct):
    """What was last read about a run."""

    mark: Any = None
    status: str = ""
    last: int = 0
    updated: float = 0.0
    questions: int = 0
    open: bytes = b""
    is_gone: bool = False


class StreamPosition(msgspec.Struct, array_like=True):
    """What a stream has sent: the last step of each run."""

    steps: dict[str, int] = {}

    def cursor(self) -> str:
        """Return the position as the id of an event."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def position_of(text: str | None) -> StreamPosition | None:
    """Read the id of an event; None if it is not one."""
    if not text or len(text) > 20_000:
        return None
    try:
        return msgspec.json.decode(
            base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=StreamPosition
        )
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        return None


class EventStreams:
    """The open streams of a server, and the task that reads the store for them."""

    def __init__(self, api: Api, *, pause: float = PAUSE, most: int = MOST_STREAMS) -> None:
        self._api = api
        self._pause = pause
        self._most = most
        self._streams: set[_Stream] = set()
        self._task: asyncio.Task[None] | None = None
        self.runs: dict[str, Seen] = {}
        self.rows: dict[str, Json] = {}
        self.counts: Json = {}
        self.server: Json = {}
        self.trouble = ""
        self.looks = 0
        self._list_mark: Any = None
        self._counted = 0.0

    async def open(self, query: Parameters, request: Request) -> Response:
        """Open a stream. Raise ApiError if too many are open."""
        if len(self._streams) >= self._most:
            raise ApiError(
                503, "Busy", f"{self._most} event streams are open", hint="close other pages of this server"
            )
        runs = query.all("runs")[:MOST_RUNS]
        known = position_of(request.headers.get("last-event-id") or query.given("last_event_id"))
        first = {run: int(at) for run, at in zip(runs, query.all("at")) if at.isascii() and at.isdigit()}
        stream = _Stream(self, runs, bool(query.given("list")), known, first)
        self._streams.add(stream)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        headers = {
            **HEADERS,
            "clew-api": str(VERSION),
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
        return StreamingResponse(self._events(stream), 200, headers, "text/event-stream")

    async def _events(self, stream: _Stream) -> AsyncIterator[bytes]:
        try:
            async for event in stream.events():
                yield event
        finally:
            self._streams.discard(stream)

    # -- looking -----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while self._streams:
            wanted = {run for stream in self._streams for run in stream.runs}
            wants_list = any(stream.wants_list for stream in self._streams)
            try:
                await run_in_threadpool(self.look, wanted, wants_list)
                self.trouble = ""
            except ClewError as error:
                self.trouble = str(error)
            except Exception:
                log.exception("looking at the store failed")
                self.trouble = "the server made a mistake; see its log"
            self.looks += 1
            for stream in list(self._streams):
                stream.wake.set()
            await asyncio.sleep(self._pause)
        self.runs.clear()
        self._list_mark = None

    def look(self, wanted: Iterable[str], wants_list: bool) -> None:
        """Read what has changed in the store since the last call."""
        for run_id in set(self.runs) - set(wanted):
            del self.runs[run_id]
        for run_id in wanted:
            self._look_at(run_id)
        if wants_list:
            self._look_at_list()
        now = self._api.now()
        if not 0 <= now - self._counted < _COUNTING:
            self._counted, self.server = now, self._api.counts()

    def _look_at(self, run_id: str) -> None:
        store, seen = self._api.store, self.runs.setdefault(run_id, Seen())
        try:
            mark = store.change_mark(run_id, _FOLLOWED)
            if mark == seen.mark and seen.mark is not None and seen.status != "running":
                return
            run = self._api.runs.open(run_id)
        except UnknownRunError:
            seen.is_gone = True
            return
        last = store.last(run_id, STEP.name, "", LAST)
        seen.status, seen.updated = RowReader(store).status(run.row), run.row.updated
        seen.last = (run.row.parent_step or 0) if last is None else last.n
        items = open_items(run)
        seen.questions = sum(item["state"] == "asks" for item in items)
        seen.open = encoded(items)
        seen.mark, seen.is_gone = mark, False

    def items(self, run_id: str, first: int, last: int) -> Any:
        """Return the items of some steps of a run."""
        return window(self._api.runs.open(run_id), first, last)

    def _look_at_list(self) -> None:
        api = self._api
        now = api.now()
        rows, _ = api.store.page(limit=_LISTED)
        reader = RowReader(api.store)
        mark = [(row.run_id, row.status, row.updated) for row in rows]
        if mark == self._list_mark and not any(row.status == "running" for row in rows):
            return
        known = {entry[0]: entry for entry in self._list_mark or ()}
        changed = [
            row
            for row, entry in zip(rows, mark)
            if known.get(entry[0]) != entry or row.status == "running" or row.run_id not in self.rows
        ]
        fresh = {row.run_id: self.rows[row.run_id] for row in rows if row.run_id in self.rows}
        fresh.update({row.run_id: reader.json(row, now) for row in changed})
        self.rows, self._list_mark = fresh, mark
        self.counts = status_counts(reader)


class _Stream:
    """One reader: what it follows, and what it has got."""

    def __init__(
        self,
        streams: EventStreams,
        runs: list[str],
        wants_list: bool,
        known: StreamPosition | None,
        first: Mapping[str, int],
    ) -> None:
        self._of = streams
        self.runs = runs
        self.wants_list = wants_list
        self.wake = asyncio.Event()
        self._resumed = known is not None
        steps = known.steps if known is not None else first
        self._position = StreamPosition({run: steps[run] for run in runs if run in steps})
        self._sent: dict[str, Seen] = {}
        self._rows: dict[str, Json] | None = None
        self._server: Json | None = None
        self._trouble = ""

    def _event(self, name: str, data: Any) -> bytes:
        content = encoded(data)
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (self._position.cursor().encode(), name.encode(), content)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the reader leaves."""
        now = self._of._api.now()
        yield b"retry: 1000\n\n" + self._event(
            "hello", {"version": VERSION, "now": now, "resumed": self._resumed}
        )
        looks = self._of.looks
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wake.wait(), HEARTBEAT)
            if not self.wake.is_set():
                yield b": still here\n\n"
                continue
            self.wake.clear()
            if self._of.looks == looks:
                continue
            looks = self._of.looks
            for event in await self._news():
                yield event

    async def _news(self) -> list[bytes]:
        found: list[bytes] = []
        of = self._of
        if of.trouble != self._trouble:
            self._trouble = of.trouble
            if of.trouble:
                found.append(self._event("trouble", {"message": of.trouble}))
        for run_id in self.runs:
            seen = of.runs.get(run_id)
            if seen is not None and (seen.mark is not None or seen.is_gone):
                found += await self._of_run(run_id, seen)
        if self.wants_list and of._list_mark is not None:
            found += self._of_list()
        if of.server != self._server:
            if self._server is not None:
                found.append(self._event("server", {"counts": of.server}))
            self._server = of.server
        return found

    async def _of_run(self, run_id: str, seen: Seen) -> list[bytes]:
        found: list[bytes] = []
        before = self._sent.get(run_id)
        now = msgspec.structs.replace(seen)
        if now.is_gone:
            if before is None or not before.is_gone:
                found.append(self._event("gone", {"run": run_id}))
            self._sent[run_id] = now
            return found
        steps = self._position.steps
        sent = steps.setdefault(run_id, now.last)  # a new stream begins with what the page has read
        if now.last > sent:
            items = None
            if now.last - sent <= _MOST_STEPS:
                with suppress(ClewError):
                    items = await run_in_threadpool(self._of.items, run_id, sent + 1, now.last)
            steps[run_id] = now.last
            found.append(
                self._event("steps", {"run": run_id, "from": sent + 1, "to": now.last, "items": items})
            )
        if before is None or before.open != now.open:
            found.append(self._event("open", {"run": run_id, "open": msgspec.Raw(now.open)}))
        facts = ("status", "last", "updated", "questions")
        if before is None or any(getattr(before, name) != getattr(now, name) for name in facts):
            data = {"run": run_id, **{name: getattr(now, name) for name in facts}}
            found.append(self._event("status", data))
        self._sent[run_id] = now
        return found

    def _of_list(self) -> list[bytes]:
        rows, known = self._of.rows, self._rows
        self._rows = rows
        if known is rows:
            return []
        if known is None:
            fresh, gone = list(rows.values())[:50], list[str]()
        else:
            fresh = [row for run, row in rows.items() if known.get(run) != row]
            gone = [run for run in known if run not in rows]
        if not fresh and not gone:
            return []
        return [self._event("rows", {"runs": fresh, "gone": gone, "counts": self._of.counts})]
