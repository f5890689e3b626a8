"""From which share of a step on something limits it; why these figures: see `bound`."""

__all__ = ["LIMIT", "UTILIZED"]

LIMIT = 0.10  # of the step: removing less is hard to tell from the noise between two runs
UTILIZED = 0.80  # of the step; below it the device waits more than any pipeline needs to
