"""Tables about what limits a run."""
