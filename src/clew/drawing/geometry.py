"""Geometry: shapes of boxes and routes of arrows.

Every box is a hexagon whose left and right ends are pointed by ``slant``: 0 makes a rectangle, half of the width a
diamond. So one formula gives the point where an arrow meets any box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Point = tuple[float, float]


class BoxShape(NamedTuple):
    """The size of a box, and how pointed it is."""

    width: float
    height: float
    slant: float = 0.0


@dataclass(frozen=True)
class Rect:
    """A placed box; ``x`` and ``y`` are its centre."""

    x: float
    y: float
    width: float
    height: float
    slant: float = 0.0

    @property
    def left(self) -> float:
        """Return the x of its left end."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """Return the x of its right end."""
        return self.x + self.width / 2

    @property
    def top(self) -> float:
        """Return the y of its upper side."""
        return self.y - self.height / 2

    @property
    def bottom(self) -> float:
        """Return the y of its lower side."""
        return self.y + self.height / 2

    def depth_at(self, across: float) -> float:
        """Return the vertical distance from the centre to the outline, ``across`` to the side."""
        beyond = abs(across) - (self.width / 2 - self.slant)
        if beyond <= 0 or not self.slant:
            return self.height / 2
        return self.height / 2 * (1 - beyond / self.slant)

    def breadth_at(self, down: float) -> float:
        """Return the horizontal distance from the centre to the outline, ``down`` from it."""
        return self.width / 2 - self.slant * abs(down) / (self.height / 2)


@dataclass(frozen=True)
class Route:
    """The route of an arrow: its points, the last one being the tip, with a gap for its label.

    ``pieces`` are drawn separately, so that no line crosses the label. A curved route always runs downwards; other
    routes consist of straight lines with rounded corners.
    """

    pieces: tuple[tuple[Point, ...], ...]
    label: Point | None
    curved: bool
