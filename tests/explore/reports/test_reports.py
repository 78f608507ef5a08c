"""Reports: text, JSON, JUnit, Markdown, Graphviz and HTML."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clew.errors import DefinitionError, ExplorationAborted
from clew.explore import Action, Agent, ExplorationResult, Invariant, Severity, World
from clew.explore.reports.state_picture import StatePicture, state_picture
from tests.explore.models import Box, records

FORMATS = ("json", "html", "xml", "md", "dot")
HOSTILE = '<script>alert("x")</script> | `*_&\'"\\ ]]> \x00 é🙂'


def shop() -> Agent:
    box = Box({"orders": {}, "refunded": 0})

    def order(world: World) -> None:
        box.value["orders"]["o1"] = "new"

    def cancel(world: World) -> None:
        box.value["orders"]["o1"] = "cancelled"

    def refund(world: World) -> None:
        box.value["refunded"] += 1
        if box.value["refunded"] > 2:
            raise RuntimeError("no money left")

    ordered = lambda world: "o1" in box.value["orders"]
    return Agent(
        World(systems={"shop": box}),
        [
            Action("order", order, precondition=lambda world: not ordered(world)),
            Action("cancel", cancel, precondition=ordered),
            Action("refund", refund, precondition=ordered),
            Action("ship", lambda world: None, precondition=lambda world: False),
        ],
        [
            Invariant(
                "one_refund", lambda world: box.value["refunded"] < 2 or "twice", severity=Severity.CRITICAL
            ),
            Invariant("always", lambda world: True),
        ],
    )


@pytest.fixture(scope="module")
def result() -> ExplorationResult:
    return shop().explore()


@pytest.fixture(scope="module")
def hostile() -> ExplorationResult:
    box = Box({HOSTILE: HOSTILE})

    def act(world: World) -> None:
        box.value = {"x": HOSTILE}

    def fail(world: World) -> None:
        raise ValueError(HOSTILE)

    actions = [Action(HOSTILE, act), Action("fail", fail)]
    return Agent(
        World(systems={"a <b>": box}), actions, [Invariant(HOSTILE, lambda world: HOSTILE)]
    ).explore()


@pytest.fixture(scope="module")
def large() -> ExplorationResult:
    world, actions = records(values=10)
    rows = world.systems["records"]
    return Agent(world, actions, [Invariant("sum", lambda world: sum(rows.value.values()) < 6)]).explore()


def saved(result: ExplorationResult, folder: Path, form: str) -> str:
    result.save(folder / f"report.{form}")
    return (folder / f"report.{form}").read_text("utf-8")


def test_the_text_report_shows_each_path_step_by_step(result: ExplorationResult) -> None:
    head, *lines = str(result).splitlines()
    assert head.startswith("7 states, 11 transitions, 2 violations; exploration complete (BFS(), ")
    assert lines == [
        "never enabled: ship",
        "",
        "1. CRITICAL one_refund: twice",
        "   confirmed by replay, seen 4 times",
        '     1. order                    shop.orders.o1: "new" (new)',
        "     2. refund                   shop.refunded: 0 → 1",
        "     3. refund                   shop.refunded: 1 → 2",
        "",
        "2. HIGH refund raised RuntimeError: no money left",
        "   confirmed by replay, seen 2 times",
        '     1. order                    shop.orders.o1: "new" (new)',
        "     2. refund                   shop.refunded: 0 → 1",
        "     3. refund                   shop.refunded: 1 → 2",
        "     4. refund                   raised",
    ]


def test_the_text_report_shows_that_it_stopped_early() -> None:
    assert "stopped early, 12 pairs of state and action not tried" in str(
        Agent(*records(values=2), max_steps=3).explore()
    )


def test_json_holds_everything(result: ExplorationResult, tmp_path: Path) -> None:
    document = json.loads(saved(result, tmp_path, "json"))
    assert document == result.to_dict()
    assert document["counts"] == {"states": 7, "transitions": 11, "violations": 2, "open": 0}
    known = {state["id"] for state in document["states"]}
    assert document["initial"] in known
    assert all(source in known and target in known for source, _, target in document["transitions"])
    first = document["violations"][0]
    assert (first["cause"], first["name"], first["severity"], first["count"]) == (
        "invariant",
        "one_refund",
        "critical",
        4,
    )
    assert [step["action"] for step in first["path"]] == ["order", "refund", "refund"]
    assert document["coverage"]["ship"] == {"tried": 0, "raised": 0}


def test_junit_has_a_test_for_each_invariant_and_each_action(
    result: ExplorationResult, tmp_path: Path
) -> None:
    suites = ElementTree.fromstring(saved(result, tmp_path, "xml"))
    assert (suites.get("tests"), suites.get("failures")) == ("6", "2")
    cases = {case.get("name"): [child.tag for child in case] for case in suites.iter("testcase")}
    assert cases == {
        "one_refund": ["failure"],
        "always": [],
        "order": [],
        "cancel": [],
        "refund": ["failure"],
        "ship": ["skipped"],
    }


def test_markdown_has_a_table_for_each_path(result: ExplorationResult, tmp_path: Path) -> None:
    text = saved(result, tmp_path, "md")
    assert "## Critical: one\\_refund" in text
    assert "| 3 | `refund` | `shop.refunded: 1 → 2` |" in text
    assert "| 4 | `refund` | **raised** |" in text


def test_dot_has_all_states_and_marks_the_paths(result: ExplorationResult, tmp_path: Path) -> None:
    text = saved(result, tmp_path, "dot")
    for number in range(len(result.states)):
        assert f'label="S{number} ' in text
    pairs = {(each.from_state_id, each.to_state_id) for each in result.transitions}
    assert text.count(" -> ") == len(pairs) + 1  # and to the action that raised
    assert text.count('color="#c62828"]') == 4 + 2  # the arrows of the paths, and their last boxes


def test_an_unknown_extension_is_rejected(result: ExplorationResult, tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"report.pdf"):
        result.save(tmp_path / "report.pdf")


# -- the page ---------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Checks that tags are closed, and collects start tags."""

    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.starts: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.starts.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.starts.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.starts if name in (attrs.get("class") or "").split()]


