"""Workers: processes that execute the runs of a queue."""
