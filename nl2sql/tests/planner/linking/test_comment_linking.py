"""Comments explain what names do not."""

from __future__ import annotations

from clew_nl2sql.planner import Catalog, Column, RulePlanner, Table

FLATS = Table(
    name="flat",
    columns=(
        Column(name="id", type="integer", kind="number", primary_key=True),
        Column(name="c17", type="integer", kind="number", comment="monthly rent in euro"),
        Column(name="c18", type="integer", kind="number", comment="surface in square metres"),
    ),
    rows=((1, 700, 50), (2, 900, 80)),
    row_count=2,
)


def test_a_word_of_a_comment_links_its_column() -> None:
    plan = RulePlanner(threshold=0.0).plan("What is the average rent of all flats?", Catalog(tables=(FLATS,)))
    assert plan.sql == "SELECT AVG(c17) FROM flat"


def test_without_comments_the_word_stays_unmapped() -> None:
    bare = Table(name="flat", columns=tuple(Column(name=c.name, kind=c.kind) for c in FLATS.columns))
    plan = RulePlanner().plan("What is the average rent of all flats?", Catalog(tables=(bare,)))
    assert "rent" in plan.unmapped