def boxes(picture: StatePicture) -> dict[str, str]:
    """The states that a picture shows, by the keys of their boxes."""
    return {box.key: box.note.partition("\n")[0].removeprefix("state ") for box in picture.picture.boxes}


def test_the_page_draws_every_state_and_each_path(result: ExplorationResult, tmp_path: Path) -> None:
    page, drawn = Page(saved(result, tmp_path, "html")), state_picture(result)
    keys = boxes(drawn)
    assert {state.id for state in result.states} <= set(keys.values())
    assert len(page.with_class("clew-box")) == len(keys) == 8  # and the action that raised
    red = {
        (keys[arrow.source], keys[arrow.target])
        for arrow in drawn.picture.arrows
        if arrow.kind == "violation"
    }
    assert red == {
        (step.from_state_id, step.to_state_id or "refund raised RuntimeError")
        for violation in result.violations
        for step in violation.path
    }
    assert len(page.with_class("violation")) == 2
    assert '"refunded": 2' in next(box.note for box in drawn.picture.boxes if box.kind == "violation")


def test_the_page_needs_nothing_from_outside(result: ExplorationResult, tmp_path: Path) -> None:
    page = Page(saved(result, tmp_path, "html"))
    for tag, attrs in page.starts:
        assert tag not in ("link", "img", "iframe")
        assert "src" not in attrs
        assert "href" not in attrs


def test_of_a_large_graph_the_page_draws_the_paths(large: ExplorationResult, tmp_path: Path) -> None:
    text = saved(large, tmp_path, "html")
    drawn = set(boxes(state_picture(large)).values())
    assert len(Page(text).with_class("clew-box")) == len(drawn) <= 40
    path = large.violations[0].path
    assert {step.from_state_id for step in path} | {step.to_state_id for step in path} <= drawn
    assert f"Left out: {1331 - len(drawn):,} of 1,331 states" in text
    assert len(text) < 200_000


def test_of_a_large_graph_without_violations_the_page_draws_the_states_near_the_start(tmp_path: Path) -> None:
    calm = Agent(*records(values=10)).explore()
    text = saved(calm, tmp_path, "html")
    assert "Drawn: the states near the initial state" in text
    assert calm.initial.id in boxes(state_picture(calm)).values()


