"""How well the offline planner answers questions: `python benchmarks/nl2sql.py DIR [--fold K] [--failures] [--json]`.

DIR holds `questions.json`, a list of `{db, question, sql}`, and `databases/<db>.sqlite`. A question is answered right
if the planner's query gives the gold query's rows: as multisets, in order only where the gold query has an
outermost ORDER BY, whatever the order of columns. An abstention counts as wrong for the accuracy and is left
out of the precision; so does a partial answer, which leaves a word of the question unread.

The shipped weights were learned on Spider's training questions. To score on those, leave a fold out: `--fold K`
trains on the other folds (four minutes of one core, needs numpy) and scores on fold K, whose databases nothing was
learned from; `--cross` does so for every fold, as many at once as there are cores, and adds up.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a file as well as with -m

from benchmarks.nl2sql_causes import cause
from benchmarks.nl2sql_execution import is_ordered, normal, same_answer
from benchmarks.nl2sql_hardness import LEVELS, hardness
from benchmarks.nl2sql_train import FOLDS, Corpus, Example, corpus_of, fold_of, train
from clew_nl2sql.planner import Plan, RulePlanner


@dataclass
class Verdict:
    """What became of one question."""

    db: str
    question: str
    gold: str
    level: str
    sql: str | None
    certainty: float
    outcome: str  # right, wrong, partial, abstained
    cause: str = ""
    milliseconds: float = 0.0
    guess_right: bool = False  # whether the best candidate was right, answered or not
    unread: bool = False  # whether it leaves a word of the question unread


@dataclass
class Score:
    """Counts of outcomes."""

    right: int = 0
    wrong: int = 0
    partial: int = 0
    abstained: int = 0
    guessed: int = 0
    causes: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        setattr(self, verdict.outcome, getattr(self, verdict.outcome) + 1)
        self.guessed += verdict.guess_right
        if verdict.outcome != "right":
            self.causes[verdict.cause] += 1

    def figures(self) -> dict[str, Any]:
        count = self.right + self.wrong + self.partial + self.abstained
        answered = self.right + self.wrong
        return {
            "questions": count,
            "accuracy": round(self.right / count, 4) if count else None,
            "coverage": round(answered / count, 4) if count else None,
            "precision": round(self.right / answered, 4) if answered else None,
            "partial": round(self.partial / count, 4) if count else None,
            "accuracy_if_always_answering": round(self.guessed / count, 4) if count else None,
        }


def judge(corpus: Corpus, example: Example, planner: RulePlanner) -> Verdict | None:
    """Plan and run one question; None if the database cannot be read or the gold query itself fails here."""
    try:
        database, catalog = corpus.database(example.db), corpus.catalog(example.db)
    except sqlite3.Error:
        return None
    gold = database.run(example.sql)
    if gold is None:
        return None
    began = time.perf_counter()
    plan = planner.plan(example.question, catalog)
    spent = (time.perf_counter() - began) * 1000
    verdict = Verdict(
        example.db, example.question, example.sql, hardness(example.sql), plan.sql, plan.certainty, "abstained",
        milliseconds=round(spent, 2),
    )  # fmt: skip
    guess = plan.candidates[0].sql if plan.candidates else None
    rows = database.run(guess) if guess is not None else None
    right = rows is not None and same_answer(normal(gold), normal(rows), ordered=is_ordered(example.sql))
    verdict.guess_right, verdict.unread = right, bool(plan.unmapped)
    if not plan.abstained:
        verdict.outcome = "partial" if plan.unmapped else "right" if right else "wrong"
    if verdict.outcome != "right":
        verdict.cause = _cause(corpus, example, plan, right)
    return verdict


def _cause(corpus: Corpus, example: Example, plan: Plan, right: bool) -> str:
    if right:
        return "too cautious" if plan.abstained else "a word unread, though right"
    if not plan.candidates:
        return "no candidate"
    return cause(example.sql, plan.candidates[0].sql, corpus.catalog(example.db))


def evaluate(corpus: Corpus, planner: RulePlanner, folds: set[int] | None = None) -> list[Verdict]:
    """Judge every question of the folds, or all."""
    verdicts = []
    for example in corpus.examples:
        if folds is not None and fold_of(example.db) not in folds:
            continue
        verdict = judge(corpus, example, planner)
        if verdict is None:
            print(f"no gold answer, left out: {example.db}: {example.sql}", file=sys.stderr)
        else:
            verdicts.append(verdict)
    return verdicts


def unseen(folder: Path, fold: int, threshold: float | None) -> list[Verdict]:
    """Train without a fold, and judge its questions. It reads the folder itself, so that folds can run side by side."""
    corpus = corpus_of(folder)
    model = train(
        corpus, without=fold, say=lambda line: print(f"without fold {fold}: {line}", file=sys.stderr)
    )
    return evaluate(corpus, RulePlanner(model=model, threshold=threshold), {fold})


def all_unseen(folder: Path, folds: list[int], threshold: float | None, jobs: int) -> list[Verdict]:
    """The same for several folds, `jobs` at once."""
    with ProcessPoolExecutor(min(jobs, len(folds)), mp_context=get_context("spawn")) as pool:
        found = pool.map(unseen, repeat(folder), folds, repeat(threshold))
        return [verdict for verdicts in found for verdict in verdicts]


def summary(verdicts: list[Verdict]) -> dict[str, Any]:
    """All figures, as plain data."""
    whole = Score()
    levels = {level: Score() for level in LEVELS}
    for verdict in verdicts:
        whole.add(verdict)
        levels[verdict.level].add(verdict)
    times = sorted(v.milliseconds for v in verdicts)
    return {
        **whole.figures(),
        "levels": {level: score.figures() for level, score in levels.items()},
        "causes": dict(whole.causes.most_common()),
        "milliseconds": {"median": times[len(times) // 2], "p95": times[int(len(times) * 0.95)]}
        if times
        else {},
    }


def show(figures: dict[str, Any]) -> None:
    print(f"{'':8} questions  accuracy  coverage  precision   partial")
    for name, row in [("all", figures), *figures["levels"].items()]:
        if row["questions"]:
            shares = [
                f"{row[k]:9.1%}" if row[k] is not None else f"{'-':>9}"
                for k in ("accuracy", "coverage", "precision", "partial")
            ]
            print(f"{name:8} {row['questions']:9} {' '.join(shares)}")
    print(f"\nif it always answered: {figures['accuracy_if_always_answering']:.1%}")
    print(f"time per question: {figures['milliseconds']}")
    print("\nnot answered right, by cause:")
    for name, count in figures["causes"].items():
        print(f"  {count:5} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print figures and verdicts as JSON")
    parser.add_argument(
        "--failures", action="store_true", help="list every question that was not answered right"
    )
    parser.add_argument("--fold", type=int, help="train without this fold, score on it")
    parser.add_argument("--cross", action="store_true", help="the same for every fold, added up")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="folds at once, for --cross")
    parser.add_argument("--threshold", type=float, help="answer from this certainty on")
    arguments = parser.parse_args()
    if arguments.cross:
        verdicts = all_unseen(arguments.folder, list(range(FOLDS)), arguments.threshold, arguments.jobs)
    elif arguments.fold is not None:
        verdicts = unseen(arguments.folder, arguments.fold, arguments.threshold)
    else:
        verdicts = evaluate(Corpus(arguments.folder), RulePlanner(threshold=arguments.threshold))
    figures = summary(verdicts)
    if arguments.json:
        print(json.dumps({**figures, "verdicts": [asdict(v) for v in verdicts]}, indent=1))
        return
    show(figures)
    if arguments.failures:
        for v in sorted((v for v in verdicts if v.outcome != "right"), key=lambda v: (v.cause, v.db)):
            print(f"\n[{v.cause}] {v.db} ({v.level}, {v.certainty:.2f}, {v.outcome})")
            print(f"  {v.question}\n  gold {v.gold}\n  plan {v.sql}")


if __name__ == "__main__":
    main()
