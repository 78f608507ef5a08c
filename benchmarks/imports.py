"""What importing a library costs, each time in a fresh interpreter, with its bytecode compiled.

The floor is `import asyncio`, which all of them need. Each contestant imports what its users import, and in a second
row also what only a first run loads. It sees only what it requires itself: Burr imports pandas and LangChain where it
finds them, and here it would find those of its rivals.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.contestants import Contestant
from benchmarks.rows import Bar, Outcome, Result, Row, Settings

BAR = Bar(limit=60.0, floor=39.0)
ROWS = (
    ("import", "import in a fresh process (floor: asyncio)", BAR),
    ("import-to-run", "import of all that a first run needs", None),
)
PROGRAM = """
import sys, time
sys.modules.update(dict.fromkeys({hidden!r}))
started = time.perf_counter()
import {module}
print(time.perf_counter() - started)
"""


def imports(contestants: tuple[Contestant, ...], settings: Settings) -> Iterator[Result]:
    for name, title, bar in ROWS:
        yield _imported(Row(name, name, title, "ms", bar), contestants, settings)


def _imported(row: Row, contestants: tuple[Contestant, ...], settings: Settings) -> Result:
    present = [each for each in contestants if each.imports]
    modules = {each.name: each.runs if row.bar is None else each.imports for each in present}
    samples: dict[str, list[float]] = {each.name: [] for each in present}
    programs = {
        each.name: PROGRAM.format(module=modules[each.name], hidden=strangers(each)) for each in present
    }
    for program in programs.values():
        seconds(program)  # writes the bytecode and fills the file cache
    for number in range(settings.rounds):
        first = number % len(present)
        for contestant in present[first:] + present[:first]:
            samples[contestant.name].append(seconds(programs[contestant.name]) * 1e3)
    return Result(row, tuple(_outcome(each, modules, samples) for each in contestants))


def _outcome(contestant: Contestant, modules: dict[str, str], samples: dict[str, list[float]]) -> Outcome:
    if contestant.module is None:
        return Outcome(contestant.name, "missing", note=contestant.problem)
    if not contestant.imports:
        return Outcome(contestant.name, "absent", note=contestant.excuse("import"))
    note = f"import {modules[contestant.name]}"
    return Outcome(contestant.name, "measured", tuple(samples[contestant.name]), note)


def seconds(program: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # -P: the working directory must not be looked through before the installed packages.
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def strangers(contestant: Contestant) -> list[str]:
    """The installed modules that belong to no distribution which the contestant requires."""
    family = requirements(contestant.distribution) if contestant.distribution else set()
    owners = importlib.metadata.packages_distributions()
    return sorted(
        module
        for module, names in owners.items()
        if module.isidentifier() and family.isdisjoint(map(canonical, names))
    )


def requirements(distribution: str) -> set[str]:
    """A distribution and all that it requires, extras left out, as far as installed."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        name = canonical(waiting.pop())
        if name in found:
            continue
        try:
            lines = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines if "extra ==" not in line]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
