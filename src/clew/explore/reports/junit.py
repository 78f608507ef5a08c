"""The JUnit XML report, for continuous integration. Each invariant, action and finding is a test case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

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
    cases += [("finding", each.name, [each]) for each in result.violations if each.kind.cause == "finding"]
    errors = 0 if result.complete else 1
    counts = {
        "tests": len(cases) + errors,
        "failures": sum(bool(found) for _, _, found in cases),
        "errors": errors,
        "time": f"{result.seconds:.3f}",
    }
    suites = Element("testsuites", _texts(name="clew explore", **counts))
    suite = _add(suites, "testsuite", name="exploration", **counts)
    properties = _add(suite, "properties")
    _add(properties, "property", name="states", value=len(result.states))
    _add(properties, "property", name="transitions", value=len(result.transitions))
    _add(properties, "property", name="strategy", value=result.strategy)
    _add(properties, "property", name="extent", value=extent(result))
    for group, name, found in cases:
        _fill(
            _add(suite, "testcase", classname=f"clew.explore.{group}", name=name), group, name, found, result
        )
    if errors:  # an incomplete exploration must not pass
        _add(
            _add(suite, "testcase", classname="clew.explore", name="exploration"),
            "error",
            message=extent(result),
        )
    indent(suites, "")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _of(result: ExplorationResult, group: str, name: str) -> list[Violation]:
    return [
        each
        for each in result.violations
        if each.name == name
        and (each.kind.cause == group or (group, each.kind.cause) == ("action", "precondition"))
    ]


def _fill(case: Element, group: str, name: str, found: list[Violation], result: ExplorationResult) -> None:
    if group == "action" and not found and not result.coverage.actions[name].tried:
        early, never = "not tried before the exploration ended", "not possible in any state that was found"
        _add(case, "skipped", message=early if result.truncated else never)
    for violation in found:
        kind = violation.kind.exception or violation.severity.value
        steps = [f"{number}. {each}" for number, each in enumerate(violation.path, 1)] or [
            "in the initial state"
        ]
        lines = [confirmation(violation, result), *steps, *([violation.error] if violation.error else [])]
        _add(case, "failure", message=violation.message, type=kind).text = _text("\n".join(lines))


def _add(parent: Element, tag: str, **attributes: object) -> Element:
    return SubElement(parent, tag, _texts(**attributes))


def _texts(**attributes: object) -> dict[str, str]:
    return {name: _text(str(value)) for name, value in attributes.items()}


def _text(text: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", text)
