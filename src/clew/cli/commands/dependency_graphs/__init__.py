"""The commands of dependency graphs."""
