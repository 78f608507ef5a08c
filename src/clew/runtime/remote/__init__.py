"""Node bodies in other processes: worker processes of this machine, Dask, Ray. One mechanism serves all of them.

The driver keeps everything that makes a run durable: the machine, the log, recorded calls, waits, children. Only the
body of a node crosses. The cluster decides where and when it runs; the driver decides whether it may.

**Grants.** The driver submits a task for each attempt (`executor`). A task carries a token. Before the body starts, the
worker asks for the start; the driver grants a token once (`grants`). Clusters start tasks again on their own. Such a
second start has a token that was granted or replaced, so it is refused. Timeouts count from the grant. Before a node
with side effects is granted, its intent is logged, as ``on_ambiguous`` wants.

**Frames.** A worker process has one link to each driver: a socket that carries the frames of all its bodies (`frames`,
`links`). The worker has a host (`host`) like the driver's session, so a body gets the same `RunContext` as anywhere.
Its methods become frames, and the driver serves them with the session (`attempts`, `desk`):

- `record` asks the driver. It answers with a recording, or says "make". Then the worker makes the call, sends its
  result, and continues when the driver has logged it. Places of calls are numbered by the worker, in program order.
- `wait_for`, long sleeps, `interrupt` and `run` answer, or unwind the body. A body that unwinds for a wait starts over
  when the wait ends, as a new task of the same attempt.
- `emit` and the chunks of generators need no answer. `now` is the driver's clock. `random` needs no frame.
- The end of a body is a frame too. So results do not stay in the cluster, and are checked like all other frames.

**Rejected frames.** A frame counts if its token is the current one of its attempt, and if it comes by the link that the
token was granted to. All others are rejected: the worker gets "over", and the body is unwound by `Leaving`.

**Lost workers.** A worker is lost if its link closes, if it is silent for `lost_after` seconds, or if the cluster says
so. Its attempts do not fail. Each gets a new token and a new task, at most `lost_workers` times; then it fails with
`WorkerLostError`. What the driver still does for the lost body ends first, for example a child that it runs. A recorded
call without a result is ambiguous then, as after a crash. The other way round, a body whose driver is gone is unwound
at its next use of the context.

**Inputs.** Functions cross by import path, together with the hash of their code: a worker with other code refuses the
call. Functions that cannot be imported (notebooks, closures) cross by value if the cluster can pickle them. Arguments
are pickled; those of `LARGE` bytes or more are put into the cluster once, keyed by digest, and cross by reference
(`inputs`). If the cluster has lost one, it is put again.

**Cancelling** rejects all further frames, tells the worker, and ends the body: a process is killed, a coroutine is
cancelled, and Python code on a thread of a cluster's worker gets `Leaving`, which C code delays.

**Deadlocks.** A body that waits for a child keeps its worker, so the nodes of the child must not wait for a free one.
How they get one differs: another process, a thread more (Dask), a task without a CPU (Ray).

**Trust.** Both ends of a link prove that they know the key of the executor, which crosses with the tasks. Frames are
msgspec; the values in them are pickled. Off loopback, links use the TLS of the cluster, or the executor is refused.
"""

from __future__ import annotations

__all__: list[str] = []
