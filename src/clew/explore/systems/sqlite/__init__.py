"""A SQLite database as a system."""
