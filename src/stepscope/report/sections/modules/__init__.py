"""Sections about nn.Module instances."""
