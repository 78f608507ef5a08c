"""The result of exploring a service: an `ExplorationResult` with what was sent, what was left out, and scripts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from clew.explore.api.credential_mask import CredentialMask
from clew.explore.api.naming import SESSION
from clew.explore.api.reports.reproductions import Reproduction, as_test_module
from clew.explore.model.states import State
from clew.explore.model.violations import Violation
from clew.explore.reports.result import ExplorationResult
from clew.explore.reports.text import listed, text

STATUSES = 8  # shown of those that the document does not declare


_IN_JSON = {
    "undeclared": "undeclared_statuses",
    "blocked": "blocked_connections",
    "unguarded": "unguarded_libraries",
    "calibrated": "calibrated_calls",
}


class ServiceReport(msgspec.Struct, frozen=True, rename=_IN_JSON):
    """What the exploration of a service says besides its violations."""

    requests: int
    operations: dict[str, dict[int, int]]  # to the number of responses by status
    undeclared: dict[str, int]  # statuses that the document does not declare
    volatile: tuple[str, ...]
    times: tuple[str, ...]
    stale: tuple[str, ...]
    blocked: dict[str, int]  # outgoing connections
    unguarded: tuple[str, ...]
    actors: tuple[str, ...]
    notes: tuple[str, ...]
    calibrated: int  # calls

    @property
    def never_succeeded(self) -> tuple[str, ...]:
        """Return the operations that never answered with 2xx or 3xx."""
        return tuple(
            name
            for name, statuses in self.operations.items()
            if not any(200 <= status < 400 for status in statuses)
        )


class ServiceExplorationResult(ExplorationResult):
    """The result of `explore_api`."""

    def __init__(
        self,
        found: ExplorationResult,
        service: ServiceReport,
        reproductions: list[Reproduction],
        mask: CredentialMask,
    ) -> None:
        super().__init__(
            found.graph,
            [_masked(each, mask) for each in found.violations],
            found.coverage,
            truncated=found.truncated,
            strategy=found.strategy,
            seconds=found.seconds,
            invariants=found.invariants,
            resumed_transitions=found.resumed_transitions,
            complete=found.complete,
        )
        self.service = service
        self.reproductions = reproductions
        self._mask = mask

    def shown(self, state: State) -> dict[str, Any]:
        """Return what the reports show of a state: credentials are masked."""
        found = super().shown(state)
        session = found.pop(SESSION)
        return {
            **self._mask.data(found),
            SESSION: {**session, "actors": self._mask.session(session["actors"])},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the JSON report."""
        service = self.service
        scripts = [
            {"name": each.name, "pytest": each.pytest(), "curl": each.curl()} for each in self.reproductions
        ]
        return {
            **super().to_dict(),
            "service": {
                **msgspec.to_builtins(service, str_keys=True),
                "never_succeeded": list(service.never_succeeded),
            },
            "reproductions": scripts,
        }

    def save_reproductions(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the confirmed violations as `test_found.py` and one shell script each; return the files."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        tests = target / "test_found.py"
        tests.write_text(as_test_module(self.reproductions), "utf-8")
        files = [tests]
        for number, each in enumerate(self.reproductions, 1):
            script = target / f"{number:02d}_{each.function_name.removeprefix('test_')[:60]}.sh"
            script.write_text(each.curl(), "utf-8")
            script.chmod(0o755)
            files.append(script)
        return files

    def __str__(self) -> str:
        # the tables show what a step changed; the context and the session say it again
        return "\n".join([text(self, hidden=("context", SESSION)), "", *describe(self)])


def _masked(violation: Violation, mask: CredentialMask) -> Violation:
    error = None if violation.error is None else mask.text(violation.error)
    return msgspec.structs.replace(violation, message=mask.text(violation.message), error=error)


def describe(result: ServiceExplorationResult) -> list[str]:
    """Return what is always printed: what was tried, left open, and treated as volatile."""
    service = result.service
    succeeded = len(service.operations) - len(service.never_succeeded)
    lines = [
        f"{service.requests:,} requests; {succeeded} of {len(service.operations)} operations answered 2xx; "
        f"{service.calibrated:,} calls calibrated",
        f"never answered 2xx: {', '.join(service.never_succeeded) or 'none'}",
        f"left open: {result.coverage.untried_pairs:,} pairs of state and call",
        f"volatile: {', '.join(service.volatile) or 'none'}; times: {', '.join(service.times) or 'none'}",
    ]
    if service.undeclared:
        found = [f"{name} ({count}×)" for name, count in sorted(service.undeclared.items())]
        lines.append(f"undeclared statuses: {listed(found, STATUSES)}")
    if service.blocked:
        lines.append(
            "blocked connections: " + ", ".join(f"{name} ({n}×)" for name, n in service.blocked.items())
        )
    if service.stale:
        lines.append(f"not rolled back: {'; '.join(service.stale)}")
    return lines + [f"note: {note}" for note in service.notes]
