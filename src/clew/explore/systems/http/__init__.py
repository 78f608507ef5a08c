"""An HTTP service as a system: a fake, and the server that serves it."""
