"""Sections about data loading."""
