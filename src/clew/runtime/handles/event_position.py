"""The position of a reader in the events of a run, and the cursor that stores it as text.

A position says what was delivered: the last committed step, the number of the last published data, which questions, and
which end of the run. Steps and published data are numbered in the store. So a position is valid in every process, and
a reader that continues after it gets each of them once. Of questions and status, a cursor holds a fingerprint: a reader
that continues gets their latest value if it differs.

Two parts make a cursor exact in more cases. Events of the items of a stored step come before the event of the step;
`items` counts those that were delivered. Events that are not stored are numbered by the process of the run; `seq` is
such a number, and `source` names the process that counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, cast
from zlib import crc32

from msgspec.structs import replace

from clew.errors import EncodeError, InputError
from clew.runtime.reporting.events import Event
from clew.state import stored_value

_CURSOR = re.compile(
    r"([0-9a-f]{8})_(-|\d{1,18})_(\d{1,18})_(\d{1,18})_([0-9a-f]*)_([0-9a-f]*)_([0-9a-f]*)_(\d{1,18})"
)


class EventPosition:
    """What a reader has seen of the events of one run."""

    __slots__ = (
        "_has_live_end",
        "_known",
        "_owner",
        "_questions",
        "emitted",
        "finished",
        "items",
        "seq",
        "source",
        "step",
    )

    def __init__(self, run_id: str) -> None:
        self._owner = f"{crc32(run_id.encode(errors='surrogatepass')):08x}"
        self.step: int | None = None  # the last committed step; None before the start of the run
        self.items = 0  # events of items of the next step
        self.emitted = 0
        self._known: set[Asked] | None = set()  # None if only their fingerprint is known
        self._questions = ""
        self.finished = ""  # a fingerprint of the last end of the run
        self._has_live_end = False  # its process reported it
        self.source = ""
        self.seq = 0

    @classmethod
    def after(cls, run_id: str, cursor: str | None) -> EventPosition:
        """Return the position of a cursor, or the beginning. Raise InputError if it is not a cursor of the run."""
        position, given = cls(run_id), cast(Any, cursor)
        if given is None or given == "":
            return position
        found = _CURSOR.fullmatch(given) if isinstance(given, str) else None
        if found is None or found[1] != position._owner:
            raise InputError(
                f"{cursor!r} is not a cursor of run {run_id!r}; pass event.cursor of an event of this run"
            )
        _, step, items, emitted, questions, position.finished, position.source, seq = found.groups()
        position.step = None if step == "-" else int(step)
        position.items, position.emitted, position.seq = int(items), int(emitted), int(seq)
        if questions:
            position._known, position._questions = None, questions
        return position

    @property
    def cursor(self) -> str:
        """The position as text."""
        step = "-" if self.step is None else self.step
        known = self._questions
        return f"{self._owner}_{step}_{self.items}_{self.emitted}_{known}_{self.finished}_{self.source}_{self.seq}"

    def tag(self, event: Event) -> Event:
        """Return an event with the cursor behind it."""
        return replace(event, cursor=self.cursor)

    # -- questions ---------------------------------------------------------------------------------------

    @property
    def has_forgotten(self) -> bool:
        """Return whether only a fingerprint of the delivered questions is known."""
        return self._known is None

    def learn(self, asked: Iterable[Asked]) -> set[Asked]:
        """Take the questions that are open now; return those that were not delivered."""
        now = set(asked)
        if self._known is None:
            new = set() if _fingerprint(now) == self._questions else now
        else:
            new = now - self._known
        self._remember(now)
        return new

    def _is_new(self, asked: Asked) -> bool:
        known = self._known or set()
        if asked in known:
            return False
        self._remember({*known, asked})
        return True

    def _remember(self, known: set[Asked]) -> None:
        self._known, self._questions = known, _fingerprint(known)

    # -- ends ----------------------------------------------------------------------------------------------

    def ends(self, status: str, updated: float, *, is_live: bool = False) -> bool:
        """Take an end of the run; return False if it was delivered before. Two live ends are never the same."""
        finished = _fingerprint((status, updated, self.step))
        if finished == self.finished and not (is_live and self._has_live_end):
            return False
        self.finished, self._has_live_end = finished, is_live
        return True

    # -- events of the process that executes the run -----------------------------------------------------

    def passes(self, event: Event) -> bool:
        """Move behind an event; return False if it was delivered before."""
        kind = event.kind
        if kind == "step_committed" and not event.path:
            if self.step is not None and event.step <= self.step:
                return False
            self.step, self.items = event.step, 0
        elif kind == "emitted" and "number" in event.data:
            if event.number <= self.emitted:
                return False
            self.emitted = event.number
        elif kind == "interrupted":
            return self._is_new(asked(event.path, event.number, event.question))
        elif kind == "run_finished":
            return self.ends(event.status, event.time, is_live=True)
        return True


Asked = tuple[str, int, int]
"""A question: its path, its number, and a checksum of its wording."""


def asked(path: str, number: int, question: Any) -> Asked:
    """Return what identifies a question. A question with changed wording counts as new."""
    try:
        wording = stored_value(question, at=path, blobs={})
    except EncodeError:
        wording = repr(question).encode(errors="surrogatepass")
    return path, number, crc32(wording)


def _fingerprint(what: Any) -> str:
    if not what:
        return ""
    text = repr(sorted(what) if isinstance(what, set) else what)
    return f"{crc32(text.encode(errors='surrogatepass')):08x}"


class CursorTags:
    """A listener that passes the events of one session on with their cursors, for a stream."""

    def __init__(self, run_id: str, pass_on: Callable[[Event], object]) -> None:
        self._position = EventPosition(run_id)
        self._pass_on = pass_on

    def begin(self, step: int, emitted: int) -> None:
        """Start behind the last committed step and the last published data of the run."""
        self._position.step, self._position.emitted = step, emitted

    def __call__(self, event: Event) -> None:
        if "restored" in event.data:
            return  # it was reported before the run was resumed
        self._position.passes(event)
        self._pass_on(self._position.tag(event))
