"""Rows of tables of sampled or launching lines as places in the user's code."""

from collections.abc import Mapping
from typing import Any

from stepscope.core.finding import Place

__all__ = ["LOADING_TIME", "STEP", "line_place"]

LOADING_TIME, STEP = "sampled loading time", "the step"
"""What the share of a place is of."""


def line_place(row: Mapping[str, Any], share: float | None, of: str) -> Place:
    """The place of a row with `file`, `line`, `function` and `text`, of which the last three may be null; `share` of
    what `of` names."""
    return Place(
        file=row["file"],
        line=row["line"] or 0,
        symbol=row["function"] or "",
        text=(row["text"] or "").strip(),
        share=share,
        of=of,
    )
