"""Geometry: the shapes of boxes and the runs of arrows, as the layout makes them and the drawing needs them.

Every box is a hexagon that is pointed at its left and right by ``slant``: 0 makes it a rectangle, half of the
width a diamond. So one formula says where an arrow meets any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Point = tuple[float, float]


class BoxShape(NamedTuple):
    """How large a box is, and how pointed."""

    width: float
    height: float
    slant: float = 0.0


@dataclass(frozen=True)
class Rect:
    """A box that has its place: ``x`` and ``y`` are its middle."""

    x: float
    y: float
    width: float
    height: float
    slant: float = 0.0

    @property
    def left(self) -> float:
        """The x of its left end."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """The x of its right end."""
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        """The y of its upper side."""
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y + self.height / 2

    def depth_at(self, across: float) -> float:
        """How far its outline is below (and above) the middle, ``across`` to the side of it."""
        beyond = abs(across) - (self.width / 2 - self.slant)
        if beyond <= 0 or not self.slant:
            return self.height / 2
        return self.height / 2 * (1 - beyond / self.slant)

    def breadth_at(self, down: float) -> float:
        """How far its outline is to the right of the middle, ``down`` from it."""
        return self.width / 2 - self.slant * abs(down) / (self.height / 2)


@dataclass(frozen=True)
class Route:
    """How an arrow runs: through these points, the last one being its tip, with a gap for its label.

    ``pieces`` are drawn one by one, so that no line crosses the label. A curved route swings from point to
    point, always downwards; another one is made of straight lines with rounded corners.
    """

    pieces: tuple[tuple[Point, ...], ...]
    label: Point | None
    curved: bool
