"""Layout: for any boxes and arrows, nothing overlaps, and every arrow ends at its boxes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.drawing.geometry import BoxShape, Rect
from clew.drawing.layout import LABEL_HEIGHT, Edge, Layout, lay_out

SHAPES = st.sampled_from(
    [BoxShape(60.0, 38.0), BoxShape(140.0, 54.0, 70.0), BoxShape(90.0, 38.0, 14.0), BoxShape(300.0, 400.0)]
)


@st.composite
def drawings(draw: Any) -> tuple[dict[str, BoxShape], list[Edge]]:
    number = draw(st.integers(1, 9))
    shapes = {f"b{i}": draw(SHAPES) for i in range(number)}
    pairs = draw(st.lists(st.tuples(st.integers(0, number - 1), st.integers(0, number - 1)), max_size=18))
    widths = st.sampled_from([0.0, 20.0, 90.0])
    return shapes, [Edge(f"b{i}", f"b{j}", draw(widths), back=i >= j) for i, j in dict.fromkeys(pairs)]


def area(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def meet(one: tuple[float, ...], two: tuple[float, ...]) -> bool:
    slack = 0.01
    return (
        one[0] < two[2] - slack
        and two[0] < one[2] - slack
        and one[1] < two[3] - slack
        and two[1] < one[3] - slack
    )


def box_areas(layout: Layout) -> list[tuple[float, ...]]:
    return [area(box.x, box.y, box.width, box.height) for box in layout.boxes.values()]


@given(drawings())
def test_boxes_and_labels_keep_apart(drawing: tuple[dict[str, BoxShape], list[Edge]]) -> None:
    shapes, edges = drawing
    layout = lay_out(shapes, edges)
    labels = [
        area(*route.label, edge.label_width, LABEL_HEIGHT)
        for edge, route in zip(edges, layout.routes, strict=True)
        if route.label is not None
    ]
    assert len(labels) == sum(edge.label_width > 0 for edge in edges)
    assert not [pair for pair in combinations(box_areas(layout), 2) if meet(*pair)]
    assert not [(box, label) for box in box_areas(layout) for label in labels if meet(box, label)]
    forward = [
        label
        for label, edge in zip(labels, [e for e in edges if e.label_width], strict=True)
        if not edge.back
    ]
    assert not [pair for pair in combinations(forward, 2) if meet(*pair)]


@given(drawings())
def test_everything_is_inside(drawing: tuple[dict[str, BoxShape], list[Edge]]) -> None:
    layout = lay_out(*drawing)
    points = [point for route in layout.routes for piece in route.pieces for point in piece]
    corners = [*points, *((x, y) for x0, y0, x1, y1 in box_areas(layout) for x, y in [(x0, y0), (x1, y1)])]
    assert all(-0.01 <= x <= layout.width + 0.01 and y <= layout.height + 0.01 for x, y in corners)


def on_outline(box: Rect, point: tuple[float, float]) -> bool:
    across, down = point[0] - box.x, point[1] - box.y
    return abs(abs(down) - box.depth_at(across)) < 0.01 or abs(abs(across) - box.breadth_at(down)) < 0.01


@given(drawings())
def test_arrows_begin_and_end_at_their_boxes(drawing: tuple[dict[str, BoxShape], list[Edge]]) -> None:
    shapes, edges = drawing
    layout = lay_out(shapes, edges)
    for edge, route in zip(edges, layout.routes, strict=True):
        assert on_outline(layout.boxes[edge.source], route.pieces[0][0])
        assert on_outline(layout.boxes[edge.target], route.pieces[-1][-1])
        heights = [y for piece in route.pieces for _, y in piece]
        assert edge.back or heights == sorted(heights), "a forward arrow only goes down"


@given(drawings())
def test_forward_arrows_pass_beside_boxes(drawing: tuple[dict[str, BoxShape], list[Edge]]) -> None:
    shapes, edges = drawing
    layout = lay_out(shapes, edges)
    for edge, route in zip(edges, layout.routes, strict=True):
        ends = (edge.source, edge.target)
        others = [box for key, box in layout.boxes.items() if key not in ends and not edge.back]
        for x, y in (point for piece in route.pieces for point in piece):
            assert not [
                box for box in others if abs(x - box.x) < box.width / 2 and abs(y - box.y) < box.height / 2
            ]


@given(drawings())
def test_the_same_input_gives_the_same_layout(drawing: tuple[dict[str, BoxShape], list[Edge]]) -> None:
    assert lay_out(*drawing) == lay_out(*drawing)


def boxes(*names: str) -> dict[str, BoxShape]:
    return {name: BoxShape(60.0, 38.0) for name in names}


def forward(*pairs: str) -> list[Edge]:
    return [Edge(pair[0], pair[1], 0.0, back=False) for pair in pairs]


def test_a_chain_is_straight() -> None:
    layout = lay_out(boxes(*"abc"), forward("ab", "bc"))
    assert {round(box.x, 1) for box in layout.boxes.values()} == {30.0}
    assert layout.boxes["a"].y < layout.boxes["b"].y < layout.boxes["c"].y


def test_a_box_that_nothing_points_to_stands_above_its_reader() -> None:
    layout = lay_out(boxes(*"abcx"), forward("ab", "bc", "xc"))
    assert layout.boxes["x"].y == layout.boxes["b"].y


def test_crossings_are_untangled() -> None:
    layout = lay_out(boxes(*"abxy"), forward("ay", "bx"))
    assert (layout.boxes["a"].x < layout.boxes["b"].x) == (layout.boxes["y"].x < layout.boxes["x"].x)


def test_shorter_loops_run_inside_longer_ones() -> None:
    loops = [Edge("d", "a", 0.0, back=True), Edge("c", "b", 0.0, back=True)]
    layout = lay_out(boxes(*"abcd"), [*forward("ab", "bc", "cd"), *loops])
    outer, inner = (max(x for piece in route.pieces for x, _ in piece) for route in layout.routes[3:])
    assert inner < outer


def test_a_loop_goes_around_what_is_in_its_way() -> None:
    edges = [*forward("ab", "ac", "bd"), Edge("b", "a", 30.0, back=True), Edge("b", "b", 30.0, back=True)]
    layout = lay_out(boxes(*"abcd"), edges)
    start = layout.routes[3].pieces[0][0]
    assert start[1] == pytest.approx(layout.boxes["b"].bottom)


def test_outlines() -> None:
    diamond = Rect(0.0, 0.0, 100.0, 40.0, slant=50.0)
    assert [diamond.depth_at(across) for across in (0.0, 25.0, -50.0)] == [20.0, 10.0, 0.0]
    assert [diamond.breadth_at(down) for down in (0.0, 10.0, -20.0)] == [50.0, 25.0, 0.0]
    box = Rect(10.0, 10.0, 20.0, 10.0)
    assert (box.left, box.top, box.right, box.bottom) == (0.0, 5.0, 20.0, 15.0)
    assert (box.depth_at(9.0), box.breadth_at(4.0)) == (5.0, 10.0)
