"""Which code makes the samples: what spans and samples of loading name, for a rule that points at a line."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["WorkerCall", "lines_inside", "of_training", "slowest_calls", "slowest_lines"]

_MIN_SHARE = 0.1  # of the time in fetch: a call with less is beside the point
_MIN_SAMPLES = 5  # fewer samples name no line
_MOST_LINES = 2  # of a call
_CALLED = (
    "__call__",
    "forward",
    "__getitem__",
    "__getitems__",
    "__iter__",
    "__next__",
)  # of a transform that is named by its class
_LAST_LINE = 1 << 30
_LIBRARY = r"/(site-packages|dist-packages|lib/python3[^/]*)/"


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
        & ~pl.col("file").str.contains(_LIBRARY)
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


def slowest_lines(run: Run, rank: int) -> tuple[Place, ...]:
    """Lines of the user's own in the workers of what a rank trains on, by time; none where none were sampled."""
    try:
        lines = loader_lines(run)
    except MissingData:
        return ()
    own = lines.filter(
        of_training(run, rank)
        & pl.col("line").is_not_null() & ~pl.col("file").str.contains(r"^torch/")
    ).group_by("file", "line", "function", maintain_order=True).agg(
        pl.col("text").first(), pl.col("samples", "share").sum()
    )  # fmt: skip
    named = own.filter((pl.col("samples") >= _MIN_SAMPLES) & (pl.col("share") >= _MIN_SHARE))
    return tuple(
        Place(file=row["file"], line=row["line"], symbol=row["function"] or "", text=row["text"] or "")
        for row in named.sort(["share", "file", "line"], descending=[True, False, False]).iter_rows(named=True)
    )


def lines_inside(run: Run, rank: int, call: Place | None) -> tuple[Place, ...]:
    """The busiest sampled lines of a function, in workers or while training waits; else where it is defined."""
    if call is None:
        return ()
    inside: dict[Place, int] = {}
    end = _next_definition(run, call) - 1
    for table in (loader_lines, lines):
        try:
            rows = table(run)
        except MissingData:
            continue
        chosen = of_training(run, rank) if table is loader_lines else (
            (pl.col("rank") == rank) & (pl.col("phase") == "data_wait")
        )  # fmt: skip
        names = [call.symbol.rpartition(".")[2], *_CALLED]
        named = (
            (pl.col("file") == call.file) & pl.col("function").is_in(names) & pl.col("line").is_between(call.line, end)
        )
        for row in rows.filter(chosen & named).drop_nulls("line").iter_rows(named=True):
            text = (row["text"] or "").strip()
            place = Place(file=row["file"], line=row["line"], symbol=row["function"], text=text)
            inside[place] = inside.get(place, 0) + row["samples"]
    busy = sorted((place for place in inside if inside[place] >= _MIN_SAMPLES), key=lambda place: -inside[place])
    return tuple(busy[:_MOST_LINES]) or (call,)


def _next_definition(run: Run, call: Place) -> int:
    """The line at which the next known call of the same file begins."""
    try:
        calls = loader_transforms(run).filter((pl.col("file") == call.file) & (pl.col("line") > call.line))
    except MissingData:
        return _LAST_LINE
    return min(calls["line"].drop_nulls().to_list(), default=_LAST_LINE)
