"""How two runs were set up: what they ran, on what, with which batches, workers and precision."""

from collections.abc import Iterable

import polars as pl

from stepscope.analyses.lib.cores import job_cores
from stepscope.analyses.lib.job_command import job_command
from stepscope.analyses.operators.lib.flops import operator_flops
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.compare.breakdowns import steps_of_ranks
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, stack

__all__ = ["Setting", "settings_of"]

Setting = str | int | float | None

_PROCESS = {
    "framework": "framework", "python": "Python", "world_size": "ranks in the job", "backend": "backend",
    "threads": "threads for operators", "matmul_precision": "float32 matmul precision", "host": "host",
}  # fmt: skip
_LOADER = {
    "dataset": "data set", "batch_size": "batch size", "num_workers": "loader workers", "prefetch_factor":
    "prefetch factor", "pin_memory": "pinned memory", "persistent_workers": "persistent workers",
}  # fmt: skip
_OPTIMIZER = {"name": "optimizer", "foreach": "foreach", "fused": "fused", "elements": "parameters"}
_FIGURES = 3  # of FLOPs: runs that differ by less do the same work, with other kernels here and there


def settings_of(run: Run) -> dict[str, Setting]:
    """What is known of a run by the name of the setting; None where the run does not tell. All runs give all names."""
    processes, optimizers = run.optional("processes"), run.optional("optimizers")
    loaders = run.optional("loaders")
    train = loaders.filter(pl.col("train").fill_null(False))
    named = {
        **_told(processes, _PROCESS),
        **_devices(run),
        **_told(train if train.height else loaders, _LOADER),
        **_told(optimizers, _OPTIMIZER),
    }
    ranks = sorted({*processes["rank"].drop_nulls(), *run.per_rank(_event_ranks, stack)["rank"].drop_nulls()})
    samples, passes = _batches(run)
    return {
        "command": " ".join(job_command(run) or ()) or None, **named, "ranks opened": len(ranks) or None,
        "cores": job_cores(run), **_work(run), "samples in a step of a rank": samples,
        "backward passes in a step": passes,
    }  # fmt: skip


def _event_ranks(run: Run) -> pl.DataFrame:
    """The ranks of which there are steps or events."""
    return pl.concat([run.optional(table, "rank").unique() for table in ("steps", "host", "device")]).unique()


def _told(table: pl.DataFrame, names: dict[str, str]) -> dict[str, Setting]:
    """The one value of each column, or all of them in words where rows differ."""
    return {label: _one(table[column].drop_nulls().unique().sort()) for column, label in names.items()}


def _one(values: Iterable[Setting]) -> Setting:
    distinct = [("yes" if value else "no") if isinstance(value, bool) else value for value in values]
    return distinct[0] if len(distinct) == 1 else ", ".join(map(str, distinct)) or None


def _devices(run: Run) -> dict[str, Setting]:
    """Names and number of the devices that did work.

    All that the source describes stand in for devices it does not name, as where a job sees them under other numbers.
    """
    described = run.optional("devices")
    used = run.per_rank(_used, stack)
    known = described.join(used, on=["rank", "device"], how="semi") if used.height else described
    rows = known if known["name"].count() else described
    names, capabilities = (rows[column].drop_nulls().unique().sort() for column in ("name", "capability"))
    return {
        "device": _one(names), "devices": used.height or described.height or None,
        "compute capability": _one(capabilities),
    }  # fmt: skip


def _used(run: Run) -> pl.DataFrame:
    return run.optional("device", "rank", "device").drop_nulls().unique().sort("rank", "device")


def _work(run: Run) -> dict[str, Setting]:
    """What the model computes, as far as shapes were recorded: equal figures say that both runs do the same work."""
    sums = run.per_rank(_work_of_rank, stack)
    by_precision = sums.group_by("precision").agg(pl.col("flops").sum()).filter(pl.col("flops") > 0)
    most = by_precision.drop_nulls("precision").sort("flops", "precision", descending=True)["precision"].head(1)
    steps = int(steps_of_ranks(run)["steps"].sum())
    flops = float(sums["flops"].sum()) / steps if steps and sums.height else 0.0
    gigas = float(f"{flops / 1e9:.{_FIGURES}g}")
    return {"precision of most FLOPs": _one(most), "GFLOP in a traced step of a rank": gigas or None}


def _work_of_rank(run: Run) -> pl.DataFrame:
    return operator_flops(run).group_by("rank", "precision").agg(pl.col("flops").sum()).sort("rank", "precision")


def _batches(run: Run) -> tuple[Setting, Setting]:
    try:
        means = steady_steps(run).select(pl.col("samples", "micro_batches").mean()).row(0)
    except MissingData:
        return None, None
    samples, passes = (None if mean is None else round(mean, 1) for mean in means)
    return _whole(samples), _whole(passes)


def _whole(number: float | None) -> Setting:
    return int(number) if number is not None and number.is_integer() else number
