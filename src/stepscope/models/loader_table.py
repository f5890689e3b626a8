"""What other numbers of workers, and other changes of the input pipeline, would make of a step.

One row is a number of workers, with all the other changes that were asked for. `step` is the mean training step
expected (ns), between `low` and `high`; `saved` what it is less than the recorded steps take for as many samples,
negative if it is longer; `limited_by` says what a step then waits for: training (the training process and its device),
workers, cores, uneven batches, where a late one delays those behind it, or no workers, where a batch is made and then
used. `recorded` marks the number of workers that the run had. `basis` says what the range rests on.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import BadInput, MissingData
from stepscope.core.run import Run
from stepscope.core.schema import Column, polars_schema
from stepscope.models.calibration import calibration_of
from stepscope.models.loader_cases import AS_RECORDED, different, sizes
from stepscope.models.loader_model import LoaderChange, fit, predict
from stepscope.models.pipeline import pipeline

__all__ = ["COLUMNS", "loader_table"]

COLUMNS = (
    Column("rank", pl.Int32, None, "rank of the recorded process"),
    Column("workers", pl.Int64, "count", "loader workers"),
    Column("step", pl.Int64, "ns", "training step expected, mean"),
    Column("low", pl.Int64, "ns", "it is expected to be at least this"),
    Column("high", pl.Int64, "ns", "and at most this"),
    Column("saved", pl.Int64, "ns", "less than recorded steps take for as many samples; negative: it takes longer"),
    Column("limited_by", pl.String, None, "training, workers, cores, uneven batches or no workers"),
    Column("recorded", pl.Boolean, None, "true: the run had as many workers, and nothing else is different"),
    Column("basis", pl.String, None, "what the range rests on"),
)


def loader_table(
    run: Run, workers: Sequence[int], change: LoaderChange, trial: Run | None = None, rank: int | None = None
) -> pl.DataFrame:
    """Rows of COLUMNS for each of `workers`, with `change` besides. `rank` None: the one that waits longest.

    `trial` is the run of a trial of the same program (`calibration`). Raises MissingData where a run does not hold what
    the model needs, or was too disturbed.
    """
    chosen = _slowest(run) if rank is None else _known(run, rank)
    known = pipeline(run, chosen)
    model = fit(known, calibration=None if trial is None else calibration_of(trial, chosen))
    now = round(sizes(known, change) * (known.step + known.restart))
    rows = [
        (
            chosen, found.workers, found.step_ns, found.low_ns, found.high_ns, now - found.step_ns, found.limited_by,
            different(known, replace(change, workers=found.workers)) == AS_RECORDED, found.basis,
        )
        for found in predict(model, [replace(change, workers=number) for number in workers])
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=polars_schema(COLUMNS), orient="row")


def _known(run: Run, rank: int) -> int:
    ranks = sorted(enough_steps(run)["rank"].unique().to_list())
    if rank not in ranks:
        advice = f"name one of {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else "leave it out: there is one"
        raise BadInput("--rank", f"this run has no rank {rank}", next_step=advice)
    return rank


def _slowest(run: Run) -> int:
    waits = enough_steps(run).filter(pl.col("data_wait").is_not_null()).group_by("rank").agg(pl.col("data_wait").mean())
    if waits.is_empty():
        raise MissingData("data wait of a torch DataLoader", how="run it with `stepscope run -- COMMAND`")
    return int(waits.sort(["data_wait", "rank"], descending=[True, False])["rank"][0])
