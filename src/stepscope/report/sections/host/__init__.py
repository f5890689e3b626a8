"""Sections about the host: Python, operators' launches and waits."""
