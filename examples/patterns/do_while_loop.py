"""A do-while loop: the body runs before the gate decides for the first time.

Response times are grouped around moving centres (k-means in one dimension). The gate reads `moved`, which has no value
before the first turn, so the body runs first. The loop ends when no centre moves.
"""

from statistics import fmean

from clew import END, Graph, ifelse, node


@node(output="groups")
def assign(times: list[float], centres: list[float]) -> list[list[float]]:
    """Assign each time to its nearest centre."""
    groups: list[list[float]] = [[] for _ in centres]
    for time in times:
        groups[min(range(len(centres)), key=lambda i: abs(time - centres[i]))].append(time)
    return groups


@node(output=("centres", "moved"))
def move(groups: list[list[float]], centres: list[float]) -> tuple[list[float], float]:
    """Move each centre to the mean of its group."""
    fresh = [fmean(group) if group else centre for group, centre in zip(groups, centres, strict=True)]
    return fresh, max(abs(a - b) for a, b in zip(fresh, centres, strict=True))


@ifelse(when_true="assign", when_false=END)
def still_moving(moved: float) -> bool:
    return moved > 0.5


graph = Graph([assign, move, still_moving], name="k-means")
values = {
    "times": [12.0, 15.0, 11.0, 14.0, 210.0, 190.0, 16.0, 205.0, 980.0, 13.0, 1010.0],
    "centres": [10.0, 20.0, 900.0],
}

if __name__ == "__main__":
    result = graph.run(values)
    for centre, group in zip(result["centres"], result["groups"], strict=True):
        print(f"around {centre:6.1f} ms: {sorted(group)}")
    print(f"settled after {result.state.visits['assign']} turns")
