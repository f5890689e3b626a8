"""Which ranks wait longest for their loaders."""

from stepscope.analyses.bound.lib.input_waits import MIN_SHARE, InputWait, input_waits
from stepscope.core.run import Run
from stepscope.models.limiting_rank import limiting_rank

__all__ = ["longest_waits"]

ALIKE = 0.05  # of the step: ranks whose waits differ by less wait for the same reason


def longest_waits(run: Run) -> tuple[InputWait, ...]:
    """The ranks that wait for the longest part of their steps, alike; none below MIN_SHARE.

    First is the rank that the verdict is about, if it is one of them, else the one that waits longest. Raises
    MissingData where no wait was recorded.
    """
    waits = input_waits(run)
    worst = max(waits, key=lambda row: row.wait / row.step)
    if worst.wait <= MIN_SHARE * worst.step:
        return ()
    alike = worst.wait / worst.step - ALIKE
    culprits = [worst, *(row for row in waits if row is not worst and row.wait / row.step >= alike)]
    told = limiting_rank(run)
    return tuple(sorted(culprits, key=lambda row: row.rank != told))
