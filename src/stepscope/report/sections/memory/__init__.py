"""Sections about device memory."""
