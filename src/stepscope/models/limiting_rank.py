"""The rank that the verdict is about: all that one screen tells of the step is of this rank, where it can be."""

from typing import Any

from stepscope.analyses.bound.bound import bound
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["limiting_rank", "limiting_row", "removable"]


def limiting_row(run: Run) -> dict[str, Any] | None:
    """The row of `bound` with the largest removable share: the other ranks wait for it, or would not gain as much.

    None without rows. Raises MissingData as `bound` does.
    """
    return max(bound(run).to_dicts(), key=lambda row: (removable(row), -row["rank"]), default=None)


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
