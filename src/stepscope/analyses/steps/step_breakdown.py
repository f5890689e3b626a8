"""Each instant of a step given to one of eight causes, as the TensorBoard plugin's overview does.

One row is a step of a trace. Times are ns. A step is adjusted to its device work, as in that plugin. It begins at the
end of the step before, or at the host's start if that is later. It ends with its last device work, or at the host's end
if that is later. Trailing steps whose device work was not recorded whole are left out. A trace without step markers is
one step, 0. An instant belongs to the first of: kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec,
other. So a row adds up to the length of the step exactly. All processes, streams and devices of a rank are taken
together.

Communication is three things. gloo's host annotations span the transfer. NCCL's span only the launch, for the five
collectives that the plugin knows. Kernels count if they carry the external id of one of these. A kernel without this
link counts as kernel; for communication that costs time see `exposed_communication` in device_time. Runtime is runtime
and driver calls. Accelerators that record no kernels (MTIA) count as kernel, and their requests to move memory as
memcpy. cpu_exec is operators and annotations. Shutting down a loader's workers counts as other where Python stacks tell
it.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import ACCELERATOR, ACCELERATOR_COPY, WORK
from stepscope.analyses.lib.host_events import CALLS, OPERATIONS
from stepscope.analyses.lib.host_rows import host_rows
from stepscope.analyses.lib.markers import data_waits, is_loader
from stepscope.analyses.lib.result_tables import RANK, by_rank, shaped
from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.core.intervals import Spans, overlap_each, spans, subtract, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number in the step marker"),
    Column("kernel", pl.Int64, "ns", "a kernel runs"),
    Column("memcpy", pl.Int64, "ns", "a copy runs"),
    Column("memset", pl.Int64, "ns", "a set runs"),
    Column("communication", pl.Int64, "ns", "the host or a linked kernel communicates"),
    Column("runtime", pl.Int64, "ns", "the host is in a call of the device's runtime or driver"),
    Column("dataloader", pl.Int64, "ns", "the host waits for the loader"),
    Column("cpu_exec", pl.Int64, "ns", "the host is in an operator or annotation"),
    Column("other", pl.Int64, "ns", "none of these"),
)
COMMUNICATION = r"^gloo:|^nccl:(?:broadcast|reduce|all_reduce|all_gather|reduce_scatter)$"
CAUSES = tuple(column.name for column in COLUMNS[2:-1])


def compute(run: Run) -> pl.DataFrame:
    """Rows for all kept steps. Raises MissingData in a run without step markers and operators."""
    steps = adjusted_steps(run)
    parts = [_of_rank(run, rank, part) for rank, part in by_rank(steps).items()]
    return shaped(pl.concat(parts), COLUMNS)


def _of_rank(run: Run, rank: int, steps: pl.DataFrame) -> pl.DataFrame:
    windows = spans(steps)
    causes = _causes(run, rank)
    rest, columns = union(windows), {}
    left = overlap_each(windows, rest)
    for cause in CAUSES:
        rest = subtract(rest, causes[cause])
        before, left = left, overlap_each(windows, rest)
        columns[cause] = before - left
    columns["other"] = left
    assert np.array_equal(np.sum(list(columns.values()), axis=0), windows[:, 1] - windows[:, 0])
    return steps.select("rank", "step").with_columns(pl.Series(name, times) for name, times in columns.items())


def _causes(run: Run, rank: int) -> dict[str, Spans]:
    of_rank = pl.col("rank") == rank
    columns = ("rank", "start", "end", "external_id")
    host, rows = run.optional("host", *columns), host_rows(run)
    device = _device(run, *columns, "kind", "correlation").filter(of_rank)
    own = (host["rank"] == rank).to_numpy()
    counts = ~(pl.col("name").str.starts_with("ProfilerStep#") | is_loader())
    operations = own & rows.of_kind(*OPERATIONS) & rows.named(counts)
    communicates = operations & rows.named(pl.col("name").str.contains(COMMUNICATION))
    linked = _linked(device, host["external_id"].filter(pl.Series(communicates)))
    host_times = host.select("start", "end")
    kinds, device_times = device["kind"], device.select("start", "end")
    return {
        "kernel": spans(device_times.filter((kinds == "kernel") & ~linked)),
        "memcpy": spans(device_times.filter(kinds == "memcpy")),
        "memset": spans(device_times.filter(kinds == "memset")),
        "communication": spans(pl.concat([host_times.filter(communicates), device_times.filter(linked)])),
        "runtime": spans(host_times.filter(own & rows.of_kind(*CALLS))),
        "dataloader": spans(data_waits(run).filter(of_rank)),
        "cpu_exec": spans(host_times.filter(operations & ~communicates)),
    }


def _device(run: Run, *columns: str) -> pl.DataFrame:
    """Work of devices, with that of accelerators that record no kernels as the kernels and copies it stands for."""
    work = run.optional("device", *columns).filter(pl.col("kind").is_in((*WORK, ACCELERATOR)))
    if not (work["kind"] == ACCELERATOR).any():
        return work
    names = run.where("device", pl.col("kind").is_in((*WORK, ACCELERATOR)), "name")["name"]
    other = pl.col("kind") == ACCELERATOR
    copies = pl.Series(names == ACCELERATOR_COPY)
    kind = pl.when(other & copies).then(pl.lit("memcpy")).when(other).then(pl.lit("kernel")).otherwise("kind")
    return work.with_columns(kind=kind)


def _linked(device: pl.DataFrame, external_ids: pl.Series) -> pl.Series:
    """Which rows are kernels with one of the external ids; ids that repeat the correlation id link nothing."""
    linked = device["external_id"].is_in(external_ids.drop_nulls().implode()).fill_null(False)
    return linked & (device["kind"] == "kernel") & device["external_id"].ne_missing(device["correlation"])


ANALYSIS = step_breakdown = Analysis(compute=compute, columns=COLUMNS, scope="rank")
