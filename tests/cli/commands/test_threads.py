"""Threads on the command line: ``--thread``, ``clew threads`` and ``clew thread``."""

from __future__ import annotations

import pytest

from tests.cli.command import Folder

CHAT = """
import operator
from typing import Annotated, TypedDict

from clew import Graph, interrupt, node


class Chat(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    ok: bool


@node(output="messages")
def reply(messages):
    return [f"re: {messages[-1]}"]


@interrupt(output="ok")
def ask(messages):
    return f"{messages[-1]}?"


graph = Graph([reply], state=Chat, name="chat")
asking = Graph([ask], state=Chat, name="asking")
"""


@pytest.fixture
def chat(folder: Folder) -> Folder:
    (folder.path / "chat.py").write_text(CHAT)
    for number in (1, 2):
        said = f'messages=["m{number}"]'
        folder.clew("run", "chat:graph", said, "--thread", "user-42", "--run-id", f"r{number}")
    return folder


def test_each_command_is_a_turn(chat: Folder) -> None:
    done = chat.json("run", "chat:graph", 'messages=["m3"]', "--thread", "user-42", "--run-id", "r3")
    assert done["values"]["messages"] == ["m1", "re: m1", "m2", "re: m2", "m3", "re: m3"]
    shown = chat.json("thread", "user-42")
    assert (shown["thread"], shown["head"], shown["status"]) == ("user-42", "r3", "completed")
    assert [turn["run_id"] for turn in shown["turns"]] == ["r1", "r2", "r3"]
    assert shown["values"] == done["values"]


def test_the_threads_of_a_store(chat: Folder) -> None:
    chat.clew("run", "chat:graph", 'messages=["x"]', "--thread", "user-7", "--run-id", "s1")
    found = chat.json("threads")
    assert [(each["thread"], each["head"], each["status"], each["turns"]) for each in found] == [
        ("user-42", "r2", "completed", 2),
        ("user-7", "s1", "completed", 1),
    ]
    lines = chat.clew("threads").stdout.splitlines()
    assert lines[0].split() == ["thread", "head", "status", "turns", "changed", "graph"]
    assert lines[1].split()[:4] == ["user-42", "r2", "completed", "2"]
    text = chat.clew("thread", "user-42").stdout
    assert [word in text for word in ("r1", "r2", "re: m2")] == [True] * 3


def test_a_fork_goes_back_in_a_thread(chat: Folder) -> None:
    chat.clew("fork", "r1", "--thread", "user-42", "--graph", "chat:graph", "--run-id", "back")
    assert chat.json("thread", "user-42")["values"]["messages"] == ["m1", "re: m1"]


def test_a_waiting_turn_is_dropped_only_if_asked(chat: Folder) -> None:
    ask = ("run", "chat:asking", 'messages=["a"]', "--thread", "t")
    chat.clew(*ask, "--run-id", "a1")
    assert "'a1'" in chat.clew(*ask, code=2).stderr
    assert "ask#0 asks" in chat.clew("thread", "t").stdout
    chat.clew(*ask, "--run-id", "a2", "--drop", "--timeout", "1")
    assert [turn["status"] for turn in chat.json("thread", "t")["turns"]] == ["cancelled", "waiting"]


def test_invalid_commands(chat: Folder) -> None:
    error = chat.clew("thread", "user-24", code=2).stderr
    assert "'user-24'" in error
    assert "'user-42'" in error  # the nearest name
    assert "clew threads" in chat.clew("thread", "nothing-like-it", code=2).stderr
    assert "--thread" in chat.clew("run", "chat:graph", 'messages=["a"]', "--drop", code=2).stderr


def test_a_store_without_threads(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hi")
    assert folder.json("threads") == []
    assert folder.clew("threads").stdout == "no threads\n"
