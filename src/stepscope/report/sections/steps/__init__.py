"""Sections about training steps."""
