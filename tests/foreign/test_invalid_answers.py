"""A model gives an invalid answer, the process dies, and the resumed node catches the same error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

JUDGE = """
import os
import sys

import pydantic

from clew import Context, Engine, Graph, node


class Answer(pydantic.BaseModel):
    score: int


def ask_model(prompt):
    print("asked")
    return Answer.model_validate_json('{"score": "high"}').score


@node(output="score")
def judge(prompt, ctx: Context):
    try:
        return ctx.record("model", ask_model, prompt)
    except pydantic.ValidationError as error:
        if sys.argv[1] == "die":
            sys.stdout.flush()
            os._exit(9)
        return -error.error_count()


with Engine(Graph([judge]), store="runs.db") as engine:
    if sys.argv[1] == "die":
        engine.run({"prompt": "p"}, run_id="r")
    print(engine.resume("r")["score"])
"""


def test_a_validation_error_is_caught_after_a_crash(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(JUDGE)

    def run(verb: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "judge.py", verb]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    died = run("die")
    assert (died.returncode, died.stdout) == (9, "asked\n")
    again = run("resume")
    assert again.stdout == "-1\n", again.stderr
