"""The result of exploring a service, and its violations as scripts."""
