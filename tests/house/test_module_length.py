"""A module is one idea; past 500 lines it is two. A folder is one subject; past 20 modules it is two."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = [file for src in ("src", "nl2sql/src") for file in (ROOT / src).rglob("*.py")]
MOST_LINES = 500
MOST_MODULES = 20


def test_no_module_is_too_long() -> None:
    lengths = {
        file.relative_to(ROOT).as_posix(): len(file.read_text("utf-8").splitlines()) for file in MODULES
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_folder_has_too_many_modules() -> None:
    sizes = Counter(file.parent.relative_to(ROOT).as_posix() for file in MODULES)
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}
