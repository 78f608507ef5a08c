"""Check a workflow: explore every schedule and every fault of a graph on the real engine.

::

    simulated_disk     the store of the run; it survives the process
    faulty_store       passes operations to the disk; any operation can fail
    simulated_process  one process: the real session, driven one choice at a time
    run_system         the run as a system of a World
    faults             the faults, and the points where they can happen
    partial_order      which orders of completion need not be tried
    guarantees         the built-in invariants
    check              check_graph, Check, CheckResult
    narrative          a counterexample as readable text, and on disk
"""
