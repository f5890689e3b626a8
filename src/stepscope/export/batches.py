"""The way of each batch: index sent, fetched, serialized, received, used in a step."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import polars as pl

__all__ = ["BATCH", "Way", "used", "ways"]

BATCH = ("loader", "iterator", "epoch", "batch")
"""What names a batch of a rank."""

_STATIONS = ("send index", "fetch", "serialize", "receive")


@dataclass(frozen=True, slots=True)
class Way:
    """Rows of the spans that a batch passes, in order, each beginning no sooner than the one before.

    `use` is the row of its use in a step, None if that is not known. `backwards` counts stations that are left out
    because they began before one that they follow.
    """

    spans: tuple[int, ...]
    use: int | None
    backwards: int


def used(steps: pl.DataFrame, spans: pl.DataFrame, loaders: pl.DataFrame) -> pl.DataFrame:
    """Steps and, inside of them, the uses of batches: from having one to the next, or to the end of the step.

    Uses have a `batch` and the rest of its name, and no parts; those of loaders that do not train are left out. Sorted
    by start, the longer first.
    """
    training = loaders.filter(pl.col("train").fill_null(False))["loader"].implode()
    of_training = pl.col("loader").is_in(training) & pl.col("batch").is_not_null()
    waits = spans.filter((pl.col("stage") == "wait") & pl.col("worker").is_null() & of_training)
    had = waits.select(*BATCH, "pid", had="end").unique(BATCH, keep="first").sort("had")
    within = had.join_asof(
        steps.select("rank", "step", "pid", "start", "end").sort("start"),
        left_on="had", right_on="start", by="pid", strategy="backward", check_sortedness=False,
    ).filter(pl.col("had") < pl.col("end"))  # fmt: skip
    following = pl.col("had").shift(-1).over("pid", "step")
    uses = within.with_columns(start="had", end=pl.coalesce(following, "end")).drop("had")
    return pl.concat([steps, uses], how="diagonal").sort("start", "end", descending=[False, True], maintain_order=True)


def ways(spans: pl.DataFrame, steps: pl.DataFrame) -> Iterator[Way]:
    """The ways of all batches of which two stations or more are known; `steps` as from `used`."""
    uses = {
        row[:-1]: row[-1] for row in steps.with_row_index("row").drop_nulls("batch").select(*BATCH, "row").iter_rows()
    }
    stations = (
        spans.with_row_index("row")
        .filter(pl.col("stage").is_in(_STATIONS) & pl.all_horizontal(pl.col(BATCH).is_not_null()))
        .with_columns(station=pl.col("stage").replace_strict(_STATIONS, range(len(_STATIONS)), return_dtype=pl.Int8))
        .unique((*BATCH, "stage"), keep="first", maintain_order=True)
        .sort(*BATCH, "station")
    )
    rows = stations.select(*BATCH, "row", "start").iter_rows()
    starts = steps["start"]
    for key, own in groupby(rows, lambda row: row[: len(BATCH)]):
        passed: list[tuple[int, int]] = []
        backwards = 0
        for *_, row, start in own:
            if passed and start < passed[-1][1]:
                backwards += 1
            else:
                passed.append((row, start))
        use = uses.get(key)
        if use is not None and starts[use] < passed[-1][1]:
            use, backwards = None, backwards + 1
        if len(passed) + (use is not None) > 1 or backwards:
            yield Way(tuple(row for row, _ in passed), use, backwards)
