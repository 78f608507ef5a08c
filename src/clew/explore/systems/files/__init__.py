"""A folder of files as a system."""
