"""A Redis or Valkey server as a system."""
