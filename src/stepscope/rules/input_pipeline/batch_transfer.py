"""Copying batches from workers to training takes a large share of data-loading CPU time.

## What it finds
Copies are the largest part of data-loading CPU time, 30 % or more. torch's own collate function copies tensors into
shared memory. The feeder thread of each worker pickles the batch and copies the rest. In addition, training waits for
data for more than 5 % of its steps, and no number of workers is enough on the available cores. Or training on the CPU
is the limit, waiting or not, and batches of an eighth of the size save more than 5 % by simulation. Batches below
256 KiB are ignored.

## Why it costs time
Copies need a core and memory bandwidth, and scale with the size of a batch. Training on the CPU is the first in its
process to touch the pages that a worker wrote: about 0.2 ns per byte. It lets go of them when the next batch arrives:
as much again. Lists and arrays are not tensors: they go through a pipe as well. The feeder thread runs beside the next
batch, so its time is not part of loading one.

## What to do
Transfer less. Send pictures as `uint8` (a quarter of `float32`, an eighth of `float64`) and convert them on the device.
Use float32 or float16 instead of NumPy's float64. Return tensors rather than lists or arrays, and drop what training
does not use.

## How the gain is predicted
The loader is simulated with copies half as long (float64 to float32) and an eighth as long (float64 to uint8). Training
on the CPU then touches fewer new bytes, too. The range includes the known errors of the simulation. Where training is
the limit, it starts at half of the sampled time in which the loop's line frees the last batch, or at zero.

## When it is wrong
The advice does not know which precision training needs: the evidence lists the types. With very many tiny samples,
torch's collate function is slow because of their number, not their size. Return whole batches then. A full /dev/shm
looks the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import polars as pl

from stepscope.analyses.bound.lib.input_waits import MIN_SHARE as MIN_WAIT
from stepscope.analyses.host.lines import lines
from stepscope.analyses.input_pipeline.lib.hot_lines import statement_lines
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import InputStall, described, faster, gain, heaviest, input_stall, stage_evidence
from stepscope.models.loader_model import predict
from stepscope.models.pipeline import FRESH

__all__ = ["RULE"]

MIN_SHARE = 0.3  # of the CPU time of making a batch, as for collating: both are copies
LARGE = 1 << 18  # bytes: of less it is not the size that takes time (copied in 50 us), but that it is handed over
_LOOP = r"^\s*(async )?for\b"
KINDS = 2  # of numbers that are told: pictures and labels
FASTER = (2.0, 8.0)  # float64 to float32, and to uint8


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run) or _touching(run)
    part = found.parts[0] if found is not None else None
    if found is None or part is None or not part.copies or part.share < MIN_SHARE:
        return
    rank = found.model.pipeline.rank
    if _bytes(run, rank) < LARGE:
        return
    touching = heaviest(found) is None
    if touching and not _slow_to_touch(found):
        return
    saved = gain(found, faster(["batch"], FASTER), "batches 2× to 8× smaller")
    freed = _freed(run, rank) if touching else 0.0
    yield Finding(
        title=Title(
            "Moving batches from workers to training takes {} of data-loading CPU time", (Value(part.share, "ratio"),)
        ),
        cause="data-reading",
        evidence=stage_evidence(found, part, *_batch(run, rank), *_freeing(freed, saved)),
        gain=_of_training(saved, freed * (1 - 1 / FASTER[0])) if touching else saved,
        advice=_ADVICE,
        where=statement_lines(run, found.ranks[0], found.data_set, ("return", "yield")),
        ranks=found.ranks,
        replaces=("too-many-workers",),
    )


def _touching(run: Run) -> InputStall | None:
    """The pipeline of the rank that takes longest to touch its batches on the CPU, though no rank waits; None where
    batches of an eighth of the size would save less than MIN_WAIT of the step."""
    if has_gpu(run):
        return None
    means = enough_steps(run).group_by("rank").agg(pl.col("duration").mean()).sort("rank").iter_rows()
    saved = {rank: (1 - 1 / FASTER[-1]) * FRESH * _tensors(run, rank) / step for rank, step in means}
    rank = max(saved, key=lambda rank: saved[rank], default=None)
    return None if rank is None or saved[rank] <= MIN_WAIT else described(run, rank)


def _slow_to_touch(found: InputStall) -> bool:
    """Whether training is the limit, on the CPU, and smaller batches make its steps shorter by MIN_WAIT."""
    if found.best is not None or found.limited_by != "training" or not found.model.pipeline.size:
        return False
    (smallest,) = predict(found.model, faster(["batch"], FASTER[-1:]))
    return found.now - smallest.step_ns > MIN_WAIT * found.now


def _freed(run: Run, rank: int) -> float:
    """Sampled time (ns per step) at the line of the loop over the loader while nothing is waited for: there the last
    batch is freed, its memory given back. At most what that takes for its bytes; 0 where no lines were sampled."""
    if run.optional("stacks").filter(pl.col("rank") == rank).is_empty():
        return 0.0
    loops = lines(run).filter((pl.col("rank") == rank) & pl.col("text").str.contains(_LOOP))
    waiting = loops.filter(pl.col("phase") == "data_wait").select("file", "line").unique()
    free = loops.filter(pl.col("phase") != "data_wait").join(waiting, on=["file", "line"], how="semi")
    return min(float(free["time"].sum()), FRESH * _tensors(run, rank))


def _freeing(freed: float, saved: Gain) -> tuple[Evidence, ...]:
    if not freed:
        return ()
    share = freed / saved.step_ns
    return (Evidence(label="batch free time", value=freed, unit="ns", source="lines", share=share),)


def _of_training(saved: Gain, least: float) -> Gain:
    """A gain that no wait holds, and at least as much as was sampled, where the simulation is sure of less."""
    return replace(saved, low_ns=max(saved.low_ns, min(saved.high_ns, round(least))), pool="host")


def _tensors(run: Run, rank: int) -> float:
    """Bytes of the tensors of a recorded batch; 0 where they were not recorded."""
    return float(_kinds(run, rank)["bytes"].sum())


def _bytes(run: Run, rank: int) -> float:
    """Of a batch: tensors, and what goes through the pipe; infinite where that was not recorded."""
    sent = run.optional("loader_spans").filter(of_training(run, rank) & (pl.col("stage") == "send"))["count"].mean()
    kinds = _kinds(run, rank)
    return float(kinds["bytes"].sum()) + sent if kinds.height and isinstance(sent, float) else inf


def _batch(run: Run, rank: int) -> tuple[Evidence, ...]:
    """What the first recorded batch of a worker consists of mostly; nothing where it was not recorded."""
    return tuple(
        Evidence(label=f"{kind} bytes per batch", value=size, unit="bytes", source="batch_tensors")
        for kind, size in _kinds(run, rank).head(KINDS).iter_rows()
    )


def _kinds(run: Run, rank: int) -> pl.DataFrame:
    """Bytes in the first recorded batch of a worker by kind of number (mean), the largest first."""
    rows = run.optional("batch_tensors").filter(of_training(run, rank))
    workers = max(1, rows.select("pid").n_unique())
    kinds = rows.group_by("type").agg(pl.col("bytes").sum() / workers)
    return kinds.sort(["bytes", "type"], descending=[True, False])


_ADVICE = (
    Advice(
        text="Return images as uint8, and convert whole batches on the device",
        code="return torch.from_numpy(pixels)  # uint8, in __getitem__\n"
        "batch = batch.to(device, non_blocking=True).float().div_(255)  # in the loop",
    ),
    Advice(text="Convert NumPy arrays from float64 to float32", code="torch.from_numpy(values.astype(np.float32))"),
    Advice(text="Return tensors from __getitem__: lists and arrays are pickled and sent through a pipe"),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly by copying float64, and training needs none; the fix hands over uint8."""
    feed = 4 if fixed else 36
    parts = (("sample", "data.Pictures", 3, 3), ("collate", "torch.c", 1, 1))
    length = 10 if fixed else 20
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, feed=feed, used=(feed + 4) / length)


RULE = Rule(check=check, example=example, explains="input-bound")
