"""What the time of a step consists of on its critical path, and the names that would shorten it most."""

import polars as pl

from stepscope.analyses.critical_path.critical_path_names import critical_path_names
from stepscope.analyses.critical_path.critical_path_summary import critical_path_summary
from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.core.report import Block, Section, Text
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, excerpt

__all__ = ["SECTION"]

_CLASSES = 11  # rows of each rank: all there are
_NAMES = 5
_SHARES = {"rank": "rank", "class": "class", "share": "share", "duration": "mean per step"}
_HEADINGS = {
    "rank": "rank", "class": "class", "name": "name", "operator": "operator", "per_step": "mean per step",
    "share": "share",
}  # fmt: skip
_MEANING = Text(
    "The chain of activities that sets the time of the traced steps. Speeding up anything else does not shorten them."
)
_WHOLE = Text("The chain of activities that sets the length of the whole recording: no steps are marked.")


def build(run: Run) -> list[Block]:
    means = critical_path_summary(run).filter(pl.col("step").is_null())
    names = critical_path_names(run).sort("total", descending=True, maintain_order=True)
    named = names.filter(pl.col("name").is_not_null())
    marked = marks_steps(run)
    shares = excerpt(
        "By class",
        critical_path_summary,
        means,
        _told(_SHARES, marked),
        limit=RANKS_SHOWN * _CLASSES,
        name="critical_path_summary",
    )
    top = excerpt(
        "Top names", critical_path_names, named, _told(_HEADINGS, marked), limit=_NAMES, name="critical_path_names"
    )
    return [_MEANING if marked else _WHOLE, *shares, *top]


def _told(headings: dict[str, str], marked: bool) -> dict[str, str]:
    """Where no steps are marked, the times are of the whole recording."""
    return {column: "total" if text == "mean per step" and not marked else text for column, text in headings.items()}


SECTION = Section(title="Critical path", order=78, group="idle", build=build)
