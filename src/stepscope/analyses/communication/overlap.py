"""How much of each step's communication hides behind computing.

One row is a traced step of a rank, adjusted to its device work as in step_breakdown. Times are ns; compute, overlapped,
exposed_communication and other add up to duration exactly. Communicating is what `collectives` lists: communication
kernels, or gloo's annotations. Computing is every other kernel. On MTIA, it is what the device does besides moving
memory. On a rank without device work, it is operators of all threads that do not communicate. Other is the rest:
copies, Python, waiting, idling. Definition: the TensorBoard plugin's overview of computation and communication, for
which the annotation of an NCCL call, which only launches, is communication too.
"""

import numpy as np
import polars as pl

from stepscope.analyses.communication.lib.collective_calls import rank_calls
from stepscope.analyses.lib.device_work import ACCELERATOR, ACCELERATOR_COPY, device_work
from stepscope.analyses.lib.host_events import is_operator
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, by_rank, quotient, shaped
from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.core.communication import COMMUNICATION_OPERATOR
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, intersect, overlap_each, spans, subtract, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number in the step marker"),
    Column("duration", pl.Int64, "ns", "length of the step"),
    Column("compute", pl.Int64, "ns", "time that computes and does not communicate"),
    Column("overlapped", pl.Int64, "ns", "time that does both"),
    Column("exposed_communication", pl.Int64, "ns", "time that communicates and does not compute"),
    Column("other", pl.Int64, "ns", "time that does neither"),
    Column("overlap", pl.Float64, "ratio", "share of the communication that is overlapped; null: none in the step"),
    Column(
        "compute_per_communication",
        pl.Float64,
        "count",
        "time that computes / time that communicates; below 1 no overlap can hide it all; null: no communication",
    ),
)
_HOW = f"{RECORD_TRACE}, for a job of several ranks"


def compute(run: Run) -> pl.DataFrame:
    """Rows for all kept steps of ranks that communicate. Raises MissingData without collectives or without steps."""
    calls = by_rank(rank_calls(run))
    if not calls:
        raise MissingData("collectives", how=_HOW)
    computing = _computing(run)
    nothing = np.empty((0, 2), dtype=np.int64)
    parts = [
        _of_rank(steps, union(spans(calls[rank])), computing.get(rank, nothing))
        for rank, steps in by_rank(adjusted_steps(run)).items()
        if rank in calls
    ]
    if not parts:
        raise MissingData("steps with collectives", how=_HOW)
    return shaped(pl.concat(parts), COLUMNS)


def _of_rank(steps: pl.DataFrame, communicating: Spans, computing: Spans) -> pl.DataFrame:
    windows = spans(steps)
    duration = windows[:, 1] - windows[:, 0]
    compute = overlap_each(windows, subtract(computing, communicating))
    overlapped = overlap_each(windows, intersect(computing, communicating))
    exposed = overlap_each(windows, subtract(communicating, computing))
    other = duration - overlap_each(windows, union(np.concatenate((computing, communicating))))
    assert np.array_equal(compute + overlapped + exposed + other, duration)
    columns = {
        "duration": duration, "compute": compute, "overlapped": overlapped, "exposed_communication": exposed,
        "other": other,
    }  # fmt: skip
    both = pl.col("overlapped") + pl.col("exposed_communication")
    table = steps.select("rank", "step").with_columns(pl.Series(name, times) for name, times in columns.items())
    computes = pl.col("compute") + pl.col("overlapped")
    ratios = {"overlap": pl.col("overlapped"), "compute_per_communication": computes}
    return table.with_columns(pl.when(both > 0).then(quotient(part, both)).alias(name) for name, part in ratios.items())


def _computing(run: Run) -> dict[int, Spans]:
    """By rank, when it computes: kernels of its devices, else operators of its host."""
    try:
        kernels = by_rank(device_work(run))
    except MissingData:
        kernels = {}
    computes = pl.when(pl.col("name") != ACCELERATOR_COPY).then(pl.lit("compute")).otherwise(pl.lit("memory"))
    others = run.where("device", pl.col("kind") == ACCELERATOR, "rank", "name", "start", "end")
    kernels |= by_rank(others.with_columns(role=computes))
    host = run.optional("host", "rank", "name", "kind", "start", "end")
    on_device = pl.col("rank").is_in(list(kernels))
    operators = host.filter(is_operator() & ~on_device & ~pl.col("name").str.contains(COMMUNICATION_OPERATOR))
    found = {rank: union(spans(part)) for rank, part in by_rank(operators).items()}
    return found | {rank: union(spans(part.filter(pl.col("role") == "compute"))) for rank, part in kernels.items()}


ANALYSIS = overlap = Analysis(compute=compute, columns=COLUMNS, scope="rank")
