"""What one run tells about the input pipeline of a rank: how long each thing takes, and what it had to share.

Means are over the steady steps and over the spans within them. Times of the input pipeline are of one batch.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.bound.lib.device_shares import idle_by_rank
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.analyses.lib.cores import job_cores
from stepscope.analyses.lib.load_samples import SAMPLED, samples_within
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.models.fetch_parts import Call, calls

__all__ = ["FRESH", "Call", "Pipeline", "fetches", "pipeline", "threads_of"]

ENOUGH = 3  # recorded fetches: fewer tell nothing of their spread
NOTICED = 0.25  # of a thread's CPU time: with less it may be serializing the batch before, or sampling lines
FRESH = 0.2  # ns: to touch a byte of a batch from a worker for the first time (10 ms of 50 MB)
_RUN_ON_LINUX = "run it on Linux with `stepscope run -- COMMAND`"
QUICK = 0.25  # of the receipts: so many found their worker free to hand over
ASLEEP = 1.6  # times its CPU time: a receipt from an idle worker took 1.5 to 1.7
MOST_ASLEEP = 2.0  # times its CPU time: one that takes longer is a wait for a busy worker


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pipeline:
    """The measured input pipeline of a rank; times in ns, of a batch unless said otherwise."""

    rank: int
    workers: int
    prefetch: int
    persistent: bool
    batches: float  # that a step uses up
    step: float  # mean length of a training step without `restart`
    restart: float  # the part of a mean step that beginning an epoch takes
    starts: float  # the part of the steps that begin an epoch
    fetch: npt.NDArray[np.float64]
    """A row (CPU time, wall time) for each fetch: CPU time of all threads of its process, at most the wall time."""
    waited: float | None  # of a fetch: its worker could run but had no core; None if nobody watched
    collate: float
    feed: float | None  # CPU time of serializing a batch; None without workers
    transfer_cost: float  # wall time to get a batch that is ready
    held: float  # mean wait besides, for a worker whose Python is busy with its next batch
    own: float  # wall time of what the training process does with a batch
    own_cpu: float | None  # its CPU time there, in all of its `threads`
    stood: float | None  # wall time there in which it could run but had no core; None if nobody watched
    cores: float  # of the rank
    job: float | None  # cores that the rank used; None if nobody watched
    foreign: float | None  # cores that other programs used; None if nobody watched
    unseen: bool  # there is a device, which may have worked while the training process waited for a batch
    calls: tuple[Call, ...]
    alone: float = 0.0  # CPU time of the thread that makes the batch
    further: float = 0.0  # CPU time of threads beside it and the one that serializes
    size: float = 0.0  # bytes that training on the CPU touches; 0 where that is not known
    sampled: bool = False  # only one fetch of several was recorded, and `fetch` has it as often as it stands for
    batch_size: int | None = None  # samples; None with a batch sampler of the user's own
    device: bool = False  # there is one
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Means of steady steps in ns; `wait` is without what the first steps of epochs wait longer than others."""

    start: int
    end: int
    duration: float
    wait: float
    restart: float
    starts: float
    batches: float


