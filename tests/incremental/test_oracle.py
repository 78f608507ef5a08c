"""The dependency graph and the oracle behave the same under any operations.

Hypothesis generates schemas and operations, and minimizes failures. After every operation everything observable is
compared: the individual calls, values, freshness, materialized nodes; and I1, I2, I3.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from clew import DependencyGraph, schema
from clew.errors import InvalidNodeError, SchemaOverlapError
from tests.incremental.oracle_pair import VALUES, Pair, an_operation
from tests.incremental.oracle_worlds import CONSTANTS, Choose, Form, Variable, a_world, overlap


class Drawn:
    """Choices that Hypothesis makes, and makes smaller: the first of each list is the simplest."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def __call__(self, offered: Any) -> Any:
        return self.data.draw(st.sampled_from(list(offered)))


class Machine(RuleBasedStateMachine):
    """Any operations in any order, on a database file that is closed and opened again."""

    persistent = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.pair: Pair | None = None

    def teardown(self) -> None:
        if self.pair is not None:
            self.pair.close()
        shutil.rmtree(self.folder)

    @initialize(data=st.data())
    def build(self, data: st.DataObject) -> None:
        choose: Choose[Any] = Drawn(data)
        self.pair = Pair(a_world(choose), self.folder / "graph.db" if self.persistent else None)
        for name in self.pair.model.world.sources:
            if choose([True, True, True, False]):
                self.pair.do(("set", (name, ()), choose(VALUES)))

    def _do(self, data: st.DataObject, kind: str) -> None:
        assert self.pair is not None
        self.pair.do(an_operation(Drawn(data), self.pair.model.world, (kind,)))

    @rule(data=st.data())
    def pull(self, data: st.DataObject) -> None:
        self._do(data, "pull")

    @rule(data=st.data())
    def pull_again(self, data: st.DataObject) -> None:
        self._do(data, "pull")

    @rule(data=st.data())
    def set_source(self, data: st.DataObject) -> None:
        self._do(data, "set source")

    @rule(data=st.data())
    def set_anything(self, data: st.DataObject) -> None:
        self._do(data, "set")

    @rule(data=st.data())
    def invalidate(self, data: st.DataObject) -> None:
        self._do(data, "invalidate")

    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        self._do(data, "batch")

    @rule(data=st.data())
    def change_a_mode(self, data: st.DataObject) -> None:
        self._do(data, "mode")

    @precondition(lambda self: self.persistent)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self._do(data, "restart")

    @invariant()
    def everything_is_as_the_oracle_says(self) -> None:
        if self.pair is not None:
            self.pair.check()


class MachineInMemory(Machine):
    persistent = False


SETTINGS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
TestOnFile = Machine.TestCase
TestOnFile.settings = SETTINGS
TestInMemory = MachineInMemory.TestCase
TestInMemory.settings = SETTINGS


# -- which node has which schema ------------------------------------------------------------------------------

arguments = st.lists(
    st.sampled_from([Variable("x"), Variable("y"), Variable("z"), *CONSTANTS]), min_size=1, max_size=3
)


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(arguments, arguments)
def test_schemas_overlap_exactly_where_some_node_is_an_instance_of_both(
    first: list[Any], second: list[Any]
) -> None:
    if len(first) != len(second):
        return
    forms = Form("f", tuple(first)), Form("f", tuple(second))
    schemas = [schema(form.text(), computor=lambda inputs, old, bindings: 1) for form in forms]
    if overlap(*forms):
        with pytest.raises(SchemaOverlapError):
            DependencyGraph(schemas)
    else:
        DependencyGraph(schemas).close()


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(arguments)
def test_a_node_has_a_schema_exactly_where_it_is_an_instance(args: list[Any]) -> None:
    form = Form("f", tuple(args))
    seen: list[dict[str, Any]] = []
    compute = lambda inputs, old, bindings: seen.append(bindings)
    with DependencyGraph([schema(form.text(), computor=compute)]) as graph:
        every = Form("f", tuple(Variable(f"v{index}") for index in range(len(args)))).instances()
        for node in every:
            seen.clear()
            bindings = form.match(node)
            if bindings is None:
                with pytest.raises(InvalidNodeError):
                    graph.pull(node[0], *node[1])
            else:
                graph.pull(node[0], *node[1])
                assert seen == [bindings]
                assert [*map(type, seen[0].values())] == [*map(type, bindings.values())]
