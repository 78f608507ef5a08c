"""GraphState as its specification says, example by example, and the precisions of the design."""

from __future__ import annotations

import copy
import enum
import os
import pickle
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import StateError, UnknownValueError
from clew.state import assemble, position_of
from clew.state.graph_state import GraphState
from clew.state.position import NodeExecution, Position
from clew.state.values.codec import digest, encode


class TestImmutability:
    def test_modifications_return_new_instances(self):
        state = GraphState({"x": 1})
        state2 = state.set("y", 2)
        state3 = state2.set("x", 10)

        assert state.values == {"x": 1}
        assert state2.values == {"x": 1, "y": 2}
        assert state3.values == {"x": 10, "y": 2}

    def test_a_return_value_ignored_changes_nothing(self):
        state = GraphState({"x": 1})
        state.set("y", 2)
        assert state.values == {"x": 1}

    def test_every_operation_leaves_the_original_alone(self):
        state = GraphState({"x": 1})
        before = copy.deepcopy(state)
        state.set("x", 2)
        state.set_multiple({"x": 3, "y": 4})
        state.record_execution("n", {"x": 0}, 1, 2.0)
        state.record_gate_decision("g", "END")
        state.mark_terminated()
        assert state == before

    def test_later_changes_of_what_was_passed_in_change_nothing(self):
        initial, inputs, outputs = {"x": 1}, {"x": 0}, {"y": 1}
        state = GraphState(initial).record_execution("n", inputs, 1, 2.0, output_versions=outputs)
        initial["x"] = inputs["x"] = outputs["y"] = 99
        assert state.get("x") == 1
        assert state.node_history["n"].input_versions == {"x": 0}
        assert state.node_history["n"].output_versions == {"y": 1}

    @pytest.mark.parametrize("name", ["values", "versions", "node_history", "gate_decisions", "visits"])
    def test_views_are_read_only(self, name):
        state = GraphState({"x": 1}).record_execution("x", {}, 1, 0.0).record_gate_decision("x", "a")
        with pytest.raises(TypeError):
            getattr(state, name)["x"] = 2
        with pytest.raises(AttributeError):
            setattr(state, name, {})

    def test_a_write_shares_what_did_not_change(self):
        big = object()
        state = GraphState({"big": big, "x": 1}).set("x", 2)
        assert state.get("big") is big

    def test_a_write_to_many_values_costs_what_a_write_to_few_costs(self):
        def cost(size: int) -> float:
            state = GraphState({f"n{i}": i for i in range(size)}).set("n1", 0)
            times = []
            for _ in range(5):
                start = time.perf_counter()
                for _ in range(200):
                    state.set("n1", 1)
                times.append(time.perf_counter() - start)
            return min(times)

        assert cost(20_000) < 10 * cost(10)  # copying would be a thousand times as much


class TestValues:
    def test_nothing_given(self):
        assert GraphState().values == {}
        assert GraphState(None).versions == {}
        assert GraphState({}) == GraphState()

    def test_get_and_has(self):
        state = GraphState({"query": "hello"}).set("docs", [1])
        assert state.get("query") == "hello"
        assert state.get("docs") == [1]
        assert state.has("docs")
        assert not state.has("missing")
        assert not GraphState({"query": "hello"}).has("docs")

    @pytest.mark.parametrize("state", [GraphState({"query": 1}), GraphState().set("query", 1)])
    @pytest.mark.parametrize(
        "read",
        [GraphState.get, GraphState.get_version, lambda s, n: s.values[n], lambda s, n: s.versions[n]],
    )
    def test_a_missing_name_is_a_key_error_that_suggests_the_nearest(self, state, read):
        with pytest.raises(KeyError) as caught:
            read(state, "qeury")
        assert isinstance(caught.value, UnknownValueError)
        assert str(caught.value) == "the state has no value 'qeury'; did you mean 'query'?"

    def test_a_missing_name_with_nothing_near(self):
        with pytest.raises(KeyError, match=r"^the state has no value 'x'$"):
            GraphState({"query": 1}).get("x")

    def test_set_multiple(self):
        state = GraphState({"a": 1, "b": 2})
        new = state.set_multiple({"b": 20, "c": 30})
        assert new.values == {"a": 1, "b": 20, "c": 30}
        assert new.versions == {"a": 0, "b": 1, "c": 1}
        assert state.set_multiple({}) == state

    def test_names_are_text(self):
        with pytest.raises(StateError, match="expected a string, got 1"):
            GraphState({1: 2})
        with pytest.raises(StateError, match="expected a string, got None"):
            GraphState().set(None, 2)
        with pytest.raises(StateError, match="expected a string, got 3"):
            GraphState().set_multiple({3: 2})

    def test_names_that_are_members_of_an_enum_become_plain_text(self):
        class Name(enum.StrEnum):
            QUERY = "query"

        state = GraphState({Name.QUERY: 1}).set(Name.QUERY, 2)
        assert [type(name) for name in state.values] == [str]
        assert GraphState.from_checkpoint(state.to_checkpoint()) == state


