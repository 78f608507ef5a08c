"""The rows as text for the terminal, as a Markdown table for the README, and as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from typing import Any

from benchmarks.contestants import CLEW, ENTRANTS, FLOOR, Contestant
from benchmarks.rows import Outcome, Result, Verdict

WORDS = {"missing": "missing", "absent": "–", "failed": "FAILED"}


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float, to: float | None) -> str:
    return "" if not to else f"{number(value / to)}×"


def heading(contestants: tuple[Contestant, ...], rounds: int) -> str:
    """Where and with what the numbers were taken."""
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    python = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [
        f"{python} on {platform.system()} {platform.machine()}, {cores} cores, load {load:.1f}, "
        f"medians of {rounds} rounds",
        ", ".join(f"{each.name} {each.version}".strip() for each in contestants if each.module is not None),
    ]
    lines += [f"{each.name} is missing: {each.problem}" for each in contestants if each.module is None]
    if load > cores / 2:
        lines.append("The machine is busy: of these numbers, trust the ratios at most.")
    return "\n".join(lines)


def text(result: Result) -> str:
    row = result.row
    lines = [row.title, f"  {'':<16}{row.unit:>10}{'× floor':>11}{'× Clew':>11}{'spread':>9}"]
    lines += [_text_line(outcome, result) for outcome in result.outcomes]
    if row.bar is not None:
        lines.append(f"  {'bar':<16}{bar_text(result)}")
    return "\n".join(lines)


def _text_line(outcome: Outcome, result: Result) -> str:
    if outcome.status != "measured":
        return f"  {outcome.contestant:<16}{WORDS[outcome.status]:>10}  {outcome.note}"
    value = outcome.median
    cells = f"{ratio(value, result.median(FLOOR)):>11}{ratio(value, result.median(CLEW)):>11}"
    spread = f"{outcome.spread:>9.0%}" if len(outcome.samples) > 1 else f"{'':>9}"
    return f"  {outcome.contestant:<16}{number(value):>10}{cells}{spread}  {outcome.note}".rstrip()


def bar_text(result: Result) -> str:
    bar, unit, verdict = result.row.bar, result.row.unit, result.verdict
    if bar is None:
        return ""
    floor = result.median(FLOOR)
    written = f"≤ {number(bar.limit)} {unit}{_word(verdict, 'passed')}"
    scaled = bar.scaled(floor)
    if floor is None or bar.floor is None or scaled is None:
        return written
    return (
        f"{written} · scaled by the floor ({number(floor)} here, {number(bar.floor)} there): "
        f"≤ {number(scaled)} {unit}{_word(verdict, 'scaled_passed')}"
    )


def _word(verdict: Verdict | None, which: str) -> str:
    if verdict is None:
        return ""
    return " pass" if getattr(verdict, which) else " FAIL"


def growth(results: list[Result]) -> str:
    """What a part costs at a workload's largest size, as a multiple of its cost at the smallest from 100."""
    lines: list[tuple[str, str]] = []
    for family in dict.fromkeys(result.row.family for result in results):
        sizes = [result for result in results if result.row.family == family and result.row.size >= 100]
        for name, *_ in ENTRANTS:
            measured = [(each.row.size, value) for each in sizes if (value := each.median(name)) is not None]
            if len(measured) > 1:
                (low, first), (high, last) = measured[0], measured[-1]
                lines.append((family, f"{name:<16}{low:>6,} → {high:<7,}{ratio(last, first):>8}"))
    widest = max((len(family) for family, _ in lines), default=0)
    told = [f"  {family:<{widest}}  {line}" for family, line in lines]
    return "\n".join(["growth of the cost of a part with size", *told]) if told else ""


def markdown(results: list[Result], contestants: tuple[Contestant, ...], taken: str) -> str:
    """One line a row, one column a contestant: the number, and how many times Clew's it is."""
    head = ["workload", *(f"{each.name} {each.version}".strip() for each in contestants), "bar"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for result in results:
        outcomes = {outcome.contestant: outcome for outcome in result.outcomes}
        cells = [_markdown_cell(outcomes.get(each.name), result) for each in contestants]
        bar = (
            ""
            if result.row.bar is None
            else f"≤ {number(result.row.bar.limit)}{_word(result.verdict, 'passed')}"
        )
        lines.append("| " + " | ".join([f"{result.row.title}, {result.row.unit}", *cells, bar]) + " |")
    return "\n".join(
        [
            *lines,
            "",
            f"{taken.splitlines()[0]}. In brackets: how many times Clew's number. See `benchmarks/`.",
            "",
        ]
    )


def _markdown_cell(outcome: Outcome | None, result: Result) -> str:
    if outcome is None:
        return ""
    if outcome.status != "measured":
        return WORDS[outcome.status]
    value, clew = number(outcome.median), result.median(CLEW)
    if outcome.contestant == CLEW:
        return f"**{value}**"
    return value if clew is None else f"{value} ({ratio(outcome.median, clew)})"


def as_json(results: list[Result], contestants: tuple[Contestant, ...], taken: str) -> str:
    document: dict[str, Any] = {
        "taken": taken.splitlines(),
        "contestants": {each.name: each.version or each.problem or None for each in contestants},
        "rows": [_json_row(result) for result in results],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _json_row(result: Result) -> dict[str, Any]:
    outcomes = {
        each.contestant: {
            "status": each.status,
            "median": each.median if each.samples else None,
            "samples": each.samples,
            "note": each.note,
        }
        for each in result.outcomes
    }
    verdict = result.verdict
    return asdict(result.row) | {
        "outcomes": outcomes,
        "verdict": None if verdict is None else asdict(verdict),
    }
