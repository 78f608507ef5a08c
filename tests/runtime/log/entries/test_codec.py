"""Records to entries and back: nothing of a run is lost on disk, and damage is named."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew import Engine, Graph, GraphState, Overwrite, Send, SQLiteStore, node
from clew.engine.history.chain import step_digest
from clew.engine.records import FinishedItem, Outcome, Question, Retry, SingleItemStep, Start, Step
from clew.engine.updates.deltas import Delta
from clew.errors import DecodeError, EncodeError, RecordCorruptError, StoreCorruptError
from clew.runtime.log.entries.call_records import CallIntent, RecordedCall
from clew.runtime.log.entries.codec import EntryDecoder, EntryEncoder, digest_of_start, digest_of_step
from clew.runtime.log.entries.records import AnswerRecord, LabelRecord, ResumeRecord
from clew.runtime.log.run_log import start_state
from clew.state import LARGE
from clew.stores import LogEntry

OUTCOME = Outcome("act", 2, 1, {"x": [1, (2,), {3}]}, None, 1, 12.5, 0.25, True)
CALL = RecordedCall(
    "act#0", 1, 3, "llm", (("hi",), {"k": 1}), {"text": "ho"}, None, 12.5, 0.25, True, (0,), 2, 7
)


def there_and_back(record: Any, prefix: str = "") -> Any:
    writer = EntryEncoder({"": "00" * 32, prefix: "00" * 32}, epoch=0.0)
    entry = writer.entry(record)
    return EntryDecoder("r", writer.blobs.__getitem__).record(entry)


@pytest.mark.parametrize(
    "record",
    [
        Step("", 3, (OUTCOME, msgspec.structs.replace(OUTCOME, index=2))),
        Step("sub#0/", 3, (OUTCOME,), (2,)),
        Step("", 1, (Outcome("gate", 0, -1, {}, ("a", "END", Send("b", {"n": 1}))),)),
        Step("", 1, (Outcome("gate", 0, -1, {}, ()),)),
        Step("", 1, (Outcome("gate", 0, -1, {}, ("a",)),)),
        Step("", 1, (Outcome("gate", 0, -1, {}, (Send("b", {}),)),)),
        Step("", 1, (Outcome("gate", 0, -1, {}, ("a",), 1),)),
        Step("", 1, (Outcome("gate", 0, -1, {}, ("a",)), Outcome("gate", 1, -1, {}, ("END",)))),
        FinishedItem("", Outcome("gate", 0, -1, {}, ("a",)), (), 0),
        Step("", 1, (Outcome("n", 0, -1, {"log": Overwrite([1])}),)),
        Step("", 1, (Outcome("n", 0, -1, {"z": 1, "a": 2}),)),
        FinishedItem("sub#0[1]/", OUTCOME, (3,), 4),
        Start("sub#0/", {"a": 1}, frozenset({"a"}), (1,)),
        Question("act#0", "act", {"ask": "what"}, 3, 1),
        AnswerRecord("act#0", [True], 1),
        LabelRecord("first turn", 3),
        ResumeRecord(2),
        CALL,
        CallIntent("act#0", 1, 3, "llm", (0, 2), 7),
        CallIntent("act#0", 1, 3, "llm", (0, 2), 7, True, (4, 5)),
        msgspec.structs.replace(CALL, within=(4, 5)),
    ],
    ids=lambda record: f"{type(record).__name__} {str(record)[-30:]}",
)
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    assert there_and_back(record, getattr(record, "prefix", "")) == record


def test_a_step_of_one_item_is_written_without_frills_and_read_with_them_too() -> None:
    writer = EntryEncoder({"": "00" * 32}, epoch=0.0)
    entry = writer.entry(SingleItemStep(1, "act", 2, {"x": 1}, ("a",), 12.5, 0.25))
    assert entry.body == b'["act",2,{"x":1},12500000,250000,"a"]'
    before = LogEntry("step", "", 1, b'[["act",2,{"x":1},12500000,250000,{"d":["a"]}]]', entry.digest)
    reader = EntryDecoder("r", writer.blobs.__getitem__)
    assert reader.record(before) == reader.record(entry)


def test_a_step_in_short_comes_back_at_length() -> None:
    single = SingleItemStep(3, "act", 2, {"x": 1}, None, 12.5, 0.25)
    assert there_and_back(single) == single.step()


def test_a_retry_comes_back_without_its_item() -> None:
    retry = Retry(object(), "sub#0/act#0", 2, 0.5, ValueError("no"), 99.5, (1,))
    found = there_and_back(retry)
    assert (found.path, found.attempt, found.delay, found.due, found.epoch) == (
        "sub#0/act#0",
        2,
        0.5,
        99.5,
        (1,),
    )
    assert (found.item, repr(found.error)) == (None, "ValueError('no')")


def test_an_error_comes_back_with_its_outcome() -> None:
    step = Step("", 1, (Outcome("act", 0, -1, {}, error=KeyError("x")),))
    assert repr(there_and_back(step).outcomes[0].error) == "KeyError('x')"


def test_an_error_comes_back_with_its_call() -> None:
    call = msgspec.structs.replace(CALL, response=None, error=TimeoutError("slow"))
    assert repr(there_and_back(call).error) == "TimeoutError('slow')"


@pytest.mark.parametrize(
    "value", [Decimal("1.50"), datetime(2024, 5, 6, tzinfo=UTC), b"\x00", {1: "a"}, 2.0, 2]
)
def test_types_come_back(value: Any) -> None:
    found = there_and_back(Step("", 1, (Outcome("n", 0, -1, {"x": value}),))).outcomes[0].update["x"]
    assert (type(found), found) == (type(value), value)


def test_values_keep_their_order() -> None:
    step = Step("", 1, (Outcome("n", 0, -1, {"z": 1, "big": "x" * (LARGE + 1), "a": {"q": 1, "b": 2}}),))
    update = there_and_back(step).outcomes[0].update
    assert (list(update), list(update["a"])) == (["z", "big", "a"], ["q", "b"])


def test_a_large_value_is_kept_apart_by_its_digest() -> None:
    writer = EntryEncoder({"": "00" * 32}, epoch=0.0)
    entry = writer.entry(Step("", 1, (Outcome("n", 0, -1, {"small": 1, "big": "x" * (LARGE + 1)}),)))
    ((digest, content),) = writer.blobs.items()
    assert (digest, len(entry.body) < 1000) == (sha256(content).hexdigest(), True)


def test_a_large_value_comes_back() -> None:
    step = Step("", 1, (Outcome("n", 0, -1, {"big": ["x" * 10] * LARGE}),))
    assert there_and_back(step) == step


def test_the_digest_of_a_step_is_that_of_the_chain() -> None:
    one, two = Step("", 1, (OUTCOME,)), Step("", 2, (OUTCOME,))
    whole, later = EntryEncoder({"": "00" * 32}, epoch=0.0), EntryEncoder({"": "00" * 32}, epoch=0.0)
    first = whole.entry(one)
    again = EntryEncoder({"": first.digest.hex()}, epoch=0.0)
    assert whole.entry(two).digest == again.entry(two).digest != later.entry(two).digest


@pytest.mark.parametrize(
    "step",
    [
        Step("", 1, (Outcome("n", 0, -1, {"x": 1}),)),
        Step("", 1, (Outcome("n", 3, -1, {"x": 1.5, "a": {"z": 1, "b": {2: "x", 1: "y"}}}),)),
        Step(
            "",
            1,
            (Outcome("n", 0, 4, {"x": {"b": 1, "a": 2}}, ("one", Send("two", {"q": {"z": 1, "a": 2}}))),),
        ),
        Step("", 1, (Outcome("n", 0, -1, {}, ("one",)), Outcome("m", 0, -1, {"é": 'a ":{"$dict" b'}))),
        Step("", 1, (Outcome("n", 0, -1, {"x": b"x" * 70_000, "y": ["y" * 70_000, {"k": b"z" * 70_000}]}),)),
        Step("", 1, (Outcome("n", 0, -1, {"x": ["long"] * 20_000}, ()),)),
        Step("", 1, (Outcome("n", 0, -1, {}, (Send("m", {"p": "x" * 200_000}),), error=ValueError("no")),)),
        Step("", 1, (Outcome("n", 0, -1, {"$dict": {1: 2}}),)),
        Step("", 1, (Outcome("n", 0, -1, {"log": ["a"]}),), (), {"log": Delta("list", 2, refs=(0,))}),
        Step(
            "", 1, (Outcome("n", 0, -1, {"log": 1}),), (), {"log": Delta("whole", value={"b": {2: 1, 1: 2}})}
        ),
    ],
    ids=lambda step: str(step.outcomes[0].update)[:20],
)
def test_the_digest_follows_from_stored_bytes_alone(step: Step) -> None:
    """In memory, when it is written, and when it is checked, which decodes nothing: the digest is the same."""
    entry = EntryEncoder({"": "00" * 32}, epoch=0.0).entry(step)
    assert entry.digest.hex() == step_digest("00" * 32, step)
    assert digest_of_step(bytes(32), entry.body) == entry.digest
    for wrong in (b"", b"[]", b"[1]", b'{"o":1}', entry.body[:-1]):
        try:
            assert digest_of_step(bytes(32), wrong) != entry.digest
        except DecodeError:
            pass


def test_the_digest_of_a_start_follows_from_stored_bytes_alone() -> None:
    for values in ({}, {"z": 1, "a": {"q": 1, "b": 2}}, {"x": b"x" * 70_000}, {"$dict": 1}):
        start = Start("sub#0/", values, frozenset(values))
        entry = EntryEncoder({}, epoch=0.0).entry(start)
        assert digest_of_start(entry.body).hex() == start_state(start, 1).digest == GraphState(values).digest


def test_attempts_of_a_subgraph_have_names_of_their_own() -> None:
    writer = EntryEncoder({"sub#0/": "00" * 32}, epoch=0.0)
    names = [writer.entry(FinishedItem("sub#0/", OUTCOME, (attempt,))).name for attempt in (0, 1)]
    assert names == [("journal", "sub#0/act#2[1]", 0), ("journal", "sub#0/act#2[1]@1", 0)]


def test_what_cannot_be_stored_is_said_of_its_node() -> None:
    writer = EntryEncoder({"sub#0/": "00" * 32}, epoch=0.0)
    with pytest.raises(
        EncodeError, match=r"^node 'act' at sub#0/act#0 returned a value that cannot be stored: x\[1\]: "
    ):
        writer.entry(Step("sub#0/", 1, (Outcome("act", 0, -1, {"x": [1, object()]}),)))


def spoiled(record: Any, change: Any) -> LogEntry:
    entry = EntryEncoder({"": "00" * 32}, epoch=0.0).entry(record)
    return msgspec.structs.replace(entry, body=change(entry.body))


@pytest.mark.parametrize(
    "record, where",
    [
        (LabelRecord("first turn", 3), "label first turn"),
        (AnswerRecord("act#0", True), "answer act#0"),
        (FinishedItem("", OUTCOME), "journal act#2[1]"),
    ],
)
def test_damage_is_named(record: Any, where: str) -> None:
    entry = spoiled(record, lambda body: body + b" ")
    with pytest.raises(StoreCorruptError) as caught:
        EntryDecoder("r", {}.__getitem__).record(entry)
    assert str(caught.value).startswith(f"run 'r': {where} is damaged (digest mismatch)")


def test_a_step_that_cannot_be_read_is_named() -> None:
    with pytest.raises(StoreCorruptError, match=r"^run 'r': step 3 is damaged"):
        EntryDecoder("r", {}.__getitem__).record(spoiled(Step("", 3, (OUTCOME,)), lambda body: body[:-1]))


def test_a_damaged_call_is_named_by_node_path_and_call() -> None:
    entry = spoiled(CALL, lambda body: body.replace(b"ho", b"hu"))
    with pytest.raises(
        RecordCorruptError, match=r"^run 'r': node 'act' at act#0, call 3 \('llm'\) is damaged"
    ):
        EntryDecoder("r", {}.__getitem__).record(entry)


def test_a_call_of_which_nothing_can_be_read_is_named_by_its_place() -> None:
    entry = spoiled(CALL, lambda body: body[:-1])
    with pytest.raises(RecordCorruptError, match=r"^run 'r': node 'act' at act#0, recording 7 is damaged"):
        EntryDecoder("r", {}.__getitem__).record(entry)


# -- what cannot be encoded ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_value_without_an_encoding_takes_no_other_one_with_it(tmp_path: Path, durability: str) -> None:
    """A large value that was written just before is kept, with its content."""
    fails = True

    @node(output="large")
    async def large(x: int) -> str:
        return "v" * 200_000

    @node(output="odd")
    async def odd(x: int) -> Any:
        return object() if fails else 1

    @node(output="late")
    async def late(x: int) -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return 1

    @node(output="end")
    def end(large: str, odd: int, late: int) -> int:
        return len(large)

    engine = Engine(
        Graph([large, odd, late, end]), store=SQLiteStore(tmp_path / "runs.db"), durability=durability
    )
    assert isinstance(engine.run({"x": 1}, run_id="r", check=False).error, EncodeError)
    fails = False
    assert engine.resume("r")["end"] == 200_000
    assert list(engine.store.check()) == []


def test_what_a_refused_record_had_apart_is_not_kept() -> None:
    writer = EntryEncoder({"": "00" * 32}, 0.0)
    writer.entry(Step("", 1, (Outcome("n", 0, -1, {"a": "v" * 200_000}),)))
    before = dict(writer.blobs)
    with pytest.raises(EncodeError):
        writer.entry(Step("", 2, (Outcome("n", 1, -1, {"a": "w" * 200_000, "b": object()}),)))
    assert writer.blobs == before
    assert len(before) == 1
