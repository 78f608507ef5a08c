"""A state as bytes: stop a run, and continue it in another process.

Primes are computed in blocks. After three blocks, the state is written to a file. A new Python process, which shares
only this module, reads the file and runs to the end. The state contains the position in the loop, the decisions of
gates and the pending work, so the chain of digests continues as in the uninterrupted run.
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
    """Add the primes of one block."""
    found = list(primes)
    for number in range(start, start + block):
        if all(number % prime for prime in found if prime * prime <= number):
            found.append(number)
    return found, start + block


graph = Graph([more, sieve], name="primes")
values = {"primes": [], "start": 2, "block": 20, "limit": 120}


def continue_run(file: Path) -> None:
    """Continue the run; called in the other process."""
    result = graph.run(GraphState.from_checkpoint(file.read_bytes()))
    print(f"by another one: {len(result['primes'])} primes, S({result.last_step}) {result.state.digest[:12]}")


def main() -> None:
    engine = Engine(graph)
    whole = engine.run(values, run_id="whole")
    early = engine.state("whole", step=6)
    print(f"so far:         {len(early.get('primes'))} primes, S({early.step}) {early.digest[:12]}")
    print(
        f"in one go:      {len(whole['primes'])} primes, S({whole.last_step}) {whole.state.digest[:12]}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "early.clew")
        file.write_bytes(early.to_checkpoint())
        subprocess.run([sys.executable, __file__, str(file)], check=True)


if __name__ == "__main__":
    continue_run(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
