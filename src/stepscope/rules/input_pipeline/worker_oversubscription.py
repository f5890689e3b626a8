"""Libraries in the workers start threads of their own, and the cores are full.

## What it finds
Training waits for data for more than 5 % of its steps, and all cores are in use. The workers' extra threads take half
as much CPU time as the threads that load and send batches, or more. This is the CPU time of a worker's process minus
that of these two threads. No number of workers is enough on the available cores.

## Why it costs time
Each worker is a process already. If each also starts one thread per core, there are many times more threads than cores.
A call ends when its last thread has had a core. Until then the others wait, or spin and take cores from workers and
training.

## What to do
Use one thread per worker. torch does that for its own operators. NumPy (OpenBLAS, MKL), OpenCV and your own
`torch.set_num_threads` do not follow it. If fewer workers than cores are enough, more threads per worker also use the
cores. Do not do both.

## How the gain is predicted
The loader is simulated with less CPU time per batch: from a third to none of the extra threads' time remains. One run
does not tell how much of it the single thread must then do itself. Up to a third was measured on two cores: steps of 17
and 18 ms became 11 ms. Thread teams no larger than the cores spin while they wait, and so does the loading thread. Then
up to all of the loading time may go. With two threads in each of two workers on two cores, steps of 490 ms became 12
ms. The range includes the known errors of the simulation.

## When it is wrong
Threads that load no batches also count, such as those of a prefetching client. If the cores are not full, more threads
finish a batch sooner, and the rule is silent. Without a collate function (`batch_size=None`), CPU times of processes
are not recorded.
"""

from collections.abc import Iterator
from math import inf

import polars as pl

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.input_stall import (
    COMPUTING,
    InputStall,
    cores,
    gain,
    input_stall,
    making,
    pays,
    waiting_evidence,
)
from stepscope.models.loader_model import LoaderChange, predict
from stepscope.models.pipeline import Pipeline

__all__ = ["RULE"]

THREADED = 0.5  # of the CPU time of the thread that makes a batch: with less, one thread would be no better
FULL = 0.85  # of the cores in use: with less, further threads have cores that nobody else wants
STAYS = (0.33, 0.0)
"""Of the CPU time of further threads, what one thread then does itself: with 4 and 8 threads in each of 2 workers on 2
cores it was from less than a tenth to a third."""

ALL = LoaderChange(faster=(("fetch", inf),), persistent=True)
"""Threads of a team that is no larger than the cores spin while they wait for each other, and so does the one that
makes the batch: what of its time is work is not known. With 2 threads in each of 2 workers on 2 cores: a fiftieth."""

_LIBRARIES = {
    "OpenCV": r"\bcv2\b",
    "SciPy": r"\bscipy\b",
    "Numba": r"\bnumba\b",
    "Polars": r"\b(pl|polars)\b",
    "NumPy": r"\b(np|numpy)\b",
    "torch": r"\btorch\b",
}
"""Libraries that start threads, and how they are named in lines of code."""

BESIDE = 2  # maximum threads per worker that belong to no team: the feeder, and stepscope's own that looks at lines


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    if found is None or found.limited_by not in COMPUTING:
        return
    measured = found.model.pipeline
    used = (measured.job or 0.0) + (measured.foreign or 0.0)
    if measured.further < max(THREADED * measured.alone, 1.0) or used < FULL * measured.cores:
        return
    threads = _threads(run, measured.rank)
    spins = threads is not None and threads - BESIDE <= measured.cores
    changes = (_with_one_thread(measured, STAYS[0]), ALL if spins else _with_one_thread(measured, STAYS[1]))
    if not pays(found, predict(found.model, changes)[1]):
        return
    yield Finding(
        title=_title(measured, threads, _library(run, measured.rank)),
        cause="configuration",
        evidence=_evidence(found, threads),
        gain=gain(found, changes, _BASIS[spins]),
        advice=_ADVICE,
        ranks=found.ranks,
        where=hot_lines(run, found.ranks[0], found.data_set),
        replaces=("slow-transform", "slow-collate"),
    )


def _title(measured: Pipeline, threads: int | None, library: str) -> Title:
    available = Value(measured.cores, "count")
    cores = f"{{}} {plural(measured.cores, 'core')}"
    if threads is None:
        return Title(f"{{}} starts its own threads in each worker on {cores}", (library or "A library", available))
    count = Value(threads * measured.workers, "count")
    own = plural(count.value, "worker thread")
    return Title(f"{{}} {own} on {cores}: {{}} starts its own", (count, available, library or "a library"))


