"""How the dependency graph's costs grow with its size, as a picture made from what was measured.

    python -m benchmarks --only incremental --json numbers.json
    python -m benchmarks.incremental_curves numbers.json docs/pictures/dependency-graph.svg

One panel a family of rows, both axes logarithmic, one line a contestant. A flat line does not care how much there is.
The picture brings its own background, in light and dark, and refers to nothing outside.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

PANELS = {
    "dependency chain": "set the head, pull the tail: µs a node",
    "dependents": "set a source, pull one dependent: µs",
    "unaffected": "pull after an unrelated set: µs",
    "persistent recompute": "the chain on SQLite: µs a node (floor: a commit each)",
}
ORDER = ("Clew", "floor", "reaktiv", "Hamilton", "loman", "redun")
WIDTH, HEIGHT = 400.0, 300.0  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 62.0, 22.0, 44.0, 48.0  # around its axes
LEGEND = 40.0

STYLE = """
.back{fill:#fff}text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1c2430}.title{font-size:13px;font-weight:600}
.grid{stroke:#e3e7ee;stroke-width:1}.tick{fill:#566172;font-size:11px}.line{fill:none;stroke-width:2}
.c0{stroke:#2458d3;fill:#2458d3}.c1{stroke:#8a94a3;fill:#8a94a3}.c2{stroke:#c25b12;fill:#c25b12}
.c3{stroke:#2c8a4b;fill:#2c8a4b}.c4{stroke:#a03a9b;fill:#a03a9b}.c5{stroke:#b8860b;fill:#b8860b}
.line.c0{stroke-width:3}.line{fill:none}
@media (prefers-color-scheme:dark){.back{fill:#14181f}text{fill:#e8edf4}.tick{fill:#a9b4c3}.grid{stroke:#2a313c}
.c0{stroke:#6f9bf0;fill:#6f9bf0}.c1{stroke:#99a3b1;fill:#99a3b1}.c2{stroke:#ef8e4c;fill:#ef8e4c}
.c3{stroke:#5fc283;fill:#5fc283}.c4{stroke:#d786d2;fill:#d786d2}.c5{stroke:#dfb64a;fill:#dfb64a}.line{fill:none}}
"""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis over whole powers of ten, from one end of the drawing to the other."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(low, max(high, low + 1), start, end)


Curves = dict[str, list[tuple[float, float]]]


def curves(document: dict[str, Any], family: str) -> Curves:
    """The points of each contestant: sizes, and the medians there."""
    found: Curves = {}
    for row in document["rows"]:
        if row["family"] == family:
            for name, outcome in row["outcomes"].items():
                if outcome["median"]:
                    found.setdefault(name, []).append((row["size"], outcome["median"]))
    return {name: sorted(found[name]) for name in ORDER if name in found}


def picture(document: dict[str, Any]) -> str:
    shown = {family: found for family in PANELS if (found := curves(document, family))}
    width, height = 2 * WIDTH, -(-len(shown) // 2) * HEIGHT + LEGEND
    names = [name for name in ORDER if any(name in found for found in shown.values())]
    size = f'width="{width:g}" height="{height:g}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Costs by size" {size} '
        f'viewBox="0 0 {width:g} {height:g}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" {size} rx="8"/>',
        *_legend(names),
    ]
    for index, (family, found) in enumerate(shown.items()):
        left, top = index % 2 * WIDTH, index // 2 * HEIGHT + LEGEND
        lines += [f'<g transform="translate({left:g} {top:g})">', *_panel(PANELS[family], found), "</g>"]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> Iterator[str]:
    for index, name in enumerate(names):
        x = LEFT + index * 110
        yield f'<path class="line {_color(name)}" d="M{x:g} 24h24"/><text x="{x + 32:g}" y="28">{escape(name)}</text>'


def _panel(title: str, found: Curves) -> Iterator[str]:
    points = [point for line in found.values() for point in line]
    across = axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    yield f'<text class="title" x="{LEFT:g}" y="{TOP - 16:g}">{escape(title)}</text>'
    for tick in across.ticks():
        x = across.at(tick)
        yield f'<path class="grid" d="M{x:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}"/>'
        yield f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18:g}">{tick:,.0f}</text>'
    for tick in up.ticks():
        y = up.at(tick)
        yield f'<path class="grid" d="M{LEFT:g} {y:.1f}H{WIDTH - RIGHT:g}"/>'
        yield f'<text class="tick" text-anchor="end" x="{LEFT - 8:g}" y="{y + 4:.1f}">{_told(tick)}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="tick" text-anchor="middle" x="{middle:g}" y="{HEIGHT - BOTTOM + 36:g}">nodes</text>'
    for name, line in reversed(found.items()):
        places = [f"{across.at(x):.1f} {up.at(y):.1f}" for x, y in line]
        yield f'<path class="line {_color(name)}" d="M{"L".join(places)}"/>'
        for place, (x, y) in zip(places, line):
            cx, cy = place.split()
            told = escape(f"{name}, {x:,.0f} nodes: {y:.3g} µs")
            yield f'<circle class="{_color(name)}" cx="{cx}" cy="{cy}" r="3"><title>{told}</title></circle>'


def _told(tick: float) -> str:
    return f"{tick:,.0f}" if tick >= 1 else f"{tick:g}"


def _color(name: str) -> str:
    return f"c{ORDER.index(name)}"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m benchmarks.incremental_curves NUMBERS.json PICTURE.svg", file=sys.stderr)
        return 2
    target = Path(arguments[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture(json.loads(Path(arguments[0]).read_text("utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