def test_a_notebook_shows_the_same(result: ExplorationResult) -> None:
    text = result._repr_html_()
    Page(text)
    assert "<script" not in text
    assert "one_refund" in text


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_text_does_not_break_a_report(form: str, hostile: ExplorationResult, tmp_path: Path) -> None:
    text = saved(hostile, tmp_path, form)
    if form == "html":
        assert "script" not in {tag for tag, _ in Page(text).starts}
    elif form == "xml":
        assert len(list(ElementTree.fromstring(text).iter("failure"))) == 2
    elif form == "json":
        assert json.loads(text)["violations"][0]["name"] in (HOSTILE, "fail")
    elif form == "md":
        assert "<script>" not in re.sub(r"\\`|```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert str(hostile)


@pytest.mark.parametrize("form", FORMATS)
def test_an_exploration_without_actions_has_reports(form: str, tmp_path: Path) -> None:
    assert saved(Agent(World(), []).explore(), tmp_path, form)


@pytest.mark.parametrize("form", FORMATS)
def test_an_exploration_that_fails_at_the_start_has_reports(form: str, tmp_path: Path) -> None:
    with pytest.raises(ExplorationAborted) as caught:
        Agent(World(systems={"box": Box(object())}), []).explore()
    result = caught.value.result
    assert isinstance(result, ExplorationResult)
    assert saved(result, tmp_path, form)
    assert "0 states, 0 transitions, 0 violations; aborted" in str(result)


@pytest.mark.parametrize("form", FORMATS)
def test_text_without_encoding_can_be_reported(form: str, tmp_path: Path) -> None:
    """File names may contain bytes that are not UTF-8; Python decodes them as lone surrogates."""
    torn = os.fsdecode(b"torn \xff")

    def fails(world: World) -> None:
        raise OSError(torn)

    found = Agent(World(), [Action(torn, fails)], [Invariant(torn, lambda world: torn)]).explore()
    found.save(tmp_path / f"report.{form}")
    written = (tmp_path / f"report.{form}").read_text(encoding="utf-8")
    assert "torn" in written
    assert str(found).encode()


def aborted() -> ExplorationResult:
    class Stuck(Box):
        def rollback(self, token: int) -> None:
            raise OSError("gone")

    box = Stuck(0)
    up = Action("up", lambda world: setattr(box, "value", box.value + 1))
    other = Action("other", lambda world: None)
    with pytest.raises(ExplorationAborted) as caught:
        Agent(
            World(systems={"box": box}), [up, other], [Invariant("low", lambda world: box.value < 1)]
        ).explore()
    assert caught.value.result is not None
    return caught.value.result


def test_an_aborted_exploration_does_not_report_untried_actions_as_never_enabled(tmp_path: Path) -> None:
    found = aborted()
    assert "not confirmed: the exploration was aborted" in str(found)
    assert "did not reproduce" not in str(found)
    assert "never enabled" not in str(found)
    assert "never tried: other" in str(found)


def test_a_long_list_of_untried_actions_is_cut() -> None:
    actions = [Action(f"action {number}", lambda world: None) for number in range(40)]
    found = Agent(World(context={"n": 0}), actions, max_steps=1, progress=False).explore()
    (line,) = [each for each in str(found).splitlines() if each.startswith("never tried")]
    assert line.endswith(" and 29 more")


def test_an_aborted_exploration_is_an_error_for_continuous_integration(tmp_path: Path) -> None:
    aborted().save(tmp_path / "report.xml")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert suite.get("errors") == "1"
    (error,) = suite.iter("error")
    assert "aborted" in (error.get("message") or "")
    (skipped,) = suite.iter("skipped")
    assert "not tried" in (skipped.get("message") or "")


def test_equal_values_of_different_types_are_a_change() -> None:
    """1 and True are equal in Python, but different states."""
    box = Box({"paid": 1})
    act = Action("act", lambda world: setattr(box, "value", {"paid": True}))
    found = Agent(
        World(systems={"box": box}), [act], [Invariant("paid", lambda world: type(box.value["paid"]) is int)]
    )
    assert "box.paid: 1 → true" in str(found.explore())
