"""Checkpoints: all of a state survives, and nothing else gets in."""

from __future__ import annotations

import gc
import io
import pickle
import pickletools
import struct
import sys
import tracemalloc
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import CheckpointError, EncodeError
from clew.state import assemble, checkpoint, position_of, registry
from clew.state.graph_state import GraphState
from clew.state.position import NodeExecution, Position
from clew.state.registry import register_type
from clew.state.values.encoding import MAX_DEPTH

HEADER = struct.Struct(">8sH32sQ")


def full_state() -> GraphState:
    """A state in which everything that a checkpoint keeps is there."""
    record = NodeExecution("plan", {"query": 0}, 2, 1700000000.5, 12.25, True, {"plan": 2, "notes": 1}, 3)
    return assemble(
        values={"query": "hé", "plan": {"b": (1, 2), "a": {3}}, "\ud800": b"x"},
        versions={"query": 0, "plan": 2, "\ud800": 1},
        decisions={"decide": "plan", "fan": ("a", "END")},
        terminated=True,
        position=Position(
            step=4,
            seed=2**200,
            given=frozenset({"query"}),
            digest="0f" * 32,
            visits={"plan": 2},
            wakes={"plan": 5, "scan": 1},
            selections={"plan": (("decide", False), ("fan", True))},
            sends={"scan": (("fan", {"q": (1,), "r": 2**70}, False), ("fan", {}, True))},
            failed=frozenset({"broken"}),
            touched=frozenset({"plan"}),
        ),
        history={"plan": record},
    )


def sealed(payload: bytes, *, format: int = checkpoint.FORMAT, length: int | None = None) -> bytes:
    """A payload under a header that fits it: what an attacker can make as well as anybody."""
    length = len(payload) if length is None else length
    return HEADER.pack(checkpoint.MAGIC, format, sha256(payload).digest(), length) + payload


def plain(tree: Any) -> bytes:
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=3)
    pickler.fast = True
    pickler.dump(tree)
    return out.getvalue()


def tree_of(state: GraphState) -> Any:
    return pickle.loads(state.to_checkpoint()[HEADER.size :])


class TestRoundTrip:
    def test_everything_survives(self):
        state = full_state()
        restored = GraphState.from_checkpoint(state.to_checkpoint())
        assert restored == state
        assert position_of(restored) == position_of(state)
        assert restored.gate_decisions == {"decide": "plan", "fan": ("a", "END")}
        assert restored.node_history["plan"] == state.node_history["plan"]
        assert restored.terminated is True
        assert restored.digest == state.digest
        assert restored.to_checkpoint() == state.to_checkpoint()

    def test_the_order_of_names_and_of_dicts_survives(self):
        state = GraphState({"b": {"z": 1, "y": 2}, "a": 1}).set("c", {2: 0, 1: 0})
        restored = GraphState.from_checkpoint(state.to_checkpoint())
        assert repr(dict(restored.values)) == repr(dict(state.values))

    def test_a_fresh_state(self):
        assert GraphState.from_checkpoint(GraphState().to_checkpoint()) == GraphState()

    def test_any_bytes_like_object_is_read(self):
        data = full_state().to_checkpoint()
        for form in (bytearray(data), memoryview(data)):
            assert GraphState.from_checkpoint(form) == full_state()

    def test_a_subclass_comes_back_as_itself(self):
        class Mine(GraphState):
            pass

        assert type(Mine.from_checkpoint(full_state().to_checkpoint())) is Mine

    def test_bytes_do_not_depend_on_shared_objects(self):
        one = ["x", 1]
        assert GraphState({"a": [one, one]}).to_checkpoint() == (
            GraphState({"a": [["x", 1], ["x", 1]]}).to_checkpoint()
        )

    def test_large_and_deep_values(self):
        deep: Any = 0
        for _ in range(MAX_DEPTH):
            deep = (deep,)
        state = GraphState({"deep": deep, "long": list(range(5000)), "text": "x" * 100_000})
        assert GraphState.from_checkpoint(state.to_checkpoint()) == state

    def test_a_restored_state_goes_on_as_the_unbroken_one(self):
        state = full_state()
        restored = GraphState.from_checkpoint(state.to_checkpoint())
        for name, value in {"query": 1, "new": 2}.items():
            state, restored = state.set(name, value), restored.set(name, value)
        assert restored == state
        assert restored.digest == state.digest

    def test_a_value_that_cannot_be_stored_is_refused_with_its_path(self):
        with pytest.raises(EncodeError, match=r"^state\.docs\[1\]: an object cannot be stored"):
            GraphState({"docs": [1, object()]}).to_checkpoint()
        waiting = Position(sends={"scan": (("fan", {"q": object()}, False),)})
        state = assemble(values={}, versions={}, decisions={}, terminated=False, position=waiting, history={})
        with pytest.raises(EncodeError, match=r"^state.*sends.*q.*: an object cannot be stored"):
            state.to_checkpoint()

    def test_a_caller_that_is_nested_deep_itself(self):
        deep: Any = 0
        for _ in range(MAX_DEPTH):
            deep = (deep,)
        state = GraphState({"deep": deep})
        limit, errors = sys.getrecursionlimit(), []
        depth = len(_frames())
        gc.disable()  # a finalizer of another test has no room here
        try:
            for room in range(30, 400, 10):
                sys.setrecursionlimit(depth + room)
                try:
                    state.to_checkpoint()
                except (EncodeError, RecursionError) as error:
                    errors.append(error)
                finally:
                    sys.setrecursionlimit(limit)
        finally:
            gc.enable()
        assert errors
        assert {type(error) for error in errors if "pickl" in str(error)} <= {EncodeError}


