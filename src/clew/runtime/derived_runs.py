"""Open a run that starts from another one: a fork continues from one of its states, a rerun reuses its results.

The values that the caller passes replace the values of the state; no reducer is called. For a field with a reducer, the
caller may have wanted to add to the old value. So Clew warns if a new value drops a part of the old one. `Overwrite`
declares that the value is to be replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from clew.graph import Graph
from clew.graph_warnings import warn
from clew.runtime.children.inner_graphs import check_child_graph
from clew.runtime.drivers.session import Session
from clew.runtime.log.checks.fingerprints import unchanged_fields
from clew.runtime.log.checks.run_checks import check_mapping, check_nodes
from clew.runtime.log.checks.schema_changes import without_unknown
from clew.runtime.log.registration import NewRun
from clew.runtime.log.snapshots import is_turn
from clew.runtime.opener import RunOpener
from clew.state import GraphState, Overwrite, equal, position_of
from clew.state.valid_values import ValidValues


class DerivedRunOpener(RunOpener):
    """Opens runs that start from other runs."""

    def forked(
        self,
        parent: str,
        step: int | str | None,
        values: Mapping[str, Any] | None,
        new: NewRun,
    ) -> Session:
        """Start a run from a step of another one, with changed values."""
        state, run = self.at(parent, step)
        check_child_graph(self.store, run.accepted, self.graph)
        check_nodes(state, self.graph, parent)
        state = self._known(state.rooted(), parent)
        values = replacements(self.graph, "fork", parent, state, values)
        state = self.with_values(state, values, f"fork of {parent!r}")
        rule = self._on_conflict(run.on_conflict)
        return self._from_state(state, new, parent, rule, distance=run.distance)

    def rerun(
        self, parent: str, values: Mapping[str, Any] | None, new: NewRun, force: Sequence[str]
    ) -> Session:
        """Start a run with the input values of another one and changes to them; reuse results that are still valid."""
        from clew.runtime.calls.reuse import ResultReuse, warn_of_edits

        run = self.runs.open(parent)
        check_child_graph(self.store, run.accepted, self.graph)
        log = run.whole()  # its states may have been made with other reducers
        # raises before the new run is created
        reuse = ResultReuse(log, run.program(log.start), self.graph, force)
        warn_of_edits(log)
        rule = self._on_conflict(log.on_conflict)
        start = self._known(log.start, parent)
        values = replacements(self.graph, "rerun", parent, start, values)
        if start.step or log.row.parent is not None:  # the parent started from a state, and so does this run
            state = self.with_values(start, values, f"rerun of {parent!r}")
            # the input of a turn is not a change of values
            origin = None if is_turn(log.row.start) else log.row.parent
            session = self._from_state(state, new, origin, rule)
        else:
            given = {name: start.get(name) for name in position_of(start).given}
            valid = unchanged_fields(log.row, self.graph) - (values or {}).keys()
            given = ValidValues({**given, **(values or {})}, valid)
            session = self.begin(given, new, on_conflict=rule)
        session.reuse_results(reuse)
        return session

    def _known(self, state: GraphState, parent: str) -> GraphState:
        """Return a state without the values that the graph no longer has; warn about them."""
        known = without_unknown(self.graph, state)
        if known is not state:
            lost = ", ".join(repr(name) for name in state.values if not known.has(name))
            warn(f"run {parent!r} has values that this graph no longer has; the new run drops {lost}")
        return known


def replacements(
    graph: Graph, what: str, parent: str, state: GraphState, values: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the values without `Overwrite`; warn if a reduced value of the state would be lost.

    `what` is the verb, and `state` is where the new run starts.
    """
    if values is None:
        return None
    check_mapping(values)
    fields = {} if graph.schema is None else graph.schema.fields
    for name, value in values.items():
        is_reduced = name in fields and fields[name].reducer is not None and state.has(name)
        if is_reduced and not isinstance(value, Overwrite) and not _extends(value, state.get(name)):
            old = f"engine.state({parent!r}, {state.step}).get({name!r})"
            warn(
                f"{what} of {parent!r}: {name!r} has a reducer, but values= replaces it and does not add to it; to "
                f"add, give the old value and the new one, combined (the old one is {old}); to replace it without "
                f"this warning, give Overwrite(...)"
            )
    return {name: value.value if isinstance(value, Overwrite) else value for name, value in values.items()}


def _extends(value: Any, old: Any) -> bool:
    """Return whether a value has everything that the old one has."""
    try:
        if isinstance(old, (list, tuple)):
            return equal(list(value)[: len(old)], list(old))
        if isinstance(old, Mapping):
            return all(key in value and equal(value[key], item) for key, item in old.items())
        return bool(value >= old) if isinstance(old, Set) else equal(value, old)
    except Exception:  # the new value may be of another kind
        return False
