"""The HTML report: a self-contained page with counts, the steps of each violation, and the state graph.

The page is readable without scripts. With scripts, selecting a violation highlights its path in the graph, and
selecting a state shows its data and its outgoing actions.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from clew.explore.reports.graph_selection import Selection, select
from clew.explore.reports.html_style import SCRIPT, STYLE
from clew.explore.reports.state_diff import step_changes, tree
from clew.explore.reports.svg import drawing, numbers
from clew.explore.reports.text import confirmation, counted, extent

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

CHANGES = 8  # shown per step
DETAIL = 6_000  # characters of data per state


def page(result: ExplorationResult) -> str:
    """Return the report as an HTML document."""
    selection = select(result)
    title = f"Exploration: {_verdict(result)}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n'
        f'<body class="clew-page">\n{_body(result, selection)}\n'
        f'<script type="application/json" id="clew-data">{_data(result, selection)}</script>\n'
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def fragment(result: ExplorationResult) -> str:
    """Return the report as an HTML fragment without scripts, for a notebook."""
    return f"<style>{STYLE}</style>{_body(result, select(result))}"


def _body(result: ExplorationResult, selection: Selection) -> str:
    verdict = "bad" if result.violations else "warn" if result.truncated else "good"
    title = _verdict(result).capitalize()
    parts = [
        '<main class="clew-x">',
        f'<header class="{verdict}"><h1>{title}</h1><p>{escape(extent(result).capitalize())}.</p></header>',
        _figures(result),
        *(_violation(number, violation, result) for number, violation in enumerate(result.violations)),
        _graph(result, selection),
        _actions(result),
        "</main>",
    ]
    return "\n".join(parts)


def _verdict(result: ExplorationResult) -> str:
    if result.violations:
        return counted(len(result.violations), "violation")
    return "no violations" if result.complete else "aborted"


def _figures(result: ExplorationResult) -> str:
    rate = len(result.transitions) / result.seconds if result.seconds > 0 else 0.0
    figures = [
        (f"{len(result.states):,}", "states"),
        (f"{len(result.transitions):,}", "transitions"),
        (f"{result.coverage.percent:.0f}%", "of actions tried"),
        (f"{result.seconds:.1f} s", f"{rate:,.0f} transitions/s"),
        (escape(result.strategy), "strategy"),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
    return f'<section class="figures">{cells}</section>'


def _violation(number: int, violation: Violation, result: ExplorationResult) -> str:
    severity = violation.severity.value
    steps = "".join(_steps(violation, result)) or "<li>In the initial state.</li>"
    error = ""
    if violation.error:
        error = f"<details><summary>traceback</summary><pre>{escape(violation.error)}</pre></details>"
    return (
        f'<section class="violation {severity}" data-number="{number}">'
        f'<h2><span class="badge">{severity}</span> {escape(violation.title)}</h2>'
        f'<p class="message">{escape(violation.message)}</p>'
        f'<p class="confirmation">{escape(confirmation(violation, result))}</p>'
        f"<ol>{steps}</ol>{error}"
        '<button type="button" class="show" hidden>Show this path in the graph</button></section>'
    )


def _steps(violation: Violation, result: ExplorationResult) -> list[str]:
    order, lines = numbers(result), []
    for transition in violation.path:
        to, what = transition.to_state_id, step_changes(result.graph, transition)
        rows = "".join(
            f"<tr><th>{escape(where)}</th><td>{escape(old) or '–'}</td><td>→</td>"
            f"<td>{escape(new) or 'deleted'}</td></tr>"
            for where, old, new in what[:CHANGES]
        )
        more = f'<p class="more">and {len(what) - CHANGES} more</p>' if len(what) > CHANGES else ""
        end = (
            '<em class="raised">raised</em>'
            if to is None
            else f"<span>S{order[to]}</span>"
            if to in order
            else ""
        )
        none = "" if what or to is None else '<p class="more">no change</p>'
        table = f"<table>{rows}</table>" if rows else ""
        lines.append(f"<li><b>{escape(transition.action_name)}</b> {end}{table}{more}{none}</li>")
    return lines


def _graph(result: ExplorationResult, selection: Selection) -> str:
    omitted = []
    if selection.left_out_states:
        omitted.append(f"{selection.left_out_states:,} of {len(result.states):,} states")
    if selection.left_out_arrows:
        omitted.append(f"{selection.left_out_arrows:,} arrows between the drawn states")
    shown = "the states near the initial state"
    if result.violations:
        shown = "the paths of the violations and the states near them"
    note = f"Drawn: {shown}. Left out: {', '.join(omitted)}." if omitted else "All states."
    return (
        f'<section class="graph"><h2>State graph</h2><p class="note">{note} ↺ is the number of actions that lead from '
        f"a state to itself. Faint arcs lead back or sideways.</p>"
        f'<div class="canvas">{drawing(result, selection)}</div>'
        '<pre class="detail" aria-live="polite" hidden></pre></section>'
    )


def _actions(result: ExplorationResult) -> str:
    rows = "".join(
        f"<tr{'' if each.tried else ' class=never'}><th>{escape(name)}</th><td>{each.tried:,}</td>"
        f"<td>{f'{each.raised:,}' if each.raised else ''}</td></tr>"
        for name, each in result.coverage.actions.items()
    )
    return (
        '<section class="actions"><h2>Actions</h2><table><thead><tr><th>action</th><td>tried</td><td>raised</td></tr>'
        f"</thead><tbody>{rows}</tbody></table></section>"
    )


def _data(result: ExplorationResult, selection: Selection) -> str:
    """Return the data of the drawn states for the script, as JSON."""
    states = {}
    for key in selection.depths:
        state = result.graph.states.get(key)
        if state is not None:
            text = json.dumps(tree(state), indent=2, ensure_ascii=False)
            states[key] = text if len(text) <= DETAIL else f"{text[:DETAIL]}\n…"
    # "<" would allow "</script>" and comments, which end or hide the data
    return json.dumps(states, ensure_ascii=False).replace("<", "\\u003c")