def _frames() -> list[Any]:
    frames, frame = [], sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


class TestDamage:
    DATA = full_state().to_checkpoint()

    @given(st.integers(0, len(DATA) * 8 - 1))
    def test_any_flipped_bit(self, bit):
        damaged = bytearray(self.DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CheckpointError):
            GraphState.from_checkpoint(bytes(damaged))

    @pytest.mark.parametrize("byte", range(HEADER.size))
    def test_every_flipped_bit_of_the_header(self, byte):
        for bit in range(8):
            self.test_any_flipped_bit.hypothesis.inner_test(self, byte * 8 + bit)

    def test_any_cut(self):
        for length in range(len(self.DATA)):
            with pytest.raises(CheckpointError, match=r"cut off|not a checkpoint"):
                GraphState.from_checkpoint(self.DATA[:length])

    @given(st.binary(min_size=1, max_size=20))
    def test_anything_that_follows(self, more):
        with pytest.raises(CheckpointError, match="bytes follow its end"):
            GraphState.from_checkpoint(self.DATA + more)

    @given(st.binary(max_size=200))
    def test_any_other_bytes(self, data):
        with pytest.raises(CheckpointError):
            GraphState.from_checkpoint(data)

    @given(st.binary(max_size=200))
    def test_any_other_bytes_under_a_fitting_header(self, payload):
        with pytest.raises(CheckpointError):
            GraphState.from_checkpoint(sealed(payload))

    @pytest.mark.parametrize(
        "data, message",
        [
            (b"", "not a checkpoint"),
            (b"\x80\x03}.", "not a checkpoint"),
            (DATA[:20], "the checkpoint is cut off: 20 bytes are less than its header"),
            (DATA[:-1], "the checkpoint is cut off: "),
            (DATA[:-1] + b"\0", "digest mismatch"),
            (DATA + b"!", "1 bytes follow its end"),
            (
                sealed(plain({}), format=checkpoint.FORMAT + 1),
                "has format 4, and this version of clew reads format 3; upgrade clew",
            ),
            (
                sealed(plain({}), format=1),
                "has format 1",
            ),
            ("text", "got str"),
            (None, "got NoneType"),
        ],
        ids=lambda case: case[:40] if isinstance(case, str) else "",
    )
    def test_the_message_says_which(self, data, message):
        with pytest.raises(CheckpointError) as caught:
            GraphState.from_checkpoint(data)
        assert message in str(caught.value)


RAN: list[str] = []


def trap(*arguments: Any) -> None:
    RAN.append("code of the payload")


class Calls:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def memo_bomb() -> bytes:
    # A list that is remembered and put into itself twice, again and again: 2**40 items for 200 bytes.
    return b"\x80\x03]q\x00" + b"".join(b"]q%c(h%ch%ce" % (i, i - 1, i - 1) for i in range(1, 41)) + b"."


