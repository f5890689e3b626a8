"""Sections about the critical path of a step."""
