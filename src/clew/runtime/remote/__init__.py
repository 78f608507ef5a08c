"""Node bodies in other processes: worker processes of this machine, Dask, Ray. One mechanism serves all of them.

Everything that makes a run durable stays in the driver: the machine, the log, recorded calls, waits, children. Only the
body of a node runs elsewhere. The cluster decides where and when it runs; the driver decides whether it may.

**Grants.** The driver submits a task for each attempt (`executor`). A task has a token. Before the body starts, the
worker asks for permission; the driver grants each token once (`grants`). Clusters may start a task a second time. Such
a start has a token that was already granted or replaced, so it is rejected. Timeouts count from the grant. Before a
node with side effects is granted, its intent is logged, if ``on_ambiguous`` requires it.

**Frames.** A worker process has one link to each driver: a socket that carries the frames of all its bodies (`frames`,
`links`). The worker has a host (`host`) like the driver's session, so a body gets the same `RunContext` everywhere.
Calls of its methods become frames, and the driver serves them with the session (`attempts`, `desk`):

- `record` asks the driver. It answers with a recording, or says "make". Then the worker makes the call, sends its
  result, and continues when the driver has logged it. Places of calls are numbered by the worker, in program order.
- `wait_for`, long sleeps, `interrupt` and `run` return a value, or unwind the body. A body that unwinds for a wait
  starts over when the wait ends, as a new task of the same attempt.
- `emit` and the chunks of generators need no answer. `now` is the driver's clock. `random` needs no frame.
- The end of a body is a frame too. So results do not stay in the cluster, and are checked like all other frames.

**Rejected frames.** A frame is accepted if its token is the current one of its attempt, and if it arrives on the link
that the token was granted to. All others are rejected: the worker gets "over", and the body is unwound by `Leaving`.

**Lost workers.** A worker is lost if its link closes, if it is silent for `lost_after` seconds, or if the cluster says
so. Its attempts do not fail. Each gets a new token and a new task, at most `lost_workers` times; then it fails with
`WorkerLostError`. Work of the driver for the lost body ends first, for example a child that it runs. A recorded call
without a result is then ambiguous, as after a crash. Conversely, a body whose driver has ended is unwound when it next
uses the context.

**Inputs.** Functions are sent by import path, with the hash of their code: a worker with different code rejects the
call. Functions that cannot be imported (notebooks, closures) are sent by value if the cluster can pickle them.
Arguments are pickled. Arguments of `LARGE` bytes or more are put into the cluster once, keyed by digest, and sent by
reference (`inputs`). If the cluster loses one, it is put there again.

**Cancelling** rejects all further frames, tells the worker, and ends the body: a process is killed, a coroutine is
cancelled, and Python code on a thread of a cluster's worker gets `Leaving`, which C code delays.

**Deadlocks.** A body that waits for a child keeps its worker, so the nodes of the child must not wait for a free one.
Each backend solves this differently: another process, an additional thread (Dask), a task without a CPU (Ray).

**Trust.** Both ends of a link prove that they know the key of the executor, which is sent with the tasks. Frames are
msgspec; the values in them are pickled. To other machines, links use the TLS of the cluster; without it, the executor
is rejected.
"""
