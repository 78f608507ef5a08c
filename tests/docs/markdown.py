"""The code blocks of a Markdown file, with the instruction that stands above each.

An instruction is an HTML comment on the last non-blank line above a fence::

    <!-- not run: REASON -->    not executed, but it must compile, unless REASON says "not python"
    <!-- output -->             this ```text is exactly what the ```python block above it prints
    <!-- file: NAME -->         it is written to that file of the page's folder, and not executed
    <!-- peer: NAME -->         a program for another tool: it must compile; `benchmarks.side_by_side` executes it

Other comments are left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)")
INSTRUCTION = re.compile(
    r"^<!-- (?:(?P<output>output)|not run: (?P<reason>\S.*)|file: (?P<file>[\w.]+)|peer: (?P<peer>\w+)) -->$"
)
LOOKS_LIKE_ONE = re.compile(r"^<!--\s*(?:output|not.run|file|peer)")


@dataclass(frozen=True)
class Block:
    language: str
    line: int  # of the first line of code, counted from 1
    code: str
    not_run: str | None = None
    is_output: bool = False
    file: str | None = None
    peer: str | None = None


def read_blocks(text: str) -> list[Block]:
    blocks = []
    above = ""  # the last non-blank line
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            above = line.strip() or above
            continue
        code = []
        for _, inner in lines:
            if inner.strip().startswith(fence["ticks"]) and not inner.strip().strip("`"):
                break
            code.append(inner)
        else:
            raise ValueError(f"line {number}: this code block is not closed")
        instruction = INSTRUCTION.match(above)
        if instruction is None and LOOKS_LIKE_ONE.match(above):
            raise ValueError(
                f"line {number}: write '<!-- KIND: ... -->' above it; see {__name__} for the kinds"
            )
        blocks.append(
            Block(
                language=fence["language"],
                line=number + 1,
                code=dedent("".join(f"{inner}\n" for inner in code)),
                not_run=instruction["reason"] if instruction else None,
                is_output=bool(instruction and instruction["output"]),
                file=instruction["file"] if instruction else None,
                peer=instruction["peer"] if instruction else None,
            )
        )
        above = ""
    return blocks
