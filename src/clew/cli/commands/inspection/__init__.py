"""The commands that show runs, threads and graphs."""