class TestViews:
    def test_they_are_mappings_that_equal_dicts_both_ways(self):
        state = GraphState({"a": 1}).set("b", 2)
        assert state.values == {"a": 1, "b": 2}
        plain = {"a": 1, "b": 2}
        assert plain == state.values
        assert state.values == GraphState({"a": 1, "b": 2}).values
        assert state.values != {"a": 1}
        assert state.values != 3
        assert dict(state.values) == {**state.values} == {"a": 1, "b": 2}
        assert len(state.values) == 2
        assert list(state.versions.items()) == [("a", 0), ("b", 1)]
        assert repr(state.values) == "View({'a': 1, 'b': 2})"

    def test_get_and_in(self):
        values = GraphState({"a": 1}).values
        assert values.get("a") == 1
        assert values.get("b") is None
        assert values.get("b", 5) == 5
        assert "a" in values
        assert "b" not in values
        assert ["a"] not in values

    def test_a_view_is_not_hashable_like_a_dict(self):
        with pytest.raises(TypeError):
            hash(GraphState().values)

    def test_order_is_that_of_first_appearance_under_any_hash_seed(self):
        code = (
            "from clew.state.graph_state import GraphState\n"
            "s = GraphState({n: 0 for n in 'qwertz'})\n"
            "for n in 'yxcvbnmasdfq': s = s.set(n, 1)\n"
            "s = s.set_multiple({n: 1 for n in 'plkq'})\n"
            "print(''.join(s.values), ''.join(s.versions))"
        )
        printed = {_run(code, seed) for seed in ("0", "1", "2", "77")}
        assert printed == {"qwertzyxcvbnmasdfplk qwertzyxcvbnmasdfplk\n"}


class TestVersions:
    def test_initial_values_get_version_0_and_each_update_increments(self):
        state = GraphState({"query": "hello", "messages": []})
        assert state.get_version("query") == 0
        assert state.get_version("messages") == 0

        state2 = state.set("messages", [{"role": "user", "content": "hi"}])
        assert state2.get_version("messages") == 1

        state3 = state2.set("messages", state2.get("messages") + [{"role": "assistant", "content": "hello"}])
        assert state3.get_version("messages") == 2

    def test_the_first_write_of_a_new_name_makes_version_1(self):
        assert GraphState().set("docs", []).get_version("docs") == 1

    def test_a_version_counts_writes_not_differences(self):
        assert GraphState({"x": 1}).set("x", 1).set("x", 1).get_version("x") == 2

    @given(
        st.dictionaries(st.sampled_from("abcdef"), st.integers()),
        st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(), max_size=3)),
    )
    def test_laws_of_writing(self, initial, updates):
        state = GraphState(initial)
        values, versions = dict(initial), dict.fromkeys(initial, 0)
        for update in updates:
            before = state
            if len(update) == 1:
                ((name, value),) = update.items()
                state = state.set(name, value)
                assert state == before.set_multiple(update)
            else:
                state = state.set_multiple(update)
            assert before.values == values
            values.update(update)
            versions.update({name: versions.get(name, 0) + 1 for name in update})
            assert state.values == values
            assert state.versions == versions
            assert list(state.values) == list(values)
        assert position_of(state).touched == {name for update in updates for name in update}
        assert position_of(state).given == set(initial)


