"""The JUnit XML report, for continuous integration. Each invariant and each action is a test case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from clew.explore.reports.text import confirmation, extent

if TYPE_CHECKING:
    from clew.explore.model.violations import Violation
    from clew.explore.reports.result import ExplorationResult

# characters that XML 1.0 does not allow, not even escaped
_IMPOSSIBLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: ExplorationResult) -> str:
    """Return the report as an XML document."""
    cases = [("invariant", name, _of(result, "invariant", name)) for name in result.invariants]
    cases += [("action", name, _of(result, "action", name)) for name in result.coverage.actions]
    failures = sum(bool(found) for _, _, found in cases)
    aborted = [] if result.complete else _aborted(result)
    tests, errors = len(cases) + bool(aborted), int(bool(aborted))
    counts = f'tests="{tests}" failures="{failures}" errors="{errors}" time="{result.seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites name="clew explore" {counts}>',
        f'<testsuite name="exploration" {counts}>',
        "<properties>",
        _property("states", str(len(result.states))),
        _property("transitions", str(len(result.transitions))),
        _property("strategy", result.strategy),
        _property("extent", extent(result)),
        "</properties>",
    ]
    for group, name, found in cases:
        lines += _case(group, name, found, result)
    return "\n".join([*lines, *aborted, "</testsuite>", "</testsuites>"]) + "\n"


def _aborted(result: ExplorationResult) -> list[str]:
    """Return a test case with an error, because an incomplete exploration must not pass."""
    return [
        '<testcase classname="clew.explore" name="exploration">',
        f"<error message={_attribute(extent(result))}/>",
        "</testcase>",
    ]


def _of(result: ExplorationResult, group: str, name: str) -> list[Violation]:
    return [
        each
        for each in result.violations
        if each.name == name and (each.kind.cause == "invariant") is (group == "invariant")
    ]


def _case(group: str, name: str, found: list[Violation], result: ExplorationResult) -> list[str]:
    opening = f"<testcase classname={_attribute(f'clew.explore.{group}')} name={_attribute(name)}"
    if group == "action" and not found and not result.coverage.actions[name].tried:
        reason = (
            "not tried before the exploration ended"
            if result.truncated
            else "not possible in any state that was found"
        )
        return [f"{opening}>", f'<skipped message="{reason}"/>', "</testcase>"]
    if not found:
        return [f"{opening}/>"]
    lines = [f"{opening}>"]
    for violation in found:
        kind = f"type={_attribute(violation.kind.exception or violation.severity.value)}"
        lines.append(f"<failure message={_attribute(violation.message)} {kind}>")
        lines.append(_text("\n".join([confirmation(violation, result), *_steps(violation)])))
        lines.append("</failure>")
    return [*lines, "</testcase>"]


def _steps(violation: Violation) -> list[str]:
    steps = [f"{number}. {each}" for number, each in enumerate(violation.path, 1)] or ["in the initial state"]
    return [*steps, violation.error] if violation.error else steps


def _property(name: str, value: str) -> str:
    return f"<property name={_attribute(name)} value={_attribute(value)}/>"


def _attribute(text: str) -> str:
    return quoteattr(_IMPOSSIBLE.sub("\ufffd", text))


def _text(text: str) -> str:
    return escape(_IMPOSSIBLE.sub("\ufffd", text))