def _library(run: Run, rank: int) -> str:
    """The library that starts threads and whose calls take most of the workers' sampled time; empty: not known."""
    try:
        lines = loader_lines(run).filter(of_training(run, rank))
    except MissingData:
        return ""
    words = [pl.col(name).fill_null("") for name in ("text", "expression", "call", "leaf")]
    called = pl.concat_str(words, separator=" ")
    times = {name: int(lines.filter(called.str.contains(word))["wall"].sum()) for name, word in _LIBRARIES.items()}
    most = max(times, key=lambda name: times[name])
    return most if times[most] else ""


def _with_one_thread(measured: Pipeline, stays: float) -> LoaderChange:
    """A fetch that takes the CPU time of its own thread and a part of that of the others."""
    taken = float(measured.fetch[:, 0].mean())
    left = min(taken, measured.alone + stays * measured.further)
    return LoaderChange(faster=(("fetch", taken / max(left, 1.0)),), persistent=True)


def _evidence(found: InputStall, threads: int | None) -> tuple[Evidence, ...]:
    measured, source = found.model.pipeline, "loader_spans"
    rows = [Evidence(label="extra-thread CPU per batch", value=measured.further, unit="ns", source=source)]
    if threads is not None:
        rows.append(Evidence(label="maximum threads per worker", value=threads, unit="count", source=source))
    rows += [
        cores(measured),
        Evidence(label="main-thread CPU per batch", value=measured.alone, unit="ns", source=source),
    ]
    if measured.waited is not None:
        label = "core wait per batch"
        rows.append(Evidence(label=label, value=measured.waited, unit="ns", source="system"))
    return (*rows, making(found), *waiting_evidence(found))


def _threads(run: Run, rank: int) -> int | None:
    """The most maximum threads per worker when it handed over its first batch; None where nobody counted them."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(of_training(run, rank))
    most = spans.filter(pl.col("stage") == "serialize")["count"].max()
    return most if isinstance(most, int) else None


_BASIS = {
    False: "one thread per worker, which also does 0–33 % of what its extra threads did",
    True: "one thread per worker; threads that wait may spin, so 67 % of their CPU time up to the whole load time",
}
_ADVICE = (
    Advice(
        text="Limit each worker to one thread",
        code="def one_thread(worker):  # DataLoader(..., worker_init_fn=one_thread)\n"
        "    torch.set_num_threads(1)\n"
        "    cv2.setNumThreads(0)  # OpenCV\n"
        "    threadpoolctl.threadpool_limits(1)  # OpenBLAS and MKL, which NumPy and SciPy compute with",
    ),
    Advice(
        text="Or limit all processes with environment variables; use this where a GPU trains",
        code="OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 python train.py",
        language="shell",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers with 9 threads each on 2 cores: 51 ms of CPU time for a batch, 6 of them of its own thread, which
    alone needs 13; training needs 10 ms, and takes 18, or 13, with its waits for cores."""
    training, feed, length = 10.0, 1.0, (13.5 if fixed else 31.0)
    own = 13.0 if fixed else 18.0
    alone, further = (13.0, 0.0) if fixed else (6.0, 45.0)
    lasts = 13.0 if fixed else 60.0
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=2, prefetch_factor=2)
    for step in range(40):
        at, worker = step * length, step % 2
        synth.step(step, at, at + length, data_wait=length - own, forward=own / 2, backward=own / 2)
        synth.span("sample", step, worker, at, at + lasts - 1, cpu=round((alone - 1) * MS), name="data.Pictures")
        synth.span("collate", step, worker, at + lasts - 1, at + lasts, cpu=MS,
                   process_cpu=round((alone + further + feed) * MS))  # fmt: skip
        synth.span("fetch", step, worker, at, at + lasts, cpu=round(alone * MS))
        synth.span("serialize", step, worker, at + lasts, at + lasts + feed, cpu=round(feed * MS),
                   count=None if step > 1 else 2 if fixed else 9)  # fmt: skip
        used = (alone + further + feed + training) / length
        for what, value in (("job CPU", used), ("other CPU", 0.0)):
            synth.add("system", time=round((at + length / 2) * MS), rank=None, what=what, value=value, unit="cores")


RULE = Rule(check=check, example=example, explains="input-bound")
