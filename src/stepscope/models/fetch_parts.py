"""What a fetch is made of: the parts that its calls have in it.

Samples are recorded in fewer batches than fetches are, and batches are not all alike: times of calls in a few of
them are no times of the mean batch. So the parts are those that calls have of the recorded samples, and these, with
the collating that is recorded in every batch, are the whole of a fetch: what torch's own fetcher does goes with the
samples.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Call", "both", "calls"]

NUMBER = 4  # bytes of one, where those of a sample were not recorded
_COLLATE, _TRANSFORM = "collate", "transform"
_OF_TORCH = "torch.utils.data._utils.collate."


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A data set, transform, decoder, reader or collate function: its own parts of CPU and other time of a fetch.

    `sample` are the bytes that a transform is given or makes of one sample, 0 where that is not known.
    """

    stage: str
    name: str
    cpu: float
    other: float
    sample: float = 0.0

    @property
    def copies(self) -> bool:
        """Whether it does nothing but copy: torch's own collating."""
        return self.stage == _COLLATE and self.name.startswith(_OF_TORCH)


def calls(run: Run, rank: int, fetch: npt.NDArray[np.float64]) -> tuple[Call, ...]:
    """Calls inside the fetches, rows (CPU time, wall time, ns), those of one name together; none where no sample was
    recorded. Parts of CPU time add up to 1 where samples were, and so do those of other time where there is some."""
    try:
        table = loader_transforms(run).filter(of_training(run, rank))
    except MissingData:
        return ()
    sums = table.group_by("stage", "name", maintain_order=True).agg(pl.col("wall", "cpu", "own", "share").sum())
    cpu, wall = (float(mean) for mean in fetch.mean(axis=0))
    usual = cpu / max(wall, 1.0)
    on = pl.when((pl.col("cpu") > 0) & (pl.col("wall") > 0)).then((pl.col("cpu") / pl.col("wall")).clip(0, 1))
    running = sums.with_columns(running=on.otherwise(usual))
    working = _parts(running, pl.col("running"), wall / max(cpu, 1.0))
    idle = _parts(running, 1 - pl.col("running"), wall / max(wall - cpu, 1.0))
    sizes = _samples(run, rank)
    return tuple(
        Call(
            stage=row["stage"], name=row["name"] or row["stage"], cpu=on_core, other=off_core,
            sample=sizes.get(row["name"], 0.0) if row["stage"] == _TRANSFORM else 0.0,
        )
        for row, on_core, off_core in zip(running.iter_rows(named=True), working, idle, strict=True)
    )  # fmt: skip


def both(run: tuple[Call, ...], trial: tuple[Call, ...]) -> tuple[Call, ...]:
    """Calls of a run and of a trial of it, with the mean of their parts of CPU time.

    In the run batches are made beside training as it is, and few may be recorded; in the trial all are. A call that
    only one of them has takes nothing in the other, as rare ones do. How long they wait is the run's: for a trial right
    after it files are in memory.
    """
    if not run or not trial:
        return run or trial
    first, second = ({(call.stage, call.name): call for call in calls} for calls in (run, trial))
    return tuple(
        replace(
            first.get(key, call),
            cpu=sum(known[key].cpu for known in (first, second) if key in known) / 2,
            other=first[key].other if key in first else 0.0,
        )
        for key, call in (second | first).items()
    )


def _samples(run: Run, rank: int) -> dict[str, float]:
    """Mean bytes of a sample before or after each transform, whichever are more; guessed for older recordings."""
    sizes = run.optional("transform_sizes").filter(of_training(run, rank))
    guessed = NUMBER * pl.max_horizontal("before", "after")
    means = sizes.group_by("name").agg(pl.coalesce("bytes", guessed).mean())
    return {str(name): size for name, size in means.drop_nulls().iter_rows()}


def _parts(running: pl.DataFrame, part: pl.Expr, scale: float) -> list[float]:
    """The part of each row in that time of a fetch; `scale` is the whole fetch over that time."""
    rows = running.select(
        time=pl.col("own") * part, share=pl.col("share") * part, collates=pl.col("stage") == _COLLATE
    )  # fmt: skip
    samples = float(rows.filter(~pl.col("collates"))["time"].sum())
    collating = [min(1.0, scale * share) if collates else 0.0 for _, share, collates in rows.iter_rows()]
    left = max(0.0, 1 - sum(collating))
    return [
        own if collates else (left * time / samples if samples > 0 else 0.0)
        for own, (time, _, collates) in zip(collating, rows.iter_rows(), strict=True)
    ]