class TestStaleness:
    def test_the_usage_example(self):
        state = GraphState({"query": "What is RAG?", "messages": []})

        state = state.set("docs", ["doc1", "doc2"])
        state = state.record_execution(
            node_name="retrieve",
            input_versions={"query": 0, "messages": 0},
            output_version=1,
            duration_ms=150.0,
        )
        assert state.is_stale("retrieve", ["query", "messages"]) is False

        state = state.set("messages", [{"role": "assistant", "content": "RAG is..."}])
        assert state.is_stale("retrieve", ["query", "messages"]) is True

        checkpoint = state.to_checkpoint()
        restored = GraphState.from_checkpoint(checkpoint)
        assert restored == state
        assert restored.is_stale("retrieve", ["query", "messages"]) is True

    def test_a_node_that_never_ran_is_stale(self):
        assert GraphState({"x": 1}).is_stale("n", ["x"])
        assert GraphState().is_stale("n", [])

    def test_own_outputs_do_not_count(self):
        state = GraphState({"messages": []})
        state = state.set("messages", [1])
        known = state.record_execution("add", {"messages": 0}, 1, 1.0, output_versions={"messages": 1})
        assert not known.is_stale("add", ["messages"])

        unknown = state.record_execution("add", {"messages": 0}, 1, 1.0)
        assert unknown.is_stale("add", ["messages"])
        assert not unknown.is_stale("add", ["messages"], own_outputs=("messages",))

    def test_versions_are_compared_for_inequality_since_a_fork_may_go_back(self):
        state = GraphState({"x": 1}).record_execution("n", {"x": 5}, 1, 1.0)
        assert state.is_stale("n", ["x"])

    def test_an_input_that_is_not_there_counts_as_never_seen(self):
        state = GraphState().record_execution("n", {}, 1, 1.0)
        assert not state.is_stale("n", ["x"])
        assert state.set("x", 1).is_stale("n", ["x"])

    def test_get_input_versions(self):
        state = GraphState({"a": 1, "b": 2}).set("b", 3)
        assert state.get_input_versions(["b", "a"]) == {"b": 1, "a": 0}
        assert state.get_input_versions(["a", "missing"]) == {"a": 0}


class TestHistory:
    def test_record_execution(self):
        before = time.time()
        state = GraphState({"q": 1}).record_execution("retrieve", {"q": 0}, 1, 150, cached=True)
        record = state.node_history["retrieve"]
        assert state.executed_nodes == frozenset({"retrieve"})
        assert (record.node_name, record.input_versions, record.output_version) == ("retrieve", {"q": 0}, 1)
        assert (record.duration_ms, record.cached) == (150.0, True)
        assert before <= record.timestamp <= time.time()
        assert (record.output_versions, record.step) == ({}, 0)

    def test_cached_is_false_unless_said(self):
        assert GraphState().record_execution("n", {}, 1, 1.0).node_history["n"].cached is False

    def test_the_latest_execution_of_a_node_is_kept(self):
        state = GraphState().record_execution("n", {}, 1, 1.0).record_execution("n", {}, 2, 1.0)
        assert state.node_history["n"].output_version == 2
        assert state.visits == {"n": 2}

    def test_a_timestamp_may_be_given(self):
        state = GraphState().record_execution("n", {}, 1, 1.0, timestamp=12)
        assert state.node_history["n"].timestamp == 12.0

    def test_the_step_is_that_of_the_state(self):
        state = _assembled(position=Position(step=7)).record_execution("n", {}, 1, 1.0)
        assert state.node_history["n"].step == 7

    def test_a_record_is_frozen_and_has_the_fields_of_the_specification_first(self):
        record = NodeExecution("n", {"q": 0}, 1, 12.0, 3.0, False)
        with pytest.raises(AttributeError):
            record.cached = True
        assert record == NodeExecution("n", {"q": 0}, 1, 12.0, 3.0, False, {}, 0)


