"""The project of a tester: recorded runs, what-if forks and a check find the bugs that are put in one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REFUNDS = """
from clew import Context, Graph, RetryPolicy, interrupt, node
from clew.explore import Check, Invariant
from clew.explore.systems import MemoryStorage

bank = MemoryStorage()


def refund(order, amount, key):
    bank.put(key, [order, amount])
    return f"{amount} for {order}"


@node(output="amount")
def compute(order, prices):
    return prices[order]


@interrupt(output="approved")
def approve(order, amount):
    return f"Refund {amount} for {order}?"


@node(output="receipt", retry=RetryPolicy(max_attempts=2, base_delay=5.0))
def pay(order, amount, approved, ctx: Context):
    if not approved:
        return "nothing"
    return ctx.record("refund", refund, order, amount, key=ctx.idempotency_key)


@node(output="letter")
def write(receipt):
    return f"We sent {receipt}."


graph = Graph([compute, approve, pay, write], name="refunds")


def paid_once(world):
    return len(world.systems["bank"].list()) <= 1 or "the customer got more than one refund"


check = Check(
    graph, {"order": "tea", "prices": {"tea": 5}}, [Invariant("paid once", paid_once)], systems={"bank": bank}
)
"""

RECORD = """
from refunds import graph

from clew import Engine

with Engine(graph, store="recorded.db") as engine:
    for name, answer in (("paid", True), ("refused", False)):
        engine.run({"order": "tea", "prices": {"tea": 5}}, run_id=name)
        engine.resume(name, answer=answer)
"""

TESTS = """
from pathlib import Path

from refunds import bank, graph

from clew import Engine

INPUT = {"order": "tea", "prices": {"tea": 5}}


def test_recorded_runs(clew_replay):
    clew_replay(Path(__file__).with_name("recorded.db"), graph=graph)


def test_what_if_the_price_was_another(clew_store):
    engine = Engine(graph, store=clew_store)
    engine.run(INPUT, run_id="r")
    assert engine.resume("r", answer=True)["letter"].endswith("5 for tea.")
    fork = engine.fork("r", step=1, values={"amount": 9}, run_id="dear")
    assert fork.questions[0].question == "Refund 9 for tea?"
    assert engine.resume("dear", answer=True)["letter"].endswith("9 for tea.")
    assert [item for state in engine.history("dear") for item in state.items] == [
        "approve#0", "pay#0", "write#0"
    ]
    assert engine.replay("r").ok and engine.replay("dear").ok


def test_a_replay_pays_nothing(clew_store):
    engine = Engine(graph, store=clew_store)
    engine.run(INPUT, run_id="r")
    engine.resume("r", answer=True)
    before = bank.list()
    assert engine.replay("r").ok
    assert bank.list() == before
"""


class Project:
    """The folder of the tester."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("refunds.py", REFUNDS), ("record.py", RECORD), ("test_refunds.py", TESTS)):
            (folder / name).write_text(text)

    def edit(self, old: str, new: str) -> None:
        file = self.folder / "refunds.py"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def python(self, *arguments: str) -> tuple[int, str]:
        """Return the exit code and all output."""
        # without bytecode: two edits within a second would not be noticed by Python itself
        command = [sys.executable, "-B", *arguments]
        environment = {
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }  # those of this environment cost seconds
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def pytest(self, *more: str) -> tuple[int, str]:
        return self.python("-m", "pytest", "-q", "-p", "clew.pytest_plugin", "-p", "no:cacheprovider", *more)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    assert project.python("record.py") == (0, "")
    return project


def test_a_changed_letter_fails_the_recorded_runs_only(project: Project) -> None:
    code, told = project.pytest()
    assert (code, "3 passed" in told) == (0, True), told
    project.edit("We sent {receipt}.", "Dear customer, we sent {receipt}.")
    code, told = project.pytest()
    assert code == 1
    assert "1 failed, 2 passed" in told
    assert "2 of 2 recorded runs do not replay" in told
    assert '-letter = "We sent 5 for tea."' in told
    assert '+letter = "Dear customer, we sent 5 for tea."' in told


def test_a_changed_call_is_found_by_the_command_too(project: Project) -> None:
    project.edit("refund, order, amount, key", "refund, order, amount + 1, key")
    code, told = project.python("-m", "clew", "replay", "recorded.db", "--all", "--graph", "refunds:graph")
    assert code == 1
    assert "run 'refused' replays" in told
    assert "-argument 2 = 5" in told
    assert "+argument 2 = 6" in told
    assert "1 of 2 runs replay" in told


def test_a_check_finds_the_second_refund(project: Project) -> None:
    code, told = project.python("-m", "clew", "check", "refunds:check")
    assert (code, "no violations" in told) == (0, True), told
    project.edit("bank.put(key, ", 'bank.put(f"refund {len(bank.list())}", ')  # ignores the key
    code, told = project.python("-m", "clew", "check", "refunds:check")
    assert code == 1
    assert "paid once: the customer got more than one refund" in told
    assert "call 0 ('refund') is made, for the second time" in told


def test_the_usual_mistakes_say_what_to_do(project: Project) -> None:
    (project.folder / "test_refunds.py").write_text(
        "def test_elsewhere(clew_replay): clew_replay('tests/recorded.db')\n"
        "def test_no_graph(clew_replay): clew_replay('recorded.db')\n"
        "def test_misspelt(clew_replay): clew_replay('recorded.db', runs=['payed'])\n"
    )
    _, told = project.pytest()
    assert "use Path(__file__).with_name('recorded.db')" in told
    assert "pass --graph MODULE:GRAPH (in Python: graph=), or add it to the list" in told
    assert "run 'payed' does not exist; did you mean 'paid'?" in told
