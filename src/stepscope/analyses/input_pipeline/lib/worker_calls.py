"""Which code makes the samples: what spans and samples of loading name, for a rule that points at a line."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.lib.library_code import INSTALLED
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["WorkerCall", "of_training", "slowest_calls"]

_MIN_SHARE = 0.1  # of the time in fetch: a call with less is beside the point


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCall:
    """A data set, a transform or a collate function of the user's own; `mean` own time of a call in ns,
    `share` of the time in fetch."""

    place: Place
    stage: str
    mean: float
    share: float


def of_training(run: Run, rank: int) -> pl.Expr:
    """The rows of a table by `rank` and `loader` that are of the loaders whose batches a rank trains on."""
    loaders = run.optional("loaders", "rank", "loader", "train")
    training = loaders.filter((pl.col("rank") == rank) & pl.col("train").fill_null(False))["loader"]
    return (pl.col("rank") == rank) & pl.col("loader").is_in(training.to_list())


def slowest_calls(run: Run, rank: int) -> tuple[WorkerCall, ...]:
    """Calls in the fetches of what a rank trains on, by own time; none where no spans of loading were recorded."""
    try:
        calls = loader_transforms(run)
    except MissingData:
        return ()
    own = calls.filter(
        of_training(run, rank)
        & pl.col("line").is_not_null()
        & ~pl.col("file").str.contains(INSTALLED)
        & (pl.col("share") >= _MIN_SHARE)
    ).sort(["own", "name"], descending=[True, False])
    return tuple(
        WorkerCall(
            place=Place(file=row["file"], line=row["line"], symbol=row["name"] or ""),
            stage=row["stage"],
            mean=row["own"] / row["count"],
            share=min(1.0, row["share"]),
        )
        for row in own.iter_rows(named=True)
    )
