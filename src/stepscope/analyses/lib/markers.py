"""Marks that a trace carries in its annotations: steps, waits for data, optimizer steps, backward, communication."""

import numpy as np
import polars as pl

from stepscope.analyses.lib.cut_traces import is_whole
from stepscope.analyses.lib.host_events import OPERATIONS, THREAD, step_number
from stepscope.analyses.lib.host_rows import host_where
from stepscope.core.intervals import Spans, spans, subtract
from stepscope.core.run import Run

__all__ = [
    "backward_calls",
    "data_waits",
    "is_backward",
    "is_loader",
    "is_optimizer",
    "step_markers",
    "unrecorded",
]

_COLUMNS = (*THREAD, "name", "kind", "start", "end")


def is_loader() -> pl.Expr:
    """Names of the annotation around a loader's next batch."""
    name = pl.col("name")
    return (name.str.starts_with("enumerate(DataLoader)#") & name.str.ends_with(".__next__")) | name.str.starts_with(
        "enumerate(DataPipe)#"
    )


def is_optimizer() -> pl.Expr:
    """Names of the annotation around an optimizer's step."""
    return pl.col("name").str.starts_with("Optimizer.step#")


def is_backward() -> pl.Expr:
    """Names of the operators that autograd runs; before torch 1.11 they had no `evaluate_function` around them."""
    return pl.col("name").str.contains(
        r"^autograd::engine::evaluate_function|^torch::autograd::AccumulateGrad$|^\w*Backward\d*$"
    )


def step_markers(run: Run) -> pl.DataFrame:
    """`ProfilerStep#N` on the host: rank, pid, thread, step, start, end, window, in order of time; perhaps none.

    Steps whose numbers follow each other are of one traced window; between windows nothing was recorded. Copies of
    the annotation on the device are not steps: they are no rows of `host`. A step that is written twice, or by two
    threads at once, is one; of a trace that is cut off, only whole steps are.
    """
    return run.once(_step_markers)


def unrecorded(run: Run, rank: int) -> Spans:
    """The time between the traced windows of a rank; of a damaged trace windows may overlap, with none between."""
    markers = step_markers(run).filter(pl.col("rank") == rank)
    windows = markers.group_by("window").agg(pl.col("start").min(), pl.col("end").max()).sort("start")
    between = np.stack((windows["end"].cum_max().to_numpy()[:-1], windows["start"].to_numpy()[1:]), axis=1)
    return between[between[:, 0] < between[:, 1]]


def data_waits(run: Run) -> pl.DataFrame:
    """When a thread waited for a loader's next batch: rank, pid, thread, start, end; perhaps none.

    The call that ends an epoch also shuts the loader's workers down, which is no wait for data. It is left out where
    Python stacks show it.
    """
    return run.once(_data_waits)


def backward_calls(run: Run) -> pl.DataFrame:
    """Frames of a call of backward: rank, pid, thread, start, end; none without Python stacks."""
    return _frames(run, r"torch[/\\](?:_tensor\.py|autograd[/\\]__init__\.py)\(\d+\): (?:backward|grad)$")


def _step_markers(run: Run) -> pl.DataFrame:
    steps = _operations(run, pl.col("name").str.starts_with("ProfilerStep#")).with_columns(step=step_number())
    steps = steps.drop_nulls("step").select(*THREAD, "step", "start", "end").sort("rank", "start", "end")
    steps = steps.filter(is_whole(run)).unique(("rank", "step", "start", "end"), keep="first", maintain_order=True)
    follows = pl.col("step").diff().is_in([0, 1])
    return steps.with_columns(window=(~follows).fill_null(False).cum_sum().over("rank").cast(pl.Int64))


def _data_waits(run: Run) -> pl.DataFrame:
    waits = _operations(run, is_loader()).select(*THREAD, "start", "end")
    shutdowns = _frames(run, r"dataloader\.py\(\d+\): _shutdown_workers$")
    parts = [waits.head(0)]
    for _, part in waits.group_by(THREAD, maintain_order=True):
        of_thread = shutdowns.join(part.select(THREAD).head(1), on=THREAD, how="semi", nulls_equal=True)
        waited = subtract(spans(part), spans(of_thread))
        times = {"start": waited[:, 0], "end": waited[:, 1]}
        parts.append(part.select(THREAD).head(1).join(pl.DataFrame(times), how="cross"))
    return pl.concat(parts)


def _operations(run: Run, named: pl.Expr) -> pl.DataFrame:
    return host_where(run, OPERATIONS, named, *_COLUMNS)


def _frames(run: Run, pattern: str) -> pl.DataFrame:
    return host_where(run, ("python",), pl.col("name").str.contains(pattern), *THREAD, "start", "end")