def pipeline(run: Run, rank: int) -> Pipeline:
    """Measure the pipeline of a rank. Raises MissingData where spans of loading, steps or the cores are lacking."""
    steps, loader = _steps(run, rank), _loader(run, rank)
    workers = loader["num_workers"] or 0
    spans = _spans(run, rank, steps)
    timed, further = _fetches(spans), _further(spans)
    fetch = _of_all_threads(timed, further)
    if workers == 0 and steps.wait > 0:
        fetch *= steps.wait / steps.batches / fetch[:, 1].mean()  # no other process: the wait is the fetch
    sent = spans.filter(pl.col("stage") == "serialize")
    feed = _mean(sent, pl.coalesce("cpu", pl.col("end") - pl.col("start")))
    transfer_cost, held = _transfer_cost(spans)
    exposed = _exposed(run, rank)
    cores, ranks = job_cores(run), _ranks_on_host(run, rank)
    if not cores:
        raise MissingData("number of cores", how=_RUN_ON_LINUX)
    job, foreign, waited = (_watched(run, steps, what, ranks) for what in ("job CPU", "other CPU", "helper core wait"))
    stood = _watched(run, steps, "core wait", 1, pl.col("rank") == rank)
    making = float((fetch if not further else timed)[:, 0].mean()) + further + (feed or 0.0)
    own = (steps.duration - steps.restart - steps.wait * (1.0 if exposed is None else exposed)) / steps.batches
    threads = threads_of(run, rank)
    used = None if job is None else max(0.0, job * steps.duration / steps.batches - making)
    return Pipeline(
        rank=rank,
        workers=workers,
        prefetch=loader["prefetch_factor"] or 2,
        persistent=bool(loader["persistent_workers"]),
        batches=steps.batches,
        step=steps.duration - steps.restart,
        restart=steps.restart,
        starts=steps.starts,
        fetch=fetch,
        waited=None if waited is None or not workers else waited * steps.duration / steps.batches,
        collate=_mean(spans.filter(pl.col("stage") == "collate"), _WALL) or 0.0,
        feed=feed,
        transfer_cost=transfer_cost,
        held=held,
        own=own,
        own_cpu=None if used is None else min(used, threads * own),  # the rest is of workers, outside their fetches
        stood=None if stood is None else stood * steps.duration / steps.batches,
        cores=cores / ranks,
        job=job,
        foreign=foreign,
        unseen=exposed is None,
        calls=calls(run, rank, fetch),
        alone=float(timed[:, 0].mean()),
        further=further,
        size=_size(run, rank),
        batch_size=loader["batch_size"],
        device=_has_device(run),
        threads=threads,
        sampled=bool((spans.filter(pl.col("stage") == "fetch")["weight"] > 1).any()),
    )


def fetches(run: Run, rank: int) -> npt.NDArray[np.float64]:
    """CPU time (`Pipeline.fetch`) and wall time (ns) of each fetch that was recorded in steady steps.

    Raises MissingData as `pipeline`.
    """
    spans = _spans(run, rank, _steps(run, rank))
    return _of_all_threads(_fetches(spans), _further(spans))


def _steps(run: Run, rank: int) -> _Steps:
    table = enough_steps(run).filter((pl.col("rank") == rank) & pl.col("data_wait").is_not_null())
    if table.is_empty():
        raise MissingData("data wait of a torch DataLoader", how="run it with `stepscope run -- COMMAND`")
    begins = table["tags"].list.contains("epoch-start").fill_null(False)
    begun, later = table.filter(begins), table.filter(~begins)
    starts = begun.height / table.height if later.height else 0.0
    waited, more = (
        starts * max(0.0, _float(begun[part].mean()) - _float(later[part].mean())) for part in ("data_wait", "other")
    )
    return _Steps(
        start=table["start"].item(0),
        end=table["end"].item(-1),
        duration=_float(table["duration"].mean()),
        wait=_float(table["data_wait"].mean()) - waited,
        restart=waited + more,  # workers end in the step after the last of an epoch: in its other time
        starts=starts,
        batches=_float(table["micro_batches"].mean()) or 1.0,
    )


def _loader(run: Run, rank: int) -> dict[str, int | bool | None]:
    loaders = run.optional("loaders").filter((pl.col("rank") == rank) & pl.col("train").fill_null(False))
    if loaders.is_empty():
        raise MissingData(f"description of the training loader of rank {rank}", how=RECORD_LOADING)
    return next(loaders.iter_rows(named=True))


_WALL, _PROCESS, _ALL = pl.col("end") - pl.col("start"), pl.col("process_cpu"), pl.lit(True)


def _spans(run: Run, rank: int, steps: _Steps) -> pl.DataFrame:
    """Spans of the training loader up to the end of steady steps.

    Wherever enough fetches remain, those before steady steps are left out, when all workers make their first batches at
    once, and those of the first batch of a process, which takes longer: workers that are started anew in each epoch may
    have no others.
    """
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(
        of_training(run, rank) & pl.col("iterator").is_not_null() & (pl.col("end") <= steps.end)
    )
    later = spans.filter(pl.col("start") > pl.col("start").min().over("pid", "stage"))
    steady = later.filter(pl.col("start") >= steps.start)
    return next((some for some in (steady, later) if some.filter(pl.col("stage") == "fetch").height >= ENOUGH), spans)


def _size(run: Run, rank: int) -> float:
    """Bytes of the tensors in a batch, the mean of the first recorded ones of the workers; 0 with a device."""
    if _has_device(run):
        return 0.0
    rows = run.optional("batch_tensors").filter(of_training(run, rank))
    return _float(rows["bytes"].sum()) / max(1, rows.select("pid").n_unique())


