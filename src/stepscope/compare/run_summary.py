"""All that is asked of one run for a comparison: plain data, so that the run itself can be let go."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.host.core_waits import UNCOUNTED, core_waits
from stepscope.compare.breakdowns import Totals, breakdown_of, device_of, steps_of_ranks
from stepscope.compare.by_name import NamedRows, rows_by_name
from stepscope.compare.call_trees import CallTrees, call_tree_of
from stepscope.compare.series import Series, series_of
from stepscope.compare.settings import Setting, settings_of
from stepscope.core.errors import MissingData
from stepscope.core.finding import Finding
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose

__all__ = ["Side", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One of the two runs. Times are ns.

    `untraced` and `traced` are its steps, None where there are none; `traced_steps` counts the step markers in its
    trace, of all ranks. `device` and `breakdown` divide the traced time, None without a trace that tells. `by_name`
    are by what they list; `calls` is the tree of host calls, None where none were recorded. `taken` is the most of a
    mean step, as a share, that programs outside the job can have cost it by having the cores; None where nobody
    watched. `findings` are (rule, finding), largest gain first.
    """

    path: str
    settings: Mapping[str, Setting]
    untraced: Series | None
    traced: Series | None
    traced_steps: int
    device: Totals | None
    breakdown: Totals | None
    by_name: Mapping[str, NamedRows]
    calls: CallTrees | None
    taken: float | None
    findings: tuple[tuple[str, Finding], ...]


def measure(run: Run) -> Side:
    """Everything a comparison needs of a run."""
    untraced, traced = series_of(run)
    return Side(
        path=run.path,
        settings=settings_of(run),
        untraced=untraced,
        traced=traced,
        traced_steps=int(steps_of_ranks(run)["steps"].sum()),
        device=device_of(run),
        breakdown=breakdown_of(run),
        by_name=rows_by_name(run),
        calls=call_tree_of(run),
        taken=_taken(run),
        findings=tuple((block.rule, block.finding) for block in diagnose(run).findings),
    )


def _taken(run: Run) -> float | None:
    """What waits for cores that others had can have cost: at most what they used, and at most the wait itself."""
    try:
        rows = core_waits(run)
    except MissingData:
        return None
    by_others = pl.min_horizontal(pl.col("waited") / pl.col("step"), "others") * UNCOUNTED
    share = rows.select(by_others.mean()).item()
    return None if share is None else min(float(share), 1.0)
