"""State identity: which observations are the same state."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import DefinitionError, EncodeError
from clew.explore import Observation, State, World
from tests.explore.models import Box


def world(value: Any, **options: Any) -> World:
    return World(systems={"box": Box(value)}, **options)


def identity(value: Any, **options: Any) -> bytes:
    return world(value, **options).observe().digest


def test_the_printed_id_is_the_first_16_digits_of_the_full_digest() -> None:
    state = world({"a": 1}).observe()
    assert re.fullmatch("[0-9a-f]{16}", state.id)
    assert len(state.digest) == 32
    assert state.digest.hex().startswith(state.id)


def test_ids_are_the_same_in_every_process_and_version() -> None:
    """Golden values: a journal matches its states only if these do not change."""
    assert world({"b": [1, "x"], "a": None}).observe().id == "86b2a9e7acc52076"
    assert World(context={"user": "ann"}).observe().id == "69835894ebc2b5cc"


@pytest.mark.parametrize(
    "one, other",
    [
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), str(datetime(2026, 1, 2, 3, 4, tzinfo=UTC))),
        (1, 1.0),
        (1, True),
        (1, "1"),
        (Decimal("1.0"), 1.0),
        ([1], (1,)),
        (None, "null"),
        ({"a": 1}, [["a", 1]]),
        ({1: "x"}, {"1": "x"}),
        (b"x", "x"),
    ],
)
def test_values_that_look_alike_are_different_states(one: Any, other: Any) -> None:
    assert identity(one) != identity(other)
    assert identity({"deep": [one]}) != identity({"deep": [other]})


def test_the_order_of_a_dict_does_not_count() -> None:
    assert identity({"a": 1, "b": 2}) == identity({"b": 2, "a": 1})


def test_metadata_is_not_part_of_the_state() -> None:
    one = World(systems={"box": Box(1, {"took": 0.1})}).observe()
    other = World(systems={"box": Box(1, {"took": object()})}).observe()
    assert one.id == other.id
    assert one.observations["box"].metadata == {"took": 0.1}


def test_a_difference_of_the_context_alone_is_a_different_state() -> None:
    assert identity(1, context={"user": "ann"}) != identity(1, context={"user": "bob"})
    assert identity(1, context={"user": "ann"}) != identity(1)


def test_excluded_context_values_do_not_distinguish_states() -> None:
    def excluding(context: dict[str, Any]) -> bytes:
        return identity(1, context=context, exclude_from_identity=["request_id"])

    assert excluding({"request_id": 1, "user": "ann"}) == excluding({"request_id": 2, "user": "ann"})
    assert excluding({"request_id": 1, "user": "ann"}) != excluding({"request_id": 1, "user": "bob"})


def test_the_whole_context_and_a_system_can_be_excluded() -> None:
    def excluding(value: Any, context: dict[str, Any]) -> bytes:
        systems = {"box": Box(value), "log": Box(value)}
        return (
            World(systems=systems, context=context, exclude_from_identity=["context", "log"]).observe().digest
        )

    assert excluding(1, {"a": 1}) == excluding(1, {"a": 2})
    assert excluding(1, {}) != excluding(2, {})
    one, other = Box(1), Box(2)
    assert (
        World(systems={"box": Box(0), "log": one}, exclude_from_identity=["log"]).observe()
        == World(systems={"box": Box(0), "log": other}, exclude_from_identity=["log"]).observe()
    )


def test_excluded_values_are_observed() -> None:
    state = world(1, context={"user": "ann"}, exclude_from_identity=["user"]).observe()
    assert state.context == {"user": "ann"}


def test_names_of_systems_count_but_not_their_order() -> None:
    def two(**values: Any) -> bytes:
        return World(systems={name: Box(value) for name, value in values.items()}).observe().digest

    assert two(a=1, b=2) == two(b=2, a=1)
    assert two(a=1, b=2) != two(a=2, b=1)
    assert two(a=1, b=2) != two(a=1, c=2)


@given(
    st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, unique_by=lambda pair: pair[0]), st.data()
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_different_worlds_have_different_digests(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    """Each part is hashed after its length, so data of one system cannot look like the name of the next."""
    other = data.draw(
        st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, unique_by=lambda p: p[0])
    )
    one = World(systems={name: Box(value) for name, value in pairs}).observe()
    two = World(systems={name: Box(value) for name, value in other}).observe()
    assert (one == two) is (dict(pairs) == dict(other))


def test_a_state_does_not_change_when_the_system_does() -> None:
    box = Box({"rows": [1]})
    world = World(systems={"box": box})
    state = world.observe()
    box.value["rows"].append(2)
    assert state["box"] == {"rows": [1]}
    assert state.observations["box"].data == {"rows": [1]}
    state["box"]["rows"].append(9)
    assert state["box"] == {"rows": [1]}


def test_the_registered_name_replaces_the_systems_own() -> None:
    class Named(Box):
        def observe(self) -> Observation:
            return Observation("its own name", self.value)

    state = World(systems={"db": Named(1)}).observe()
    assert state.observations["db"].system == "db"
    with pytest.raises(KeyError):
        state["its own name"]


def test_a_digest_replaces_the_data_of_a_system() -> None:
    class Digesting(Box):
        def observe(self) -> Observation:
            return Observation("", self.value, digest=b"same" if self.value < 10 else b"other")

    def of(value: int) -> State:
        return World(systems={"box": Digesting(value)}).observe()

    assert of(1) == of(2) != of(11)
    assert of(2)["box"] == 2
    assert of(1) != World(systems={"box": Box(b"same")}).observe()


def test_data_without_encoding_is_rejected_with_its_path() -> None:
    with pytest.raises(EncodeError, match=r"box\.rows\[0\]"):
        world({"rows": [object()]}).observe()


def test_observe_must_return_an_observation() -> None:
    class Invalid(Box):
        def observe(self) -> Any:
            return {"data": 1}

    with pytest.raises(DefinitionError, match=r"'box'.* Observation, got dict"):
        World(systems={"box": Invalid()}).observe()


def test_symmetric_states_are_one() -> None:
    def seats(value: list[str]) -> bytes:
        return identity(value, canonicalize=lambda state: sorted(state["box"]))

    assert seats(["ann", "bob"]) == seats(["bob", "ann"])
    assert seats(["ann", "bob"]) != seats(["ann", "ann"])


def test_a_representative_may_be_a_state() -> None:
    def seats(value: list[str], user: str = "ann") -> bytes:
        canonicalize = lambda state: state.with_data("box", sorted(state["box"]))
        return identity(value, canonicalize=canonicalize, context={"user": user})

    assert seats(["ann", "bob"]) == seats(["bob", "ann"])
    assert seats(["ann", "bob"]) != seats(["bob", "ann"], user="bob")


def test_a_representative_without_encoding_is_rejected() -> None:
    with pytest.raises(EncodeError, match="canonicalize"):
        identity(1, canonicalize=lambda state: object())


def test_excluded_values_do_not_count_in_a_representative() -> None:
    def seats(value: list[str], clock: int, user: str) -> bytes:
        world = World(
            systems={"box": Box(value), "clock": Box(clock)},
            context={"user": user, "city": "Ulm"},
            exclude_from_identity=["clock", "user"],
            canonicalize=lambda state: state.with_data("box", sorted(state["box"])),
        )
        return world.observe().digest

    assert seats(["ann", "bob"], 1, "ann") == seats(["bob", "ann"], 2, "bob")


def test_a_digest_replaces_the_data_of_a_representative() -> None:
    """A large system may show only part of its data."""

    class Large(Box):
        def observe(self) -> Observation:
            return Observation("", {"rows": 3}, digest=self.value)

    def of(digest: bytes) -> bytes:
        world = World(systems={"box": Box(1), "large": Large(digest)}, canonicalize=lambda state: state)
        return world.observe().digest

    assert of(b"one") != of(b"two")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"systems": [Box()]}, "systems .* got a list"),
        ({"context": [1]}, "context .* got a list"),
        ({"canonicalize": 3}, "canonicalize .* got 3"),
        ({"exclude_from_identity": 3}, "exclude_from_identity .* got 3"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        World(**options)


def test_a_digest_is_bytes() -> None:
    class Invalid(Box):
        def observe(self) -> Observation:
            return Observation("", 1, digest="abc")

    with pytest.raises(DefinitionError, match=r"'box': the digest .* got str"):
        World(systems={"box": Invalid()}).observe()


def test_the_large_data_of_a_state_is_stored_as_it_is() -> None:
    from clew.explore.model.states import SystemState, pack, unpack
    from clew.state import encode

    content = bytes(range(256)) * 1024
    parts = (SystemState("disk", encode({"file": content}), {}), SystemState("small", encode([1]), {}))
    stored = pack(parts)
    assert content in stored
    assert len(stored) < len(content) + 1000
    assert unpack(stored) == parts
