"""How long training waits for the interpreter while another Python thread of its process has it."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.sample_work import gpu_ranks
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["GilWait", "gil_waits"]

MIN_SECONDS = 3  # that were read: the first one or two hold the start of the thread
BUSY = 0.2  # of a core: the thread must have computed this much
MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
OF_IDLE = 0.5  # of the idle time: the thread's CPU time must explain so much of it


@dataclass(frozen=True, slots=True, kw_only=True)
class GilWait:
    """A training thread that neither runs, nor is ready, for `idle` ns per step outside of waits for workers.

    `ready`: ns per step in which it had no core. `loads`: it loads data itself, and waits there, too. `busy` is the CPU
    time of `thread` as a part of the wall time, `place` its line.
    """

    rank: int
    step: float
    idle: float
    ready: float
    loads: bool
    thread: str
    busy: float
    place: Place | None


def gil_waits(run: Run) -> tuple[GilWait, ...]:
    """A row for each rank of a job of one process on the CPU in which a thread is busy. Of several processes, and
    where a GPU computes, a thread that sleeps may wait for them. Raises MissingData without steps and samples."""
    steps, times = steady_steps(run), run.optional("thread_times")
    if _has_more_ranks(run) or gpu_ranks(run):
        return ()
    if times.is_empty():
        steady_samples(run)  # who takes them reads the times, too
        return ()
    found = (_of_rank(run, times, steps.filter(rank=rank), rank) for rank in steps["rank"].unique())
    return tuple(wait for wait in found if wait is not None and wait.idle >= MIN_SHARE * wait.step)


def _has_more_ranks(run: Run) -> bool:
    """Of the job: what is open may be one rank of it."""
    world = run.optional("processes", "world_size")["world_size"].drop_nulls()
    return run.optional("steps", "rank")["rank"].n_unique() > 1 or bool((world > 1).any())


def _of_rank(run: Run, times: pl.DataFrame, steps: pl.DataFrame, rank: int) -> GilWait | None:
    own = times.filter((pl.col("rank") == rank) & pl.col("time").is_between(steps["start"].min(), steps["end"].max()))
    training = own.filter("training")
    if len(training) < MIN_SECONDS:
        return None
    span = float(training["span"].sum())
    others = own.filter(~pl.col("training")).group_by("thread").agg(pl.col("cpu").sum()).sort("cpu", descending=True)
    step = float(steps["duration"].sum() / len(steps))
    ready = float(training["ready"].sum()) / span
    behind_workers = _behind_workers(run, steps, rank)
    idle = max(0.0, 1 - float(training["cpu"].sum()) / span - ready - (behind_workers or 0.0) / step)
    busy = float(others["cpu"][0]) / span if len(others) else 0.0
    if busy < max(BUSY, OF_IDLE * idle):
        return None
    thread = str(others["thread"][0])
    place = _place(own.filter(~pl.col("training") & (pl.col("thread") == thread)))
    return GilWait(
        rank=rank, step=step, idle=idle * step, ready=ready * step, loads=behind_workers is None, thread=thread,
        busy=busy, place=place,
    )  # fmt: skip


def _behind_workers(run: Run, steps: pl.DataFrame, rank: int) -> float | None:
    """The mean data wait for batches that other processes load, ns; None: the training process loads them itself."""
    loaders = run.optional("loaders").filter((pl.col("rank") == rank) & (pl.col("num_workers") > 0))
    return float(steps["data_wait"].fill_null(0).mean() or 0.0) if len(loaders) else None  # type: ignore[arg-type]


def _place(rows: pl.DataFrame) -> Place | None:
    """The line that was seen for most CPU time; lines that call nothing before others, as they hold the interpreter."""
    seen = rows.drop_nulls(["file", "line"]).with_columns(calls=pl.col("call").is_not_null())
    lines = seen.group_by("calls", "file", "line", "function", "text").agg(pl.col("cpu").sum())
    for row in lines.sort("calls", "cpu", "line", descending=[False, True, False]).head(1).iter_rows(named=True):
        return Place(file=row["file"], line=row["line"], symbol=row["function"] or "", text=(row["text"] or "").strip())
    return None
