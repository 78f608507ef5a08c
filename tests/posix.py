"""Which test modules cannot run without POSIX: those that use its signals, forks, terminals or locks.

A module also counts if it imports a module of the tests that does. A module that marks single tests with
``pytest.mark.posix`` speaks for itself.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_USES = re.compile(
    r"\b(os\.(fork|killpg|openpty|mkfifo|getuid|geteuid|setsid|waitpid)|SIG(KILL|STOP|CONT)|pthread_kill|"
    r"import (pty|fcntl|resource)|start_new_session|preexec_fn)\b"
)
_IMPORTS = re.compile(r"^from (tests[\w.]*) import \(?([\w,\s]+)|^import (tests[\w.]*)", re.M)


@cache
def needs_posix(file: Path) -> bool:
    """Return whether a module of the tests cannot run without POSIX."""
    waiting, seen = [file], {file}
    while waiting:
        module = waiting.pop()
        text = module.read_text("utf-8") if module.is_file() else ""
        if "mark.posix" in text:
            continue
        if _USES.search(text):
            return True
        fresh = [used for used in _imported(text) if used not in seen]
        seen.update(fresh)
        waiting += fresh
    return False


def _imported(text: str) -> list[Path]:
    found = []
    for package, names, module in _IMPORTS.findall(text):
        folder = ROOT / (package or module).replace(".", "/")
        found += [folder.with_suffix(".py"), *(folder / f"{name.strip()}.py" for name in names.split(","))]
    return found