class TestDecisions:
    def test_record_gate_decision(self):
        state = GraphState().record_gate_decision("decide", "search")
        assert state.gate_decisions == {"decide": "search"}
        assert not state.terminated
        assert state.record_gate_decision("decide", "write").gate_decisions == {"decide": "write"}

    @pytest.mark.parametrize("several", [("a", "b"), ["a", "b"]])
    def test_a_gate_may_choose_several(self, several):
        state = GraphState().record_gate_decision("fan", several)
        assert state.gate_decisions == {"fan": ("a", "b")}
        assert not state.terminated

    @pytest.mark.parametrize("nothing", [None, (), []])
    def test_choosing_nothing_drops_the_last_decision(self, nothing):
        state = GraphState().record_gate_decision("g", "END").record_gate_decision("g", nothing)
        assert state.gate_decisions == {}
        assert state.terminated

    def test_choosing_end_terminates(self):
        class End:
            def __str__(self) -> str:
                return "END"

        assert GraphState().record_gate_decision("g", "END").terminated
        assert GraphState().record_gate_decision("g", ("a", "END")).terminated
        assert GraphState().record_gate_decision("g", End()).gate_decisions == {"g": "END"}
        assert GraphState().record_gate_decision("g", "END").record_gate_decision("g", "a").terminated

    def test_a_target_is_text(self):
        with pytest.raises(StateError, match="expected a string, got 3"):
            GraphState().record_gate_decision("g", 3)

    def test_mark_terminated(self):
        assert GraphState().terminated is False
        assert GraphState().mark_terminated().terminated is True


class TestPosition:
    def test_a_fresh_state_knows_what_was_given(self):
        state = GraphState({"a": 1})
        assert position_of(state) == Position(given=frozenset({"a"}))
        assert (state.step, state.seed, state.visits) == (0, None, {})

    def test_values_written_by_hand_are_touched(self):
        state = GraphState({"a": 1}).set("a", 2).set_multiple({"b": 3, "a": 4})
        assert position_of(state).touched == {"a", "b"}
        assert position_of(state).given == {"a"}
        assert position_of(state) is position_of(state)

    def test_touching_adds_to_what_an_engine_left(self):
        state = _assembled(values={"a": 1, "b": 2}, position=Position(step=3, touched=frozenset({"a"})))
        assert position_of(state.set("b", 1)).touched == {"a", "b"}
        assert position_of(state.set("a", 1)).touched == {"a"}
        assert state.set("b", 1).step == 3


class TestAssembling:
    def test_parts_come_back_as_given(self):
        record = NodeExecution("n", {}, 1, 2.0, 3.0, False)
        position = Position(step=4, seed=5, digest="ab" * 32, visits={"n": 2}, failed=frozenset({"m"}))
        state = assemble(
            values={"b": 1, "a": 2},
            versions={"b": 3, "a": 0},
            decisions={"g": ("x", "y")},
            terminated=True,
            position=position,
            history={"n": record},
        )
        assert list(state.values.items()) == [("b", 1), ("a", 2)]
        assert state.versions == {"b": 3, "a": 0}
        assert state.gate_decisions == {"g": ("x", "y")}
        assert (state.terminated, position_of(state), state.node_history) == (True, position, {"n": record})
        assert (state.step, state.seed, state.visits) == (4, 5, {"n": 2})
        assert state.set("c", 0).set("b", 0).versions == {"b": 4, "a": 0, "c": 1}
        assert list(state.set("c", 0).values) == ["b", "a", "c"]

    def test_history_is_evaluated_once_and_only_when_somebody_looks(self):
        calls = []

        def history() -> dict[str, NodeExecution]:
            calls.append(1)
            return {"n": NodeExecution("n", {}, 1, 2.0, 3.0, False)}

        state = _assembled(values={"a": 1}, history=history)
        later = state.set("a", 2)
        assert state.get("a") == 1
        assert not calls
        assert state.executed_nodes == {"n"}
        assert state.node_history["n"].output_version == 1
        assert len(calls) == 1
        assert later.executed_nodes == {"n"}