def _fetches(spans: pl.DataFrame) -> npt.NDArray[np.float64]:
    """CPU and wall time of each recorded fetch, one that stands for several as often, in order of time."""
    rows = spans.filter(pl.col("stage") == "fetch").sort("start")
    if rows.height < ENOUGH:
        raise MissingData(f"{ENOUGH} fetches with spans", how="train for more steps, or record it with --loader all")
    times = rows.select(cpu=pl.min_horizontal(pl.col("cpu").fill_null(_WALL), _WALL), wall=_WALL).to_numpy()
    repeated: npt.NDArray[np.float64] = np.repeat(times, rows["weight"].to_numpy(), axis=0).astype(np.float64)
    return repeated


def _transfer_cost(spans: pl.DataFrame) -> tuple[float, float]:
    """Wall time of taking a batch that is ready from a worker that is free, and mean wait besides for one that is not.

    The training process sleeps for a third of the first, until the worker has answered.
    """
    received = spans.filter(pl.col("stage") == "receive")
    sent = _mean(spans.filter(pl.col("stage") == "send index"), _WALL) or 0.0
    used = _mean(received, pl.coalesce("cpu", _WALL)) or 0.0
    quick = _float(received.select(_WALL.quantile(QUICK, "lower")).item()) if received.height else 0.0
    free = quick if used <= quick <= MOST_ASLEEP * used else ASLEEP * used
    return sent + free, max(0.0, (_mean(received, _WALL) or 0.0) - free)


def _further(spans: pl.DataFrame) -> float:
    """CPU time in a fetch of threads of a worker beside the one that makes the batch and the one that serializes; 0
    where it is little, or nobody counted it."""
    own = spans.filter(pl.col("worker").is_not_null())
    process = _mean(own.filter((pl.col("stage") == "collate") & pl.col("process_cpu").is_not_null()), _PROCESS)
    thread = _mean(own.filter((pl.col("stage") == "fetch") & pl.col("cpu").is_not_null()), pl.col("cpu"))
    if process is None or thread is None:
        return 0.0
    further = process - thread - (_mean(own.filter(pl.col("stage") == "serialize"), pl.col("cpu").fill_null(0)) or 0.0)
    return further if further >= NOTICED * thread else 0.0


def _of_all_threads(timed: npt.NDArray[np.float64], further: float) -> npt.NDArray[np.float64]:
    """With the CPU time of further threads, as far as a fetch is not shorter: the model has one thread for it."""
    cpu, wall = timed.T
    return np.stack([np.minimum(cpu + further, wall), wall], axis=1)


def _mean(spans: pl.DataFrame, value: pl.Expr) -> float | None:
    if spans.is_empty():
        return None
    return _float(spans.select((value * pl.col("weight")).sum() / pl.col("weight").sum()).item())


def _has_device(run: Run) -> bool:
    return has_gpu(run) or bool(run.optional("steps", "device_duration")["device_duration"].is_not_null().any())


def _exposed(run: Run, rank: int) -> float | None:
    """Share of the waits in which no device works; None where there is a device and no trace tells."""
    if not _has_device(run):
        return 1.0
    known = idle_by_rank(run).get(rank)
    return known.wait_exposed if known else None


def _ranks_on_host(run: Run, rank: int) -> int:
    processes = run.optional("processes", "rank", "host")
    host = processes.filter(pl.col("rank") == rank)["host"].first() if processes.height else None
    return max(1, processes.filter(pl.col("host").eq_missing(pl.lit(host)))["rank"].n_unique())


def threads_of(run: Run, rank: int) -> int:
    """Threads that operators of a rank compute in; 1 where nobody counted them."""
    known = run.optional("processes", "rank", "threads").filter(pl.col("rank") == rank)["threads"].drop_nulls()
    return max(1, int(known[0])) if known.len() else 1


def _watched(run: Run, steps: _Steps, what: str, ranks: int, whose: pl.Expr = _ALL) -> float | None:
    """Mean of samples while steady steps ran, of the machine for each rank of the host.

    The first may be about the start of the job, and counts only if alone.
    """
    whole = samples_within(run, what, steps.start, steps.end).filter(whose)
    within = whole if whole.height else samples_within(run, what, steps.start - SAMPLED, steps.end).filter(whose)
    return _float(within["value"].mean()) / ranks if within.height else None


def _float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
