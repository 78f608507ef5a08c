"""An answer: small, complete, and safe to show."""

from __future__ import annotations

from decimal import Decimal

from clew_nl2sql import Answer, Scan


def answer(**fields: object) -> Answer:
    base = {"question": "?", "status": "answered", "text": "Two."}
    return Answer(**{**base, **fields})


def test_queries_by_source_and_a_second_one_beside_the_first() -> None:
    scans = tuple(
        Scan(id=str(n), source="s", intent="?", status="success", sql=f"SELECT {n}") for n in (1, 2)
    )
    assert answer(scans=scans).sql == {"s": "SELECT 1", "s#2": "SELECT 2"}


def test_plain_data_for_json() -> None:
    plain = answer(columns=("n",), rows=((Decimal("1.50"),),)).to_dict()
    assert plain["rows"] == [[1.5]]
    assert plain["sql"] == {}


def test_in_a_notebook_text_is_text() -> None:
    shown = answer(text="<b>", columns=("<i>",), rows=(("<script>",),))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "&lt;b&gt;" in shown


def test_it_reads_as_its_text() -> None:
    assert str(answer()) == "Two."


def test_numbers_that_are_none_are_shown_as_what_they_are() -> None:
    from clew_nl2sql.template_synthesizer import shown

    told = [shown(value) for value in (float("inf"), float("-inf"), float("nan"), 3.0, 2.5, 1234567.0)]
    assert told == ["inf", "-inf", "nan", "3", "2.50", "1,234,567"]
