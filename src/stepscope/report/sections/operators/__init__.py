"""Sections about operators: FLOPs, rooflines, call stacks."""
