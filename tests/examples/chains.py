"""An example's run as text: each state of its chain, what ran, what it wrote and decided, and the digest.

An example is a module of ``examples/patterns`` with a `graph` and `values`; `options` for its engine where it needs
some, and `answers` by node where it asks. The text has no times and no run ids, so it is the same however the run was
driven; long values are cut, since the digest speaks for them. Examples without a `graph` to run are about something
else, and are left out.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from clew import Checkpoint, Engine, Event, RunResult, Send
from clew.testing import VirtualClock, run_in_order

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "patterns"
NAMES = sorted(file.stem for file in EXAMPLES.glob("*.py") if "\ngraph = " in file.read_text("utf-8"))
WIDTH = 76

Drive = Callable[[Engine, Mapping[str, Any]], RunResult]


def load(name: str) -> ModuleType:
    """The example's module, loaded once; it is registered, as its classes may be looked up by name."""
    full = f"clew_example_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[full]


def run_normally(engine: Engine, values: Mapping[str, Any]) -> RunResult:
    """As users run it."""
    return engine.run(values, run_id="golden")


def in_order(choose: Callable[[Sequence[str]], str]) -> Drive:
    """Completing items in the order in which `choose` picks them."""
    return lambda engine, values: run_in_order(engine, values, choose=choose, run_id="golden")


def chain_of(example: ModuleType, drive: Drive = run_normally, **options: Any) -> str:
    """Run an example, answering what it asks, and tell its chain."""
    done: dict[str, Event] = {}
    decided: dict[str, Event] = {}

    def listen(event: Event) -> None:
        if event.kind == "item_finished":
            done[event.path] = event
        elif event.kind == "gate_decided":
            decided[event.path] = event

    options = {"clock": VirtualClock(), **getattr(example, "options", {}), **options}
    engine = Engine(example.graph, listeners=[listen], **options)
    result = drive(engine, example.values)
    while result.status == "waiting":
        answers = {question.path: example.answers[question.node] for question in result.questions}
        result = engine.resume("golden", answers=answers)
    lines = [f"{result.status} after {result.last_step} steps", ""]
    lines += _told(engine.history("golden", nested=True), done, decided)
    return "\n".join(lines) + "\n"


def _told(
    chain: Sequence[Checkpoint], done: Mapping[str, Event], decided: Mapping[str, Event], indent: str = ""
) -> Iterator[str]:
    for state in chain:
        yield f"{indent}S({state.step_id}) {state.digest[:16]}"
        if not state.items:
            yield from (f"{indent}  {name} = {shortened(value)}" for name, value in state.values.items())
        for path in state.items:
            yield f"{indent}  {path}"
            for inner in state.nested:
                if inner == path or inner.startswith(f"{path}["):
                    if inner != path:
                        yield f"{indent}      {inner}"
                    yield from _told(state.nested[inner], done, decided, indent + "      ")
            if path in done:
                update = done[path].update
                yield from (f"{indent}    {name} <- {shortened(value)}" for name, value in update.items())
            if path in decided:
                yield from (f"{indent}    => {choice}" for choice in _choices(decided[path].decision))


def _choices(decision: Any) -> list[str]:
    told = []
    for choice in decision if isinstance(decision, list | tuple) else (decision,):
        if isinstance(choice, Send):
            payload = ", ".join(f"{name}={shortened(value, 32)}" for name, value in choice.payload.items())
            told.append(f"{choice.target}({payload})")
        elif choice is not None:
            told.append(str(choice))
    return told or ["nothing"]


def shortened(value: Any, width: int = WIDTH) -> str:
    """A value on one line, its middle cut out if it is long."""
    text = repr(value)
    half = (width - 5) // 2
    return text if len(text) <= width else f"{text[:half]} ... {text[-half:]}"