GIGABYTE = 10**9
HOSTILE = {
    "os.system": pickle.dumps(Calls(__import__("os").system, "true"), protocol=3),
    "builtins.eval": pickle.dumps(Calls(eval, "1"), protocol=3),
    "a function here": b"\x80\x03c" + f"{__name__}\ntrap\n".encode() + b")R.",
    "stack global": pickle.dumps(Calls(eval, "1"), protocol=4),
    "nested in a tree": plain({"values": [Calls(eval, "1")]}),
    "a call of what a call gave": plain([{"a": [Calls(getattr, Calls(__import__, "os"), "system")]}]),
    "protocol 0": pickle.dumps(Calls(eval, "1"), protocol=0),
    "instance": b"(i__builtin__\neval\n.",
    "object": b"(c__builtin__\neval\no.",
    "new object": b"\x80\x02cbuiltins\nlist\n)\x81.",
    "build": b"\x80\x02}}b.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"Pabc\n.",
    "binary persistent id": b"\x80\x02K\x01Q.",
    "bytearray of 1 GB": b"\x80\x05\x96" + struct.pack("<Q", GIGABYTE) + b".",
    "bytes of 1 GB": b"\x80\x04\x8e" + struct.pack("<Q", GIGABYTE) + b".",
    "text of 1 GB": b"\x80\x03X" + struct.pack("<I", GIGABYTE) + b".",
    "text of 2**63": b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b".",
    "integer of 1 GB": b"\x80\x02\x8b" + struct.pack("<i", GIGABYTE) + b".",
    "frame of 1 GB": b"\x80\x04\x95" + struct.pack("<Q", GIGABYTE) + b"}.",
    "memo at 2**31": b"\x80\x02}r\xff\xff\xff\x7f.",
    "memo bomb": memo_bomb(),
    "dup bomb": b"\x80\x02]" + b"2" * 1000 + b"a" * 1000 + b".",
    "out of band buffer": b"\x80\x05\x97.",
    "integer as text": b"I" + b"9" * 10_000 + b"\n.",
    "tuple": b"\x80\x02).",
    "set": b"\x80\x04\x8f.",
    "bytes": b"\x80\x03C\x01a.",
    "second pickle behind the first": plain({}) + plain({}),
    "no end": plain({})[:-1],
    "nothing": b"",
    "empty stack": b"\x80\x03.",
    "append to a dict": b"\x80\x03}K\x01a.",
    "item of a number": b"\x80\x03K\x01K\x01K\x01s.",
    "a list as key": b"\x80\x03}]K\x01s.",
    "a newer protocol": b"\x80\xff}.",
    "surrogates that are not": b"\x80\x03X\x01\x00\x00\x00\xff.",
    "deep nesting": b"\x80\x03" + b"]" * 200_000 + b"a" * 199_999 + b".",
    "deep nesting of dicts": b"\x80\x03" + b"}X\x01\x00\x00\x00a" * 100_000 + b"N" + b"s" * 100_000 + b".",
}


