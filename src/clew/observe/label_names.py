"""Bounded labels: a label of a metric takes a limited number of values, and never a run id.

Names of graphs, nodes and queues come from a program, which may make them from data. The first `most` names are counted
by themselves. All further ones are counted together, as ``other``, and a warning says so once. The limit for nodes is
one for the nodes of all graphs. A long name is cut.
"""

from __future__ import annotations

from threading import Lock

from clew.loggers import logger

OTHER = "other"
_LONGEST = 200  # characters


class BoundedNames:
    """The values of one label. Names within different groups are different."""

    def __init__(self, label: str, most: int) -> None:
        self._label = label
        self._most = most
        self._known: set[tuple[str, str]] = set()
        self._lock = Lock()
        self._has_warned = False

    def of(self, name: str, group: str = "") -> str:
        """Return the value for a name: the name itself, or ``other``."""
        if len(name) > _LONGEST:
            name = f"{name[: _LONGEST - 1]}…"
        key = (group, name)
        if key in self._known:
            return name
        with self._lock:
            if key in self._known or len(self._known) < self._most:
                self._known.add(key)
                return name
            has_warned, self._has_warned = self._has_warned, True
        if not has_warned:
            logger("metrics").warning(
                "metrics: label %r has more than %d values; further ones, such as %r, are counted as %r",
                self._label,
                self._most,
                name,
                OTHER,
            )
        return OTHER
