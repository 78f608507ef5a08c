"""Interrupts that are held back: signals are real ones of this process."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from clew import held_interrupts
from clew.held_interrupts import HeldInterrupts, start_thread


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    """Python's handler is there, and there again after the test."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    left = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert left is signal.default_int_handler


def press(times: int = 1) -> None:
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Return what the handler of a program has got."""
    found: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: found.append(number))
    yield found
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("times", [1, 6])
def test_interrupts_are_raised_as_one_at_the_end(times: int) -> None:
    done = []

    def work() -> None:
        with HeldInterrupts():
            press(times)
            done.append("body")
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["body"]


def test_without_interrupts_nothing_is_raised() -> None:
    with HeldInterrupts():
        pass


def test_an_interrupt_that_is_handled_is_not_raised_again() -> None:
    with HeldInterrupts(KeyboardInterrupt()):
        press(3)


def test_an_error_that_is_handled_does_not_hide_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), HeldInterrupts(ValueError()):
        press()


def test_an_interrupt_follows_an_error_of_the_block() -> None:
    def work() -> None:
        with HeldInterrupts():
            press()
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert type(caught.value.__context__) is ValueError


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_the_handler_of_a_program_is_called_once_after_the_block(
    heard: list[int], error: BaseException | None
) -> None:
    mine = signal.getsignal(signal.SIGINT)
    with HeldInterrupts(error):
        press(6)
        assert heard == []
    assert heard == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine


def test_the_outermost_block_delivers() -> None:
    done = []

    def work() -> None:
        with HeldInterrupts():
            with HeldInterrupts():
                press()
            press()
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["outer"]


def test_the_last_of_overlapping_blocks_delivers() -> None:
    first, second = HeldInterrupts(), HeldInterrupts()
    first.__enter__()
    second.__enter__()
    first.__exit__()
    press()
    with pytest.raises(KeyboardInterrupt):
        second.__exit__()


def test_a_handler_that_the_program_installs_in_a_block_stays(heard: list[int]) -> None:
    mine = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with HeldInterrupts():
        signal.signal(signal.SIGINT, mine)
        press()
    assert heard == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine


def test_a_program_that_ignores_interrupts_still_does() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with HeldInterrupts():
        press()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_other_threads_hold_nothing_back() -> None:
    found: list[Any] = []

    def work() -> None:
        with HeldInterrupts():
            found.append(signal.getsignal(signal.SIGINT))

    in_thread(work)
    assert found == [signal.default_int_handler]


def test_a_block_that_takes_too_long_holds_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_interrupts, "_LONGEST", 0.0)
    done = []

    def work() -> None:
        with HeldInterrupts():
            press()
            done.append("body")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_a_block_after_one_that_could_not_end_restores_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(held_interrupts, "_LONGEST", 0.0)
        HeldInterrupts().__enter__()  # an interrupt stopped its end
    with pytest.raises(KeyboardInterrupt), HeldInterrupts():
        press()


def test_a_block_that_ends_in_another_thread_leaves_the_handler_of_the_program(heard: list[int]) -> None:
    """A coroutine can be deleted there."""
    block = HeldInterrupts()
    block.__enter__()
    in_thread(block.__exit__)
    press()
    assert heard == [signal.SIGINT]
    with HeldInterrupts():
        pass
    press()
    assert heard == [signal.SIGINT] * 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupts_while_a_block_begins_are_held_back(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    install, left, done = signal.signal, [None, None, None], []

    def interrupted(number: int, handler: Any) -> Any:
        if left and when == "before":
            left.pop()
            press()
        before = install(number, handler)
        if left and when == "after":
            left.pop()
            press()
        return before

    with monkeypatch.context() as patched:
        patched.setattr(signal, "signal", interrupted)
        with pytest.raises(KeyboardInterrupt), HeldInterrupts():
            done.append("body")
    assert done == ["body"]


def test_asyncio_run_cancels_its_task_after_the_block() -> None:
    done = []

    async def main() -> None:
        with HeldInterrupts():
            press()
            await asyncio.sleep(0)
            done.append("body")
        await asyncio.sleep(0)
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert done == ["body"]


def test_the_handler_of_asyncio_run_does_not_outlive_it() -> None:
    """A task that ends after the main one."""

    async def main() -> None:
        async def other() -> None:
            with HeldInterrupts():
                await asyncio.sleep(3600)

        tasks.append(asyncio.ensure_future(other()))
        await asyncio.sleep(0)

    tasks: list[Any] = []
    asyncio.run(main())
    assert tasks[0].cancelled()


def test_a_thread_starts_before_an_interrupt_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    wait = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        press()
        return wait(event, timeout)

    thread = threading.Thread(target=started.set)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start_thread(thread)
    thread.join()
    assert started.is_set()


def test_the_handler_of_a_program_may_be_any_callable(heard: list[int]) -> None:
    signal.signal(signal.SIGINT, partial(lambda text, number, frame: heard.append(number), "text"))
    with HeldInterrupts():
        press()
    assert heard == [signal.SIGINT]
