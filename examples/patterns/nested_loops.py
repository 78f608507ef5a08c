"""A loop inside a loop: gradient descent with a line search.

The outer loop walks downhill until the slope is flat. The inner loop halves the step until it leads down. Clew finds
both loops from the links: the inner loop ends before the outer one takes its next turn, and no gate sees an unfinished
turn. The inner loop reads its starting point `start` from the head of the outer loop, not `at`: a node that reads `at`
would be woken each time `at` is written.
"""

from clew import END, Graph, ifelse, node

Point = tuple[float, float]


def height(at: Point) -> float:
    """Return the height of a long valley with its lowest point at (3, -1)."""
    x, y = at
    return (x - 3) ** 2 + 10 * (y + 1) ** 2


@node(output=("start", "slope", "stride"))
def survey(at: Point) -> tuple[Point, Point, float]:
    """Start a turn of the outer loop: compute the slope, and reset the stride."""
    x, y = at
    return at, (2 * (x - 3), 20 * (y + 1)), 0.25


@node(output="candidate")
def reach(start: Point, slope: Point, stride: float) -> Point:
    """Start a turn of the inner loop: compute where the stride leads."""
    return start[0] - stride * slope[0], start[1] - stride * slope[1]


@ifelse(when_true="walk", when_false="halve")
def leads_down(start: Point, candidate: Point, slope: Point, stride: float) -> bool:
    """Check that the step leads down far enough (Armijo's rule)."""
    gain = stride * (slope[0] ** 2 + slope[1] ** 2) / 4
    return height(candidate) <= height(start) - gain


@node(output="stride")
def halve(stride: float) -> float:
    return stride / 2


@node(output="at")
def walk(candidate: Point) -> Point:
    return candidate


@ifelse(when_true=END, when_false="survey")
def flat(at: Point) -> bool:
    return height(at) < 0.2


graph = Graph([survey, reach, leads_down, halve, walk, flat], name="descent", entry="survey")
values = {"at": (0.0, 0.0)}

if __name__ == "__main__":
    result = graph.run(values)
    visits = result.state.visits
    x, y = result["at"]
    print(f"arrived at ({x:.3f}, {y:.3f}), {height((x, y)):.4f} above the lowest point")
    print(f"{visits['survey']} turns of the outer loop, {visits['reach']} of the inner one")
