"""The step clock: which calls of torch end a training step, and a record for each step."""
