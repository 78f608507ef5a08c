"""What a run reports while it executes: events, observers, progress, log records."""
