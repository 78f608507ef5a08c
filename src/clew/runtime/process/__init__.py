"""What the runtime needs of its process: clock, threads, event loops, forks, crash points."""
