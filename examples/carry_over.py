"""A state as bytes: stop a run here, and let another process go on with it.

Primes are sieved a block at a time. After three blocks the state is written to a file; a new Python process that
shares nothing but this module reads it and runs to the end. Where a loop stands, what gates decided and what is still
to come are all in the state, so the chain of digests goes on exactly as if nothing had been in between.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from clew import END, Engine, Graph, GraphState, ifelse, node


@ifelse(when_true="sieve", when_false=END)
def more(start: int, limit: int) -> bool:
    return start < limit


@node(output=("primes", "start"))
def sieve(primes: list[int], start: int, block: int) -> tuple[list[int], int]:
    """The primes of one block."""
    found = list(primes)
    for number in range(start, start + block):
        if all(number % prime for prime in found if prime * prime <= number):
            found.append(number)
    return found, start + block


graph = Graph([more, sieve], name="primes")
values = {"primes": [], "start": 2, "block": 20, "limit": 120}


def go_on(file: Path) -> None:
    """What the other process does."""
    result = graph.run(GraphState.from_checkpoint(file.read_bytes()))
    print(f"by another one: {len(result['primes'])} primes, S({result.steps}) {result.state.digest[:12]}")


def main() -> None:
    engine = Engine(graph)
    whole = engine.run(values, run_id="whole")
    early = engine.state("whole", step=6)
    print(f"so far:         {len(early.get('primes'))} primes, S({early.step}) {early.digest[:12]}")
    print(
        f"in one go:      {len(whole['primes'])} primes, S({whole.steps}) {whole.state.digest[:12]}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "early.clew")
        file.write_bytes(early.to_checkpoint())
        subprocess.run([sys.executable, __file__, str(file)], check=True)


if __name__ == "__main__":
    go_on(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
