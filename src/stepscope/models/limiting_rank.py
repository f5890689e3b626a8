"""The rank that the verdict is about: all that one screen tells of the step is of this rank, where it can be."""

from typing import Any

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.bound.lib.straggler import late_rank
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["awaited_rank", "limiting_rank", "limiting_row", "removable"]

LATE = 0.3  # of the step that the others wait for one rank: no limit of theirs is as large but one that all have


def limiting_row(run: Run) -> dict[str, Any] | None:
    """The row of `bound` with the largest removable share: the other ranks wait for it, or would not gain as much.

    Where the share of all is small, the row of the rank that the others wait for. None without rows. Raises MissingData
    as `bound` does.
    """
    late = awaited_rank(run)
    return max(
        bound(run).to_dicts(),
        key=lambda row: (max(removable(row), LATE if row["rank"] == late else 0.0), -row["rank"]),
        default=None,
    )


def awaited_rank(run: Run) -> int | None:
    """The rank that the others wait for a large part of the step; None where there is none, or it is not known."""
    try:
        found = late_rank(run)
    except MissingData:
        return None
    return found.rank if found is not None and found.delay >= LATE * found.step else None


def limiting_rank(run: Run) -> int | None:
    """The rank of that row; None where nothing tells."""
    try:
        row = limiting_row(run)
    except MissingData:
        return None
    return None if row is None else int(row["rank"])


def removable(row: dict[str, object]) -> float:
    """Share of the step that limits a rank and could be removed; 0 for a rank that computes or hides its limit."""
    limit = str(row["limit"])
    share = row.get(limit) if limit not in ("device", "balanced", "unknown") else 0.0
    return float(share) if isinstance(share, int | float) else 0.0
