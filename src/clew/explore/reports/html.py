"""The HTML report: a self-contained page, without scripts, with counts, the steps of each violation, and the graph."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from clew.drawing.svg import svg
from clew.explore.reports.state_diff import step_changes, unchanged
from clew.explore.reports.state_picture import state_numbers, state_picture
from clew.explore.reports.text import confirmation, counted, extent

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

CHANGES = 8  # shown per step

_STYLE = """
body.clew-page{margin:0;background:#f4f6f9}
.clew-x{--ink:#1c2430;--soft:#5b6675;--line:#dce1e8;--card:#fff;--red:#c62828;
--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
max-width:1080px;margin:0 auto;padding:24px 16px 64px;color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
.clew-x header{border-radius:10px;padding:18px 22px;color:#fff}
.clew-x header.good{background:#2e7d4f}.clew-x header.warn{background:#9a6a12}.clew-x header.bad{background:var(--red)}
.clew-x header h1{margin:0;font-size:26px;line-height:1.2;color:#fff}.clew-x header p{margin:4px 0 0;opacity:.92}
.clew-x section{background:var(--card);border:1px solid var(--line);border-radius:10px;margin-top:16px;
padding:16px 22px}
.clew-x h2{margin:0 0 6px;font-size:18px}
.clew-x .figures{display:flex;flex-wrap:wrap;gap:8px 40px}
.clew-x .figures b{display:block;font-size:20px}.clew-x .figures span,.clew-x .note,.clew-x .confirmation,.clew-x .more
{color:var(--soft);font-size:13px}
.clew-x p{margin:4px 0}.clew-x .message{font-size:16px}
.clew-x .violation{border-left:5px solid var(--red)}
.clew-x .violation.medium{border-left-color:#c58a1c}.clew-x .violation.low{border-left-color:#8a94a3}
.clew-x .badge{font-size:11px;text-transform:uppercase;letter-spacing:.06em;background:var(--red);color:#fff;
border-radius:4px;padding:2px 7px;vertical-align:2px}
.clew-x .medium .badge{background:#9a6a12}.clew-x .low .badge{background:#667080}
.clew-x ol{margin:10px 0;padding-left:28px}.clew-x li{margin:5px 0;padding-left:4px}
.clew-x li>b{font-family:var(--mono);font-size:14px}.clew-x li>span{color:var(--soft);font-size:12px;margin-left:6px}
.clew-x .raised{color:var(--red);font-weight:600;font-style:normal;font-size:13px}
.clew-x table{border-collapse:collapse;font:13px/1.5 var(--mono)}
.clew-x li table{margin:2px 0 2px 2px;font-size:12px}
.clew-x td,.clew-x th{text-align:left;font-weight:400;padding:1px 14px 1px 0;vertical-align:top;overflow-wrap:anywhere;
background:none;border:0}
.clew-x li th{color:var(--soft)}
.clew-x .actions td{text-align:right}.clew-x .actions thead *{color:var(--soft);font-size:12px}
.clew-x .actions .never{color:var(--soft);text-decoration:line-through}
.clew-x pre{font:12px/1.45 var(--mono);overflow:auto;background:#8a94a31a;border-radius:6px;padding:10px;margin:8px 0 0;
max-height:340px}
.clew-x details summary{cursor:pointer;color:var(--soft);font-size:13px}
.clew-x .canvas{overflow:auto;max-height:78vh;margin-top:8px}
.clew-x svg{display:block;margin:0 auto}
@media (prefers-color-scheme:dark){
body.clew-page{background:#12161c}
.clew-x{--ink:#e8edf4;--soft:#a1adbd;--line:#2c3542;--card:#191f28;--red:#ef6b6b}
.clew-x header.bad{background:#a52a2a}.clew-x .badge{color:#14181f}}
@media (max-width:560px){.clew-x{padding:12px 8px 48px}.clew-x section{padding:12px 14px}.clew-x .figures{gap:8px 24px}}
@media print{.clew-x .canvas{max-height:none}}
"""


def page(result: ExplorationResult) -> str:
    """Return the report as an HTML document."""
    title = f"Exploration: {_verdict(result)}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n</head>\n'
        f'<body class="clew-page">\n{fragment(result)}\n</body>\n</html>\n'
    )


def fragment(result: ExplorationResult) -> str:
    """Return the report as an HTML fragment, for a notebook."""
    return f"<style>{_STYLE}</style>{_body(result)}"


def _body(result: ExplorationResult) -> str:
    verdict = "bad" if result.violations else "warn" if result.truncated else "good"
    title = _verdict(result).capitalize()
    parts = [
        '<main class="clew-x">',
        f'<header class="{verdict}"><h1>{title}</h1><p>{escape(extent(result).capitalize())}.</p></header>',
        _figures(result),
        *(_violation(violation, result) for violation in result.violations),
        _graph(result),
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


def _violation(violation: Violation, result: ExplorationResult) -> str:
    severity = violation.severity.value
    steps = "".join(_steps(violation, result)) or "<li>In the initial state.</li>"
    error = ""
    if violation.error:
        error = f"<details><summary>traceback</summary><pre>{escape(violation.error)}</pre></details>"
    return (
        f'<section class="violation {severity}">'
        f'<h2><span class="badge">{severity}</span> {escape(violation.title)}</h2>'
        f'<p class="message">{escape(violation.message)}</p>'
        f'<p class="confirmation">{escape(confirmation(violation, result))}</p>'
        f"<ol>{steps}</ol>{error}</section>"
    )


def _steps(violation: Violation, result: ExplorationResult) -> list[str]:
    order, lines = state_numbers(result), []
    for transition in violation.path:
        to, what = transition.to_state_id, step_changes(result, transition)
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
        none = "" if what or to is None else f'<p class="more">{unchanged(result.graph, transition)}</p>'
        table = f"<table>{rows}</table>" if rows else ""
        lines.append(f"<li><b>{escape(transition.action_name)}</b> {end}{table}{more}{none}</li>")
    return lines


def _graph(result: ExplorationResult) -> str:
    drawn, omitted = state_picture(result), []
    if drawn.left_out_states:
        omitted.append(f"{drawn.left_out_states:,} of {len(result.states):,} states")
    if drawn.left_out_arrows:
        omitted.append(f"{drawn.left_out_arrows:,} arrows between the drawn states")
    shown = "the states near the initial state"
    if result.violations:
        shown = "the paths of the violations and the states near them"
    note = f"Drawn: {shown}. Left out: {', '.join(omitted)}." if omitted else "All states."
    return (
        f'<section class="graph"><h2>State graph</h2><p class="note">{note} ↺ is the number of actions that lead from '
        f"a state to itself. The tooltip of a state shows its data.</p>"
        f'<div class="canvas">{svg(drawn.picture) if drawn.picture.boxes else ""}</div></section>'
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
