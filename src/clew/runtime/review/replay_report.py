"""The report of a replay: what differs from the recording."""

from __future__ import annotations

from typing import Literal

import msgspec

from clew import display
from clew.errors import ReplayError, ReplayMismatchError, ReplayMissingError

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
    """One difference between a replay and the recording."""

    kind: Kind
    step: int
    path: str
    node: str
    message: str
    diff: str = ""

    def __str__(self) -> str:
        line = f"step {self.step}, {self.path or 'the chain'}: {self.message}"
        return f"{line}\n{self.diff}" if self.diff else line


class ReplayReport(msgspec.Struct, frozen=True):
    """The result of a replay. It is true if nothing differs."""

    run_id: str
    steps: int
    items: int
    calls: int
    divergences: tuple[Divergence, ...]
    graph: str = ""
    """The structural changes of the graph since the recording, if the replay differs."""

    def __bool__(self) -> bool:
        return not self.divergences

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
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
        return f"it was recorded with a different graph ({self.graph}); " if self.graph else ""

    def __repr__(self) -> str:
        found = "replays" if self.ok else f"{len(self.divergences)} differences"
        return f"<ReplayReport {self.run_id!r}: {found}>"

    def _repr_html_(self) -> str:
        heading, _, more = str(self).partition("\n")
        return display.page(
            display.line(heading, "good" if self.ok else "bad"), display.block(more) if more else ""
        )

    def __str__(self) -> str:
        seen = ", ".join(
            f"{count} {what}{'' if count == 1 else 's'}"
            for count, what in ((self.steps, "step"), (self.items, "item"), (self.calls, "recorded call"))
        )
        if self.ok:
            return f"run {self.run_id!r} replays: {seen}"
        lines = "\n".join(str(each) for each in self.divergences)
        why = f"\nit was recorded with a different graph ({self.graph})" if self.graph else ""
        return f"run {self.run_id!r} does not replay ({seen}):{why}\n{lines}"


_RAISED: dict[str, type[ReplayError]] = {"call": ReplayMismatchError, "missing": ReplayMissingError}
