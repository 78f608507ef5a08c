"""The page and its HTTP API: ``clew serve``. It needs the extra ``clew[web]``."""
