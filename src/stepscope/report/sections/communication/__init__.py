"""Sections about collectives and ranks."""
