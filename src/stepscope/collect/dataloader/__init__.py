"""Spans of the input pipeline: what DataLoader workers and the training process do with each batch."""
