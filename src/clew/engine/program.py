"""The scheduling rules, compiled for one graph and one set of given names.

*A node runs when it has a reason to, and everything upstream of it has settled.*

A node is **woken** for these reasons. Each is a bit in its *wake*, set when the reason arises and cleared when the node
runs:

1. it never ran, and no forward gate or control link points to it (set at the start);
2. a gate selected it (`CHOSEN`), or sent to it (payloads are stored separately, since each Send is an item);
3. a node with a control link to it ran;
4. it has run, no forward gate targets it, and another node wrote one of its inputs. A value that it also writes counts
   only when written by a node that a forward gate targets. Where a gate targets it by a back link, writes along back
   links count only from nodes behind that gate. A write from outside (a fork) always counts.

A join (``after=all_of(...)``) has one more bit for each of its sources. It is due only when all of these are set.

`WOKEN` stands for 1, 3 and 4, together with the kind of link: `FORWARD`, or the number of the loop that a back link
closes. For 2 the wake identifies the gate (`Mark`), because the next decision of a gate withdraws its last one
(``clew.engine.decisions``). A node is **due** when it is woken and its inputs exist.

A due node runs in the next step unless it **waits** for due nodes upstream (`Topology.up`). A node that is woken only
along back links *starts a turn* of the outermost of those loops. It waits for everything else that is due on that loop,
and nothing on the loop waits for it, except nodes that start a turn themselves: of the same loop further down (the
upper one goes first), or of an outer loop (inner loops go first). An eager node never waits.

A step first clears the wakes of the nodes that run in it, then sets the bits that result from it. So a write in the
step in which a node ran wakes that node again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from clew.errors import InputError
from clew.graph import Graph, Node
from clew.graph.analysis.interface import required_fields
from clew.graph.analysis.topology import Topology, seeds_that_count, writers_of
from clew.graph.analysis.validation import has_topology, topology_of
from clew.graph.names import nearest, similar
from clew.state.valid_values import valid_names

T = TypeVar("T")

WOKEN = 1
CHOSEN = 2
FORWARD = 4
_FIRST_LOOP = 3

Wakes = tuple[tuple[int, int], ...]
"""(node, bits) pairs: the woken nodes, and the bits to set."""


class Mark(NamedTuple):
    """The bits in the wake of a target for the decisions of one gate. The gate does not withdraw *final* ones."""

    target: int
    selected: int
    sent: int
    selected_final: int
    sent_final: int

    @property
    def withdrawable(self) -> int:
        """Return the bits that the next decision of the gate clears."""
        return self.selected | self.sent

    @property
    def all(self) -> int:
        """Return the bits of all decisions of the gate."""
        return self.withdrawable | self.selected_final | self.sent_final


class Program:
    """A graph prepared for execution: what each step needs, by node number."""

    __slots__ = (
        "bound",
        "calls",
        "choices",
        "control_wakes",
        "data_readers",
        "descendants",
        "fast_path",
        "first",
        "first_wakes",
        "given",
        "graph",
        "has_gates",
        "has_rescues",
        "held_nodes",
        "index",
        "inner",
        "join_bits",
        "joins",
        "marks",
        "names",
        "needers",
        "needs",
        "nodes",
        "outside_wakes",
        "plain_outputs",
        "readers_of",
        "reducers",
        "schema",
        "selections",
        "sendable",
        "sync_functions",
        "topology",
        "turn_marks",
        "unmarked",
        "weak",
        "withdrawable",
        "written",
    )

    def __init__(self, graph: Graph, topology: Topology) -> None:
        self.graph = graph
        self.given = topology.given
        self.topology = topology
        self.names = topology.names
        self.index = topology.index
        self.nodes: tuple[Node, ...] = tuple(graph.nodes.values())
        self.sync_functions = frozenset(id(node.func) for node in self.nodes if node.mode == "sync")
        self.bound: Mapping[str, Any] = graph.bound
        self.schema = graph.schema
        self.written = frozenset(value for node in self.nodes for value in node.outputs)
        self.reducers, self.weak = _rules_of_schema(graph)
        self.needs = [
            tuple(value for value in node.required if value not in graph.bound) for node in self.nodes
        ]
        self.needers = _grouped((value, i) for i, values in enumerate(self.needs) for value in values)
        is_checked = graph.schema is not None and graph.schema.validates
        # the output of nodes whose return value needs neither validation nor comparison
        self.plain_outputs = [None if is_checked else _plain_output(node) for node in self.nodes]
        # the names that a Send to a node may contain; None for any
        self.sendable = [
            None if node.reads_state or node.subgraph is not None else frozenset(node.inputs)
            for node in self.nodes
        ]
        # a mask of the nodes whose results count only once they are committed
        self.held_nodes = sum(1 << i for i, node in enumerate(self.nodes) if node.is_called_again)
        self._compile_wakes()
        self.first: Any = None  # (names, missing, due) of S(0), once computed
        self.fast_path: Any = None  # see clew.engine.fast_path
        self.has_rescues = any(node.rescue is not None for node in self.nodes)
        self.calls: Any = None  # how a driver calls each node, set by the driver
        self.inner: dict[tuple[str, ...], Graph] = {}  # subgraphs with the values bound outside
        self.descendants: dict[int, frozenset[int]] = {}
        self.readers_of: dict[str, int] = {}

    def _compile_wakes(self) -> None:
        topology = self.topology
        forward = topology.pairs.keys() - topology.back.keys()
        gated = [any((gate, i) in forward for gate in gates) for i, gates in enumerate(topology.gates_of)]
        waits = [any((source, i) in forward for source in of) for i, of in enumerate(topology.controls_of)]
        self._compile_joins()
        self._compile_marks(self._compile_links(gated))
        self.first_wakes = [
            0 if is_gated or has_to_wait else WOKEN | FORWARD
            for is_gated, has_to_wait in zip(gated, waits, strict=True)
        ]
        self.outside_wakes = _grouped(
            (value, i) for i, node in enumerate(self.nodes) if not gated[i] for value in node.inputs
        )

    def _compile_links(self, gated: Sequence[bool]) -> Sequence[Mapping[str, int]]:
        """Compile which nodes a value or a run of a node wakes. Return what each gate wakes by its decision."""
        topology, n = self.topology, len(self.nodes)
        back = topology.back
        # the nodes behind the gates that select a node for another turn; all without such a gate
        behind = [_behind(i, topology) for i in range(n)]
        readers: list[list[tuple[str, tuple[int, int]]]] = [[] for _ in range(n)]
        control: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        decided: list[dict[str, int]] = [{} for _ in range(n)]  # gate -> target -> FORWARD, or a loop
        for link in topology.links:
            s, t = topology.index[link.source], topology.index[link.target]
            loop = back.get((s, t))
            bits = FORWARD if loop is None else 1 << (_FIRST_LOOP + loop)
            if link.kind == "control":
                control[s].append((t, WOKEN | bits | self.join_bits[t].get(s, 0)))
            elif link.kind == "gate":
                decided[s][link.target] = bits
            else:
                assert link.value is not None
                counts = (
                    not gated[t]
                    and (gated[s] or link.value not in self.nodes[t].outputs)
                    and (loop is None or s in behind[t])
                )
                readers[s].append((link.value, (t, WOKEN | bits if counts else 0)))
        for i in (i for i, node in enumerate(self.nodes) if node.name in node.targets):
            decided[i][self.names[i]] = FORWARD  # a gate may select itself
        self.data_readers = list(map(_grouped, readers))
        self.control_wakes: list[Wakes] = [tuple(wakes) for wakes in control]
        return decided

    def _compile_joins(self) -> None:
        """Assign a bit in the wake of a join to each of its sources, above those of the loops."""
        first = 1 << (_FIRST_LOOP + len(self.topology.loops))
        self.unmarked = first - 1
        # join -> source -> its bit; and the bits that have to be set before the join is due
        self.join_bits: list[dict[int, int]] = [
            {self.index[name]: first << place for place, name in enumerate(node.after)}
            if node.is_join
            else {}
            for node in self.nodes
        ]
        self.joins = [sum(bits.values()) for bits in self.join_bits]

    def _compile_marks(self, decided: Sequence[Mapping[str, int]]) -> None:
        """Assign each gate its own bits in the wakes of its targets, above those of loops and joins."""
        n = len(self.nodes)
        self.has_gates = any(decided)
        self.marks: list[dict[str, Mark]] = [{} for _ in range(n)]  # gate -> target -> its bits
        self.selections = [0] * n  # the bits of a wake that mean "selected by a gate"
        # the bits of a wake that stand for forward links, and for the back links of each loop
        self.turn_marks: list[tuple[int, Wakes]] = [(FORWARD, ())] * n
        free = [(self.unmarked + 1) << len(bits) for bits in self.join_bits]
        for gate, targets in enumerate(decided):
            for name, along in targets.items():
                target = self.index[name]
                bit = free[target]
                free[target] <<= 4
                mark = self.marks[gate][name] = Mark(target, bit, bit << 1, bit << 2, bit << 3)
                self.selections[target] |= mark.selected | mark.selected_final
                forward, back = self.turn_marks[target]
                if along == FORWARD:
                    self.turn_marks[target] = (forward | mark.all, back)
                else:
                    self.turn_marks[target] = (forward, (*back, (along >> _FIRST_LOOP, mark.all)))
        # (target, bits) that a gate's next decision clears; None for a node that decides nothing
        self.withdrawable: list[Wakes | None] = [
            tuple((mark.target, mark.withdrawable) for mark in marks.values()) if node.targets else None
            for node, marks in zip(self.nodes, self.marks, strict=True)
        ]

        self.choices = [self._choices_of(gate) for gate in range(n)]

    def _choices_of(self, gate: int) -> dict[str, tuple[int, int, Wakes]] | None:
        """Return for each single choice the target (-1 for END), its bits, and the other bits that it withdraws."""
        withdrawable = self.withdrawable[gate]
        if withdrawable is None or self.nodes[gate].multi:
            return None
        found: dict[str, tuple[int, int, Wakes]] = {"END": (-1, 0, withdrawable)}
        for name, mark in self.marks[gate].items():
            others = tuple(pair for pair in withdrawable if pair[0] != mark.target)
            found[name] = (mark.target, CHOSEN | mark.selected, others)
        return found

    def turn_of(self, node: int, wake: int) -> int | None:
        """Return the loop of which a node with this wake starts a turn, or None."""
        forward, back = self.turn_marks[node]
        if wake & forward:
            return None
        loops = (wake & self.unmarked) >> _FIRST_LOOP
        for loop, bits in back:
            if wake & bits:
                loops |= loop
        return (loops & -loops).bit_length() - 1 if loops else None

    def ready(self, due: Collection[int], wakes: Any) -> list[int]:
        """Return the due nodes that do not wait, in order of declaration."""
        if len(due) == 1:
            return list(due)
        topology = self.topology
        due_mask = 0
        for i in due:
            due_mask |= 1 << i
        turns = [(i, turn) for i in due if (turn := self.turn_of(i, wakes[i])) is not None]
        turning = dict(turns)
        found: list[int] = []
        for i in sorted(due):
            if self.nodes[i].eager:
                found.append(i)
                continue
            waits_for = topology.up(i)
            if i in turning:
                waits_for |= topology.loop_masks[turning[i]]
            waits_for &= due_mask & ~(1 << i)
            if waits_for and turns:
                mine = turning.get(i)
                for other, loop in turns:
                    if not topology.on_loops[i] >> loop & 1 or other == i:
                        continue
                    if mine == loop and topology.up(i) >> other & 1:
                        continue
                    if mine is not None and mine in topology.loops[loop].outer:
                        continue
                    waits_for &= ~(1 << other)
            if not waits_for:
                found.append(i)
        return found

    def readers(self, value: str) -> int:
        """Return the mask of the nodes that read a value, by name or as part of the whole state."""
        known = self.readers_of.get(value)
        if known is None:
            known = 0
            for i, node in enumerate(self.nodes):
                known |= (node.reads_state or value in node.inputs) << i
            self.readers_of[value] = known
        return known

    def downstream(self, node: int) -> frozenset[int]:
        """Return the node and all nodes reachable from it along forward links."""
        known = self.descendants.get(node)
        if known is None:
            known = self.descendants[node] = self.topology.behind(node) | {node}
        return known


def _rules_of_schema(graph: Graph) -> tuple[dict[str, Callable[[Any, Any], Any]], frozenset[str]]:
    """Return the reducers, and the defaults that do not make readers due: those of values that some node writes."""
    if graph.schema is None:
        return {}, frozenset()
    fields, counting = graph.schema.fields, seeds_that_count(graph)
    reducers = {name: field.reducer for name, field in fields.items() if field.reducer is not None}
    return reducers, frozenset(n for n, field in fields.items() if field.has_default and n not in counting)


def _behind(node: int, topology: Topology) -> Container[int]:
    gates = [gate for gate in topology.gates_of[node] if (gate, node) in topology.back]
    return frozenset().union(*map(topology.behind, gates)) if gates else range(len(topology.names))


def _plain_output(node: Node) -> str | None:
    if node.kind != "node" or node.shape != "one" or node.targets or node.pruned or node.cutoff:
        return None
    return node.outputs[0]


def _grouped(pairs: Iterable[tuple[str, T]]) -> dict[str, tuple[T, ...]]:
    groups: dict[str, list[T]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return {key: tuple(members) for key, members in groups.items()}


def program_of(graph: Graph, given: frozenset[str]) -> Program:
    """Return the program of a graph for a set of given names, cached with the graph."""
    topology = topology_of(graph, given)
    program: Program | None = topology.program
    if program is None:
        program = topology.program = Program(graph, topology)
    return program


def check_values(graph: Graph, values: Mapping[str, Any]) -> tuple[frozenset[str], Mapping[str, Any]]:
    """Validate input values, except `ValidValues`; return their names and the values of S(0), with schema defaults."""
    given = frozenset(values)
    for name in given:
        if type(name) is not str:
            raise InputError(f"values: input names must be strings, got {name!r}")
    if not has_topology(graph, given):
        problem = complaint(graph, given)
        if problem:
            raise InputError(problem)
    schema = graph.schema
    if schema is None:
        return given, values
    if schema.validates:
        checked: dict[str, Any] = {}
        valid = valid_names(values)
        for name, value in values.items():
            try:
                checked[name] = value if name in valid else schema.validate(name, value)
            except ValueError as error:
                raise InputError(f"{name!r} does not match the state schema: {error}") from error
        values = checked
    return given, {**schema.defaults(given), **values}


def value_names(graph: Graph) -> set[str] | None:
    """Return the names that values of a graph's state may have: those of its schema, or those that nodes read and
    write. None if any name is allowed."""
    if graph.schema is not None:
        return set(graph.schema.fields)
    if any(node.reads_state for node in graph.nodes.values()):
        return None
    return _used_names(graph)


def _used_names(graph: Graph) -> set[str]:
    return {value for node in graph.nodes.values() for value in (*node.inputs, *node.outputs)}


_CONTEXTS = frozenset({"context", "contex", "cntx", "ctxt"})  # names that people give to a context


def complaint(graph: Graph, given: frozenset[str]) -> str:
    """Return the problem with giving exactly these names to a graph, or ""."""
    return _unknown_name(graph, given) or _missing_input(graph, given) or _missing_field(graph, given)


def _unknown_name(graph: Graph, given: frozenset[str]) -> str:
    known = value_names(graph)
    if known is None or given <= known:
        return ""
    name = min(given - known)
    what = "the graph has no value" if graph.schema is None else "the state schema declares no"
    return f"{what} {name!r}; {nearest(name, sorted(known))}"


def _missing_input(graph: Graph, given: frozenset[str]) -> str:
    fields = {} if graph.schema is None else graph.schema.fields
    seeded = {name for name, field in fields.items() if field.has_default or field.reducer is not None}
    ready = seeded.union(given, graph.bound)
    writers = writers_of(graph.nodes)
    targeted = {target for node in graph.nodes.values() for target in node.targets}  # a Send may provide it
    for node in graph.nodes.values():
        for value in node.required if node.name not in targeted else ():
            if value in ready or any(writer != node.name for writer in writers.get(value, ())):
                continue
            extra = sorted(given - _used_names(graph))
            hint = f" (given: {', '.join(map(repr, extra))})" if extra else ""
            meant = similar(value, {*writers, *given, *fields})
            return (
                f"{value!r} is missing: node {node.name!r} reads it and nothing writes it{hint}; "
                + (f"did you mean {meant!r}? If not, " if meant else "")
                + "give it to the run, bind it, or give the parameter a default"
                + ("; for the context of the call, write ctx: Context" if value in _CONTEXTS else "")
            )
    return ""


def _missing_field(graph: Graph, given: frozenset[str]) -> str:
    name = next((name for name in required_fields(graph) if name not in given), None)
    if name is None or graph.schema is None:
        return ""
    return (
        f"{name!r} is missing: {graph.schema.cls.__name__} requires it and no node writes it; give it to "
        f"the run, or give the field a default"
    )
