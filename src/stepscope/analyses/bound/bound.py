"""What limits each rank, as shares of its mean steady step.

A row is a rank. `step` is the mean steady step in ns; the span of the device for a trace without steps. `input` is the
data wait, on a GPU only where it leaves the device without work. Where the CPU computes, input includes
`cpu_contention`. Then the main thread was ready to run, but workers of a slow loader used the cores.

`host` is time in which neither device nor model computes and nothing waits for the loader. On a GPU it is the device's
idle time that is neither data wait nor `unexplained`. On a CPU it is the time outside forward, backward and optimizer.
Operators of the model found there by samples (validation) do not count. Other lines inside the model do, and so does
what a traced window shows outside operators.

`device` is computing: kernels on a GPU, else the rest of the step. `communication` and `memory` are exposed collectives
and copies. Where the CPU computes, communication is gloo's time without waits for other ranks. Null means that the run
cannot tell. `recording` is the part of host that would be gone without the profiler, where no untraced step was timed.

`limit` is the largest of input, host, communication and memory if it reaches LIMIT. Overhead of the framework between
operators, which no one line holds, limits only below UTILIZED. Else the device limits if it is busy for UTILIZED of the
step without what is unexplained, else the step is balanced. Thresholds: torch_tb_profiler's 10 % for communication; 80
% utilization, below which a run counts as host-bound. Where the cost of recording decides, half of it is taken off.
"""

from dataclasses import replace

import polars as pl

from stepscope.analyses.bound.lib.bound_shares import Shares
from stepscope.analyses.bound.lib.cpu_shares import cpu_shares
from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.input_waits import input_share
from stepscope.analyses.bound.lib.thresholds import LIMIT, UTILIZED
from stepscope.analyses.host.lib.host_lines import host_lines
from stepscope.analyses.input_pipeline.lib.cpu_contention import core_wait_behind_workers
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column, polars_schema

__all__ = ["ANALYSIS", "bound"]

BEHIND = 0.05  # of the step waited for a batch: a loader that never lets training wait keeps up, and may use the cores

COLUMNS = (
    Column("rank", pl.Int32, None, "rank"),
    Column("step", pl.Float64, "ns", "mean steady step"),
    Column("input", pl.Float64, "ratio", "data wait, and waits for cores that the loader's workers have"),
    Column("host", pl.Float64, "ratio", "Python, files and launching: nothing computes"),
    Column("device", pl.Float64, "ratio", "computing: on the GPU, or on the CPU where there is none"),
    Column("communication", pl.Float64, "ratio", "exposed collectives"),
    Column("memory", pl.Float64, "ratio", "exposed copies"),
    Column("unexplained", pl.Float64, "ratio", "the device idles after a launch, and the trace shows no reason"),
    Column("cpu_contention", pl.Float64, "ratio", "part of input: waits for cores used by loader workers"),
    Column("recording", pl.Float64, "ratio", "part of host that is the profiler's own cost, by estimate"),
    Column("slowed_by", pl.List(pl.String), None, "what the trace holds that makes this cost larger than need be"),
    Column("likely", pl.Boolean, None, "whether the limit hangs by the profiler's cost: it is the likeliest then"),
    Column("limit", pl.String, None, "input, host, device, communication, memory, balanced or unknown"),
    Column("why_unknown", pl.String, None, "what cannot be told, where the limit is unknown"),
    Column("how", pl.String, None, "what to record, where the limit is unknown"),
)


def compute(run: Run) -> pl.DataFrame:
    rows = _of_device(run) if has_gpu(run) else tuple(_with_contention(run, row) for row in cpu_shares(run))
    table = [(*_values(row), *_likeliest(row)) for row in sorted(rows, key=lambda row: row.rank)]
    return pl.DataFrame(table, schema=polars_schema(COLUMNS), orient="row")


def _values(row: Shares) -> tuple[object, ...]:
    known = (row.input, row.host, row.device, row.communication, row.memory)
    return (row.rank, row.step, *known, row.unexplained, row.cpu_contention, row.recording, list(row.slowed_by))


def _with_contention(run: Run, row: Shares) -> Shares:
    """The same with the cores that a loader which cannot keep up takes from computing counted to the input."""
    if row.input is None or row.input < BEHIND or row.device is None:
        return row
    shared = min(core_wait_behind_workers(run, row.rank) / row.step, row.device)
    return replace(row, input=row.input + shared, device=row.device - shared, cpu_contention=shared)


def _likeliest(row: Shares) -> tuple[object, ...]:
    """Whether the limit hangs by the cost of recording, and the limit: as recorded, unless half of it decides else."""
    as_recorded, half, without = (_limit(row.without_recording(part)) for part in (0.0, 0.5, 1.0))
    return (as_recorded[0] != without[0], *(without if half[0] == without[0] else as_recorded))


def _limit(row: Shares) -> tuple[str, str | None, str | None]:
    removable = {
        "input": row.input,
        "host": row.host if row.host is not None and (row.named_host >= LIMIT or row.host > 1 - UTILIZED) else None,
        "communication": row.communication,
        "memory": row.memory,
    }
    name, share = max(removable.items(), key=lambda item: item[1] or 0.0)
    if share is not None and share >= LIMIT:
        return name, None, None
    if row.device is None or (row.host is None and row.device < UTILIZED):
        return "unknown", row.lacks, row.how
    return ("device" if row.device >= UTILIZED * (1 - row.unexplained) else "balanced"), None, None


def _of_device(run: Run) -> tuple[Shares, ...]:
    try:
        idle = device_idle(run)
    except MissingData as missing:
        return tuple(row.without_device(missing.how, _lines(run, row)) for row in cpu_shares(run))
    return tuple(_of_rank(run, row) for row in idle)


def _lines(run: Run, row: Shares) -> float:
    """Share of the step in lines that surely do not wait for the device."""
    try:
        return min(1.0, sum(group.time for group in host_lines(run) if group.rank == row.rank) / row.step)
    except MissingData:
        return 0.0


def _of_rank(run: Run, row: DeviceIdle) -> Shares:
    named = row.sync + row.allocation
    host = (row.host + named) / row.step
    return Shares(
        rank=row.rank,
        step=row.step,
        input=input_share(run, row),
        host=host,
        named_host=named / row.step,
        device=row.compute / row.step,
        communication=row.communication / row.step,
        memory=row.memory / row.step,
        unexplained=row.unexplained / row.step,
        lacks="",
        how="",
        recording=row.recording / row.step,
        slowed_by=row.slowed_by,
    )


LEADING = ("limit", "step", "input", "host", "device", "communication", "memory")
ANALYSIS = bound = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
