"""Drivers execute the items of a session, in the calling thread or on an event loop."""
