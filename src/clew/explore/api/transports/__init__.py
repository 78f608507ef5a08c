"""How requests reach a service, in this process or over HTTP."""
