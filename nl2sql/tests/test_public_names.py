"""The public names of the application are those declared, importable and in the reference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import clew_nl2sql

ROOT = Path(__file__).resolve().parents[2]
HEADINGS = set(
    re.findall(r"^## (\w+)$", (ROOT / "docs/reference/nl2sql.md").read_text("utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", clew_nl2sql.__all__)
def test_a_name_is_there_and_has_its_place_in_the_reference(name: str) -> None:
    assert getattr(clew_nl2sql, name) is not None
    assert name in HEADINGS


def test_the_list_is_sorted() -> None:
    assert sorted(clew_nl2sql.__all__, key=lambda name: (name.islower(), name)) == clew_nl2sql.__all__


def test_drivers_are_imported_by_those_who_use_them() -> None:
    heavy = {"duckdb", "pyarrow", "httpx", "psycopg", "rapidfuzz", "rich"}
    code = f"import clew_nl2sql, sys; print(sorted({heavy!r} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"
