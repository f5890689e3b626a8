"""Analyses: one table derived from a run, one file each. Modules that start with an underscore are shared pieces."""
