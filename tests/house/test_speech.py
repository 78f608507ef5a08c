"""What may not be written in this repository, whatever the file.

Paths of one machine and addresses of package registries, which work for their author only; file names that
say nothing about the domain; an open task without its reason.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "base", "misc"}
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.:/}])/(?:home|Users|root|work|opt|mnt|tmp|private)/\w|\b[A-Z]:\\Users",
    "a package registry": r"pypi\.org|pythonhosted\.org|registry\.npmjs|(?:index-url|find-links)[= ]",
    "a task without its reason": r"\b(?:TO[D]O|FIX[M]E)\b(?!.*\bbecause\b)",  # brackets: not to find itself
}


def repository_files() -> list[Path]:
    """Files that git tracks or would track, without what others wrote (``vendor`` folders)."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"not a git checkout, so there is no list of files: {error}")
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and "vendor" not in file.relative_to(ROOT).parts]


def complaints(text: str) -> list[str]:
    return [
        f"{number}: {what}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if re.search(pattern, line)
    ]


def test_no_file_says_what_may_not_be_said() -> None:
    found = []
    for file in repository_files():
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # an image or a database
        found += [f"{file.relative_to(ROOT)}:{complaint}" for complaint in complaints(text)]
    assert found == []


def test_file_names_say_what_is_inside() -> None:
    names = [file.relative_to(ROOT) for file in repository_files()]
    vague = [
        str(name) for name in names if VAGUE & set(re.split(r"[\W_]+", str(name.with_suffix("")).lower()))
    ]
    assert vague == []


@pytest.mark.parametrize(
    "line",
    [
        "see " + "/home" + "/ann/notes",
        'open("' + "/tmp" + '/x")',
        "pip install --index" + "-url https://example.org",
        "# TO" + "DO: faster",
    ],
)
def test_the_check_sees(line: str) -> None:
    assert complaints(line)


@pytest.mark.parametrize(
    "line", ["https://example.org/home/page", "src/work/item", "# TODO: drop, because 3.11 lacks it"]
)
def test_the_check_lets_pass(line: str) -> None:
    assert not complaints(line)
