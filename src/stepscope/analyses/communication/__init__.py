"""Tables about collectives and ranks."""
