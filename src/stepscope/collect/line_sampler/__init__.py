"""The line sampler: which line the training thread is at, some 50 times a second."""
