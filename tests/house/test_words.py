"""Words and phrases that readers stumble over are not used: in code, docs, help texts and messages.

A phrase of the first table fails the build. A word of the second one is usually a sign of a sentence to rewrite; once
nothing uses it any more, it moves to the first table.
"""

from __future__ import annotations

import functools
import re

import pytest

from tests.house.test_speech import ROOT, repository_files

FORBIDDEN = {  # pattern: what to write instead
    r"\bg(o|oes|oing|one) on with\b": "resume, continue with",
    r"\b[Ss]ays? it as\b|\bsays not\b": "print as; does not say",
    r"\blet(s)? fall\b": "discard",
    r"\b(is|are|be) looked at\b": "is checked, is inspected",
    r"\bwho(ever)? (goes|go) on\b": "the next process, a resumed run",
    r"\b(is|are) (none|no more)\b": "does not exist, no longer exists",
    r"\bwhat is no\b|\bis no (valid )?(file|store|name|node|function|string|strategy|address|user|grant|time)\b": (
        "is not a ...; anything that is not ..."
    ),
    r"\b(what|whatever) (became|becomes|came|comes) of\b": "the result of, what happens to",
    r"\bstands? once\b|\bas it stands\b": "is defined once; currently",
    r"\bthere (is|are) no(ne)?\b.{0,40}(; there are|of that)": "unknown ...; valid values are",
    r"\bon the strength of\b|\ba say in\b": "based on; can affect",
    r"\banother (one )?than\b|\bis another\b": "differs from",
    r"\b(mend|mended|mends)\b": "fix",
    r"\bto be had\b|\bin other words\b|\bthe very\b|\bhalf way\b|\bwhat there is\b": "available; the same; partway",
    r"\b(does|do) not fit\b": "does not match",
    r"\blet(s)? go of\b": "release, close",
    r"\b[Ww]hatever\b": "any",
    r"\bunder way\b": "running, in progress",
    r"\banew\b|\bmeanwhile\b": "again; in the meantime",
    r"\btold\b": "reported, message",
    r"\b(put|take|taken|takes) back\b": "restore, roll back",
    r"\bunbroken\b|\bsound\b": "uninterrupted; valid, intact",
    r"\bbeside\b": "next to, in addition to",
    r"(?<!\")\b([Ss]omebody|[Nn]obody|[Ww]hoever)\b": "the caller, the process, the user",
}
SUSPECT = (
    r"\b(is|are) (there|kept)\b",
    r"\bof (its|their|one's) own\b",
    r"\bmeet(s)?\b",
)


@functools.cache
def written_lines() -> list[tuple[str, str]]:
    """Every line that people read: place and text."""
    found = []
    for file in repository_files():
        name = file.relative_to(ROOT)
        in_scope = name.parts[0] in ("src", "nl2sql", "docs") or name.name in ("README.md", "CHANGELOG.md")
        if not in_scope or file.suffix not in (".py", ".md") or "tests" in name.parts:
            continue
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            found.append((f"{name}:{number}", line))
    return found


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_a_phrase_is_not_used(pattern: str) -> None:
    found = [f"{place}: {line.strip()[:100]}" for place, line in written_lines() if re.search(pattern, line)]
    assert not found, f"write: {FORBIDDEN[pattern]}"


def test_a_suspect_word_that_is_gone_is_forbidden() -> None:
    lines = [line for _, line in written_lines()]
    counts = {pattern: sum(1 for line in lines if re.search(pattern, line)) for pattern in SUSPECT}
    print(counts)  # shown with -s
    assert 0 not in counts.values(), "move it to FORBIDDEN"
