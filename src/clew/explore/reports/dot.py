"""The Graphviz report: the whole state graph, with paths to violations in red."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.explore.reports.state_diff import one_line, tree

if TYPE_CHECKING:
    from clew.explore.reports.result import ExplorationResult


def dot(result: ExplorationResult) -> str:
    """Return the state graph as a DOT document."""
    violating = {violation.state_id for violation in result.violations}
    marked = {
        (t.from_state_id, t.action_name, t.to_state_id) for each in result.violations for t in each.path
    }
    lines = [
        "digraph exploration {",
        '  node [shape=box, style="rounded,filled", fillcolor="#eaf1ff", fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9, color="#6b7788"];',
    ]
    for number, state in enumerate(result.states):
        color = ', fillcolor="#ffd9d9", color="#c62828"' if state.id in violating else ""
        bold = ", penwidth=2" if state.id == result.graph.initial_id else ""
        label = _quoted(f"S{number} {state.id}\n{one_line(tree(state))}")
        lines.append(f"  {_quoted(state.id)} [label={label}{color}{bold}];")
    for t in result.transitions:
        assert t.to_state_id is not None
        red = (
            ', color="#c62828", penwidth=2'
            if (t.from_state_id, t.action_name, t.to_state_id) in marked
            else ""
        )
        lines.append(
            f"  {_quoted(t.from_state_id)} -> {_quoted(t.to_state_id)} [label={_quoted(t.action_name)}{red}];"
        )
    for number, violation in enumerate(result.violations):
        if violation.path and violation.path[-1].to_state_id is None:
            last, end = violation.path[-1], _quoted(f"raised {number}")
            lines.append(f'  {end} [label={_quoted(violation.title)}, fillcolor="#ffd9d9", color="#c62828"];')
            label = _quoted(last.action_name)
            lines.append(
                f'  {_quoted(last.from_state_id)} -> {end} [label={label}, color="#c62828", penwidth=2];'
            )
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
