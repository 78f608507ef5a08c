"""A chat whose turns a test can hold, for tests of threads."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator
from typing import Annotated, TypedDict

import pytest


class Chat(TypedDict, total=False):
    messages: Annotated[list[str], operator.add]
    ok: bool


class Gate:
    """Holds the turns that say "slow" until it opens."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_reached = threading.Event()

    def pass_through(self) -> None:
        self.is_reached.set()
        assert self.is_open.wait(300)


@pytest.fixture
def chat_gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.is_open.set()
