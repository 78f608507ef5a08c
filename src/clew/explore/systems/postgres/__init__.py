"""A PostgreSQL database as a system."""