class TestDigest:
    def test_before_a_run_it_is_over_values_and_versions(self):
        state = GraphState({"b": 1, "a": (2,)}).set("b", 3)
        expected = digest(b"clew:S0", encode({"a": (2,), "b": 3}), encode({"a": 0, "b": 1}))
        assert state.digest == expected

    def test_in_a_run_it_is_the_runs(self):
        assert _assembled(values={"a": 1}, position=Position(digest="ab" * 32)).digest == "ab" * 32

    def test_values_written_by_hand_are_joined_to_it(self):
        state = _assembled(values={"a": 1, "b": 1}, position=Position(digest="ab" * 32)).set("a", 5)
        expected = digest(b"clew:set", bytes.fromhex("ab" * 32), encode({"a": 5}), encode({"a": 1}))
        assert state.digest == expected

    def test_decisions_recorded_by_hand_are_joined_to_it(self):
        state = _assembled(values={"a": 1}, position=Position(digest="ab" * 32)).record_gate_decision(
            "g", "x"
        )
        nothing = encode({})
        expected = digest(b"clew:set", bytes.fromhex("ab" * 32), nothing, nothing, encode({"g": "x"}))
        assert state.digest == expected

    def test_it_tells_decisions_apart_before_a_run(self):
        state = GraphState({"a": 1})
        chosen = {state.record_gate_decision("g", target).digest for target in ("x", "y", ("x", "y"))}
        assert len({state.digest, *chosen}) == 4

    def test_decisions_of_the_run_itself_are_in_its_own(self):
        position = Position(digest="ab" * 32)
        state = _assembled(values={"a": 1}, decisions={"g": "x"}, position=position)
        assert state.digest == "ab" * 32

    def test_it_does_not_depend_on_the_order_of_names(self):
        assert GraphState({"a": 1, "b": 2}).digest == GraphState({"b": 2, "a": 1}).digest

    def test_it_tells_writes_apart_from_values(self):
        assert GraphState({"a": 1}).digest != GraphState({"a": 1}).set("a", 1).digest


class TestPythonProtocols:
    def test_states_are_equal_by_content(self):
        def made() -> GraphState:
            state = GraphState({"a": 1}).set("b", [2])
            return state.record_execution("n", {"a": 0}, 1, 2.0, timestamp=3.0).record_gate_decision("g", "x")

        assert made() == made()
        assert made() == made().set_multiple({})
        assert made() != made().set("a", 1)
        assert made() != made().mark_terminated()
        assert made() != made().record_gate_decision("g", "y")
        assert made() != made().record_execution("n", {"a": 0}, 1, 2.0, timestamp=4.0)
        assert made() != 3

    def test_a_state_is_not_hashable(self):
        with pytest.raises(TypeError):
            hash(GraphState())

    def test_copies_and_pickles_are_equal(self):
        state = GraphState({"a": [1]}).set("b", 2).record_execution("n", {"a": 0}, 1, 2.0)
        assert copy.copy(state) == state
        assert copy.deepcopy(state) == state
        assert copy.deepcopy(state).get("a") is not state.get("a")
        assert pickle.loads(pickle.dumps(state)) == state

    def test_repr_shows_values_and_versions(self):
        state = GraphState({"query": "hello"}).set("docs", [])
        assert repr(state) == "<GraphState step 0: query='hello' v0, docs=[] v1>"
        assert repr(GraphState().mark_terminated()) == "<GraphState step 0, terminated: no values>"

    def test_repr_of_a_large_state_is_short(self):
        text = repr(GraphState({f"n{i}": "x" * 10_000 for i in range(1000)}))
        assert text.endswith("and 988 more>")
        assert len(text) < 1500


def _assembled(**parts: object) -> GraphState:
    values = parts.get("values", {})
    assert isinstance(values, dict)
    whole = {
        "values": values,
        "versions": dict.fromkeys(values, 0),
        "decisions": {},
        "terminated": False,
        "position": Position(),
        "history": {},
    }
    return assemble(**(whole | parts))


def _run(code: str, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "value",
    [float("nan"), [1.0, float("nan")], {"x": (float("nan"), 2)}, [[float("nan")], "a"]],
    ids=["scalar", "list", "dict", "nested"],
)
def test_a_restored_state_with_nan_is_equal(value: object) -> None:
    state = GraphState({"x": value})
    again = GraphState.from_checkpoint(state.to_checkpoint())
    assert again == state
    assert state.set("x", [1.0, 2.0]) != state
    assert GraphState({"x": [1.0, 2]}) == GraphState({"x": [1, 2.0]})  # as in Python
