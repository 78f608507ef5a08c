"""What the steps of a run say: its states, why a node ran, what keeps it from running."""
