"""Work on finished runs: replay, comparison, export and import, retention."""
