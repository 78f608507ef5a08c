"""The commands that explore systems, services and graphs."""
