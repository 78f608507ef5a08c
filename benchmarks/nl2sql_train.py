"""Train the weights of the offline planner: `python -m benchmarks.nl2sql_train DIR [--write]`.

DIR is in the benchmark's format (`questions.json`, `databases/`). Three models are learned, each on databases that the
one before it had not seen: roles of single pieces, from the gold queries; ranks of whole candidates, from
whether their rows equal the gold rows; and the certainty, from whether the winner was right. Features do not
name tables, columns or values, and one that occurs in too few databases is dropped.

Needs numpy, which the planner itself does not.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.nl2sql_execution import Database, Rows, is_ordered, normal, same_answer
from benchmarks.nl2sql_gold import Judge, analyse
from benchmarks.nl2sql_learning import (
    Choice,
    Sparse,
    Vocabulary,
    Winner,
    learn_certainty,
    learn_ranks,
    learn_roles,
)
from clew_nl2sql.planner.building.dry_run import DryRunResult, outcome_of
from clew_nl2sql.planner.building.render import UnjoinableTablesError, to_expression, to_sql
from clew_nl2sql.planner.candidates import candidates
from clew_nl2sql.planner.catalog import Catalog, catalog_from_sqlite
from clew_nl2sql.planner.deciding.cue_decisions import decisions
from clew_nl2sql.planner.judging.unread import unread, unread_features
from clew_nl2sql.planner.judging.unsupported import is_unsupported
from clew_nl2sql.planner.linear_model import LinearModel
from clew_nl2sql.planner.linking.parsed_question import ParsedQuestion
from clew_nl2sql.planner.query import Query
from clew_nl2sql.planner.ranking.features import outcome_features
from clew_nl2sql.planner.rule_planner import RulePlanner, compete, facts_of

FOLDS = 5
PRECISION = 0.905  # the threshold is set where this share of the answers on unseen databases is right
WEIGHTS = Path(__file__).parent.parent / "nl2sql/src/clew_nl2sql/planner/weights.json.gz"


class Example(NamedTuple):
    """A question with its database and gold query."""

    db: str
    question: str
    sql: str


class Trial(NamedTuple):
    """What became of one candidate of a question: whether its rows are the gold rows, and what they look like."""

    right: bool
    outcome: DryRunResult


class Corpus:
    """Questions and databases of one folder. Databases are opened once; what was tried is kept for the next fold."""

    def __init__(self, folder: Path):
        self.folder = folder
        raw = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
        self.examples = [Example(q["db"], q["question"], q["sql"]) for q in raw]
        self._catalogs: dict[str, Catalog] = {}
        self._databases: dict[str, Database] = {}
        self._gold: dict[Example, tuple[Rows | None, bool]] = {}
        self._trials: dict[tuple[Example, Query], Trial | None] = {}

    def path(self, db: str) -> Path:
        return self.folder / "databases" / f"{db}.sqlite"

    def catalog(self, db: str) -> Catalog:
        if db not in self._catalogs:
            self._catalogs[db] = catalog_from_sqlite(self.path(db))
        return self._catalogs[db]

    def database(self, db: str) -> Database:
        if db not in self._databases:
            self._databases[db] = Database(self.path(db))
        return self._databases[db]

    def parsed(self, example: Example) -> ParsedQuestion:
        return ParsedQuestion(example.question, self.catalog(example.db))

    def gold(self, example: Example) -> tuple[Rows | None, bool]:
        """The gold rows, and whether their order matters."""
        if example not in self._gold:
            rows = self.database(example.db).run(example.sql)
            self._gold[example] = (None if rows is None else normal(rows)), is_ordered(example.sql)
        return self._gold[example]

    def trial(self, example: Example, parsed: ParsedQuestion, query: Query) -> Trial | None:
        """Run one candidate; None if its tables do not join."""
        key = (example, query)
        if key not in self._trials:
            self._trials[key] = self._tried(example, parsed, query)
        return self._trials[key]

    def _tried(self, example: Example, parsed: ParsedQuestion, query: Query) -> Trial | None:
        try:
            sql = to_sql(to_expression(query, parsed.schema), "sqlite")
        except UnjoinableTablesError:
            return None
        gold, ordered = self.gold(example)
        rows = self.database(example.db).run(sql)
        if rows is None:
            return Trial(False, DryRunResult("failed", ""))
        right = gold is not None and same_answer(gold, normal(rows), ordered=ordered)
        return Trial(right, outcome_of(rows, ordered=False))


@cache
def corpus_of(folder: Path) -> Corpus:
    """The corpus of a folder, one in a process."""
    return Corpus(folder)


def fold_of(db: str) -> int:
    """The part of the split that a database belongs to."""
    return int(hashlib.sha256(db.encode()).hexdigest(), 16) % FOLDS


def train(
    corpus: Corpus, without: int | None = None, say: Callable[[str], None] = lambda _: None
) -> LinearModel:
    """Learn on all folds but one, or on all."""
    folds = [k for k in range(FOLDS) if k != without]
    words, shapes = Vocabulary(), Vocabulary()
    pieces = {k: list(_role_choices(corpus, k, words)) for k in folds}
    say(f"{sum(map(len, pieces.values()))} decisions")

    def roles_without(k: int | None) -> dict[str, float]:
        return learn_roles([c for other in folds if other != k for c in pieces[other]], words)

    unseen_roles = {k: roles_without(k) for k in folds}
    fields = {}
    for k in folds:
        fields[k] = list(_fields(corpus, k, LinearModel(unseen_roles[k], {}, {}, 0.0), shapes))
        say(f"fold {k}: {len(fields[k])} fields of candidates")

    def ranks_without(k: int | None) -> dict[str, float]:
        return learn_ranks([f for other in folds if other != k for f in fields[other]], shapes)

    roles, ranks = roles_without(None), ranks_without(None)
    say(f"{len(roles)} weights of roles, {len(ranks)} of ranks")
    verdicts: list[Winner] = []
    questions = sum(fold_of(example.db) in folds for example in corpus.examples)
    for k in folds:  # the certainty sees only winners over databases that their ranking had not seen
        verdicts += list(_verdicts(corpus, k, LinearModel(unseen_roles[k], ranks_without(k), {}, 0.0)))
    certainty, threshold, figures = learn_certainty(verdicts, questions, PRECISION)
    say(f"{len(certainty)} weights of certainty, threshold {threshold}; on unseen databases {figures}")
    return LinearModel(roles, ranks, certainty, threshold)


def _examples(corpus: Corpus, fold: int) -> Iterator[Example]:
    return (e for e in corpus.examples if fold_of(e.db) == fold)


def _role_choices(corpus: Corpus, fold: int, names: Vocabulary) -> Iterator[Choice]:
    for example in _examples(corpus, fold):
        parsed = corpus.parsed(example)
        found = decisions(parsed)
        try:
            gold = analyse(example.sql, parsed.schema)
        except Exception as reason:  # a gold query that sqlglot cannot read teaches nothing
            print(f"skipped: {example.sql}: {reason}", file=sys.stderr)
            continue
        for decision, right in zip(found, Judge(gold, parsed.schema, parsed).right(found)):
            options = [[(f, 1.0) for f in o.features] for o in decision.options]
            yield Choice(options, right, example.db, names)


def _fields(corpus: Corpus, fold: int, model: LinearModel, names: Vocabulary) -> Iterator[Choice]:
    for example in _examples(corpus, fold):
        parsed = corpus.parsed(example)
        options: list[Sparse] = []
        right: set[int] = set()
        for candidate in candidates(parsed, model):
            trial = corpus.trial(example, parsed, candidate.query)
            if trial is None:
                continue
            if trial.right:
                right.add(len(options))
            late = outcome_features(parsed, candidate.query, trial.outcome)
            options.append(candidate.features + late + unread_features(parsed, candidate))
        if options:
            yield Choice(options, right, example.db, names)


def _verdicts(corpus: Corpus, fold: int, model: LinearModel) -> Iterator[Winner]:
    for example in _examples(corpus, fold):
        parsed = corpus.parsed(example)
        field = compete(parsed, corpus.catalog(example.db), model)
        if not field.answers or is_unsupported(parsed, field.answers[0][1][0].ranked):
            continue
        trial = corpus.trial(example, parsed, field.answers[0][1][0].ranked.query)
        right = trial is not None and trial.right
        whole = not unread(parsed, field.answers[0][1][0].ranked)
        yield Winner(facts_of(parsed, field), right, example.db, whole)


def write(model: LinearModel, path: Path = WEIGHTS) -> None:
    """Write the weights, always the same bytes for the same weights."""
    data: dict[str, Any] = {
        k: dict(sorted(v.items())) if isinstance(v, dict) else v for k, v in model._asdict().items()
    }
    path.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0))


def read(path: Path) -> LinearModel:
    """Weights that `write` wrote."""
    return LinearModel(**json.loads(gzip.decompress(path.read_bytes())))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--write", type=Path, nargs="?", const=WEIGHTS, help="where to (the package, if no path is given)"
    )
    parser.add_argument("--without", type=int, help="leave one fold out, to score it")
    arguments = parser.parse_args()
    model = train(Corpus(arguments.folder), arguments.without, say=lambda line: print(line, file=sys.stderr))
    if arguments.write:
        write(model, arguments.write)
        RulePlanner(model=model)


if __name__ == "__main__":
    main()
