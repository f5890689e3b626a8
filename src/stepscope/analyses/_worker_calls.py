"""Which code makes the samples: what the spans of loading name, for a rule and a section that point at a line."""

from dataclasses import dataclass

import polars as pl

from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["WorkerCall", "slowest_calls", "training_loaders"]

_MIN_SHARE = 0.1  # of the time in fetch: a call with less is beside the point
_LIBRARY = r"/(site-packages|dist-packages|lib/python3[^/]*)/"
_NAMED = ("name", "file", "line", "stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """A data set's method or a collate function of the user's own; `mean` ns a call, `share` of the time in fetch."""

    place: Place
    stage: str
    mean: float
    share: float


def training_loaders(run: Run, rank: int) -> pl.Series:
    """The numbers of the loaders whose batches a rank trains on."""
    loaders = run.optional("loaders", "rank", "loader", "train")
    return loaders.filter((pl.col("rank") == rank) & pl.col("train").fill_null(False))["loader"]


def slowest_calls(run: Run, rank: int) -> tuple[WorkerCall, ...]:
    """Calls in the fetches of what a rank trains on, by time; none where no spans of loading were recorded."""
    spans = run.optional("loader_spans").filter(
        (pl.col("rank") == rank) & pl.col("loader").is_in(training_loaders(run, rank).to_list())
    )
    length = (pl.col("end") - pl.col("start")) * pl.col("weight")
    fetching = spans.filter(pl.col("stage") == "fetch").select(length.sum()).item()
    own = pl.col("stage").is_in(["sample", "collate"]) & pl.col("line").is_not_null()
    calls = (
        spans.filter(own & ~pl.col("file").str.contains(_LIBRARY))
        .group_by(_NAMED)
        .agg(time=length.sum(), count=pl.col("weight").sum())
        .filter(pl.col("time") >= _MIN_SHARE * (fetching or 0))
        .sort(["time", "name"], descending=[True, False])
    )
    return tuple(
        WorkerCall(
            place=Place(file=row["file"], line=row["line"], symbol=row["name"] or ""),
            stage=row["stage"],
            mean=row["time"] / row["count"],
            share=min(1.0, row["time"] / fetching) if fetching else 0.0,
        )
        for row in calls.iter_rows(named=True)
    )