def test_a_bomb_inside_a_value_is_refused_before_it_is_unpacked():
    """The tree has the right shape, and remembers one list for ever: only looking at the opcodes tells."""
    bomb: list[Any] = []
    for _ in range(12):
        bomb = [bomb, bomb]
    tree = tree_of(GraphState({"v": 1}))
    tree["values"] = [["v", bomb, 0]]
    with pytest.raises(CheckpointError, match="BINPUT"):
        GraphState.from_checkpoint(sealed(pickle.dumps(tree, protocol=3)))


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE.keys())
class TestMalice:
    def test_it_is_refused_and_no_code_runs(self, payload):
        with pytest.raises(CheckpointError):
            GraphState.from_checkpoint(sealed(payload))
        assert RAN == []

    def test_memory_stays_within_a_multiple_of_the_data(self, payload):
        data = sealed(payload)
        with pytest.raises(CheckpointError):
            GraphState.from_checkpoint(data)  # what is imported on the way does not count
        tracemalloc.start()
        try:
            with pytest.raises(CheckpointError):
                GraphState.from_checkpoint(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000 + 200 * len(data)


class TestMaliceOfTheHeader:
    @pytest.mark.parametrize("length", [GIGABYTE, 2**63, 2**64 - 1])
    def test_a_length_that_is_not_there(self, length):
        with pytest.raises(CheckpointError, match="cut off"):
            GraphState.from_checkpoint(sealed(b"x", length=length))

    def test_the_unpickler_finds_no_class_even_if_an_opcode_slips_through(self):
        unpickler = checkpoint._Unpickler(io.BytesIO(HOSTILE["builtins.eval"]))
        with pytest.raises(CheckpointError, match=r"refers to builtins\.eval"):
            unpickler.load()

    def test_every_admitted_opcode_is_needed(self):
        state = GraphState({"a": [1, 300, 70000, 2**40, 1.5, None, True, False], "b": {"c": 1}, "d": ["x"]})
        used = {opcode.name for opcode, _, _ in pickletools.genops(state.to_checkpoint()[HEADER.size :])}
        assert used == checkpoint._ACCEPTED


class TestShape:
    """A plain tree under a fitting header that is not the tree of a state."""

    @pytest.mark.parametrize("tree", [None, 1, "a", [], {}, [{}], {"values": []}], ids=repr)
    def test_another_tree(self, tree):
        with pytest.raises(CheckpointError, match="cannot be restored"):
            GraphState.from_checkpoint(sealed(plain(tree)))

    @pytest.mark.parametrize(
        "path, value",
        [
            (["values"], {}),
            (["values"], [["a", 1]]),
            (["values"], [["a", 1, "0"]]),
            (["values"], [["a", 1, -1]]),
            (["values"], [["a", 1, True]]),
            (["values"], [[1, 1, 1]]),
            (["values"], [["plan", 1, 0], ["plan", 1, 0]]),
            (["values"], [["plan", {"$object": ["os:system", "true"]}, 0]]),
            (["values"], [["plan", {"$nothing": 1}, 0]]),
            (["rest", "decisions"], {"g": 1}),
            (["rest", "decisions"], {"g": [1]}),
            (["rest", "decisions"], {1: "a"}),
            (["rest", "terminated"], 1),
            (["rest", "history"], [{}]),
            (["rest", "history"], {}),
            (["rest", "position"], None),
            (["rest", "position", "step"], "1"),
            (["rest", "position", "step"], -1),
            (["rest", "position", "seed"], "x"),
            (["rest", "position", "seed"], True),
            (["rest", "position", "seed"], {"$tuple": []}),
            (["rest", "position", "given"], [1]),
            (["rest", "position", "digest"], "xyz"),
            (["rest", "position", "visits"], {"a": -1}),
            (["rest", "position", "wakes"], {"a": "b"}),
            (["rest", "position", "selections"], {"a": [["g"]]}),
            (["rest", "position", "sends"], {"a": [["g", [], True]]}),
            (["rest", "position", "sends"], {"a": [["g", {"x": {"$later": 1}}, True]]}),
            (["rest", "position", "failed"], "a"),
            (["rest", "position", "touched"], ["nothing"]),
            (["rest"], []),
            (["rest", "extra"], 1),
            (["rest", "history"], [["plan", {}, 1, 0.0, 0.0, False, {}]]),
            (["rest", "history"], [["plan", {}, 1, 0.0, 0.0, False, {"plan": "1"}, 0]]),
            (["extra"], 1),
            (["rest", "position", "extra"], 1),
        ],
        ids=repr,
    )
    def test_one_part_is_wrong(self, path, value):
        tree = part = tree_of(full_state())
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        with pytest.raises(CheckpointError, match="the checkpoint cannot be restored: "):
            GraphState.from_checkpoint(sealed(plain(tree)))

    def test_the_tree_as_it_was_is_accepted(self):
        assert GraphState.from_checkpoint(sealed(plain(tree_of(full_state())))) == full_state()


class TestClasses:
    def test_they_come_back_through_the_registry_alone(self, monkeypatch):
        @dataclass
        class Doc:
            title: str

        register_type(Doc, name="checkpoint-doc")
        state = GraphState({"doc": [Doc("a")]})
        data = state.to_checkpoint()
        assert GraphState.from_checkpoint(data) == state

        monkeypatch.delitem(registry._by_name, "checkpoint-doc")
        monkeypatch.delitem(registry._by_class, Doc)
        with pytest.raises(CheckpointError, match=r"'checkpoint-doc' is not registered.*clew\.register_type"):
            GraphState.from_checkpoint(data)


@pytest.mark.parametrize("more", [b"\x00", b".", b"cos\nsystem\n.", plain({"values": []})])
def test_nothing_may_follow_the_end_of_the_payload(more: bytes) -> None:
    """Under a header that fits: the pickle ends before the payload does."""
    payload = full_state().to_checkpoint()[HEADER.size :]
    assert GraphState.from_checkpoint(sealed(payload)) == full_state()
    with pytest.raises(CheckpointError, match="not written by clew: bytes follow its end"):
        GraphState.from_checkpoint(sealed(payload + more))


@pytest.mark.parametrize("decision", ["x", ("x", "y"), None])
def test_a_decision_by_hand_survives(decision: Any) -> None:
    state = GraphState({"a": 1}).record_gate_decision("g", decision)
    restored = GraphState.from_checkpoint(state.to_checkpoint())
    assert restored == state
    assert position_of(restored).decided == {"g"}
