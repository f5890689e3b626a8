"""Rules about collectives and ranks."""
