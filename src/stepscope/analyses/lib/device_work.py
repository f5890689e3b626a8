"""Device work: kernels, copies and sets, each with the role that it plays in the time of the device."""

import polars as pl

from stepscope.analyses.lib.communication_calls import communicating_launches
from stepscope.analyses.lib.host_events import CALLS, enumerated
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU
from stepscope.core.communication import computes, is_communication
from stepscope.core.errors import MissingData
from stepscope.core.kernels import name_test
from stepscope.core.run import Run

__all__ = ["ACCELERATOR", "ACCELERATOR_COPY", "WORK", "device_work", "work_names"]

WORK = ("kernel", "memcpy", "memset")
ACCELERATOR = "accelerator"
"""Kind of the work of devices that record neither kernels nor copies: MTIA."""

ACCELERATOR_COPY = "dma_request"
"""Name of such work that moves memory; every other computes."""

_UNKNOWN_OCCUPANCY = (pl.col("occupancy") == 0) & (pl.col("blocks_per_sm") >= 1)  # as one warp on an SM is not 0
_ALWAYS = ("rank", "device", "kind", "start", "end")
_LAUNCH = ("rank", "pid", "correlation")
_LAUNCHED_ONLY = (
    "not applicable, because the trace holds calls to a device's runtime but none of its work; "
    f"to see it, {RECORD_TRACE_ON_GPU}"
)
_NO_GPU = (
    "not applicable, because the accelerator of this trace (MTIA) records its work in another form; "
    "`stepscope show other_devices PATH` has its times"
)
_ON_THE_CPU = (
    f"not applicable, because nothing in this trace ran on an accelerator; if the job uses one, {RECORD_TRACE_ON_GPU}"
)


def device_work(run: Run, *columns: str) -> pl.DataFrame:
    """Rows of `device` that are work: rank, device, kind, start, end, role, and the columns that are named.

    The role is compute, communication or memory. A kernel communicates if the trace names its collective, else if an
    operator of communication started it, else if its name is one of communication. Raises MissingData if there is none.
    """
    work = run.once(_device_work)
    more = [column for column in columns if column not in work.columns]
    if not more:
        return work
    added = run.optional("device", *more, *({"blocks_per_sm"} - set(more))).filter(run.once(_is_work))
    if "occupancy" in more:
        added = added.with_columns(occupancy=pl.when(~_UNKNOWN_OCCUPANCY.fill_null(False)).then("occupancy"))
    return work.hstack(added.select(more))


def work_names(run: Run) -> pl.Series:
    """The name of each row of `device_work`, as an enumeration."""
    return run.once(_work_names)


def _work_names(run: Run) -> pl.Series:
    return enumerated(run.optional("device", "name")["name"].filter(run.once(_is_work)))


def _is_work(run: Run) -> pl.Series:
    return run.optional("device", "kind")["kind"].is_in(WORK)


def _device_work(run: Run) -> pl.DataFrame:
    work = run.optional("device", *_ALWAYS, "collective").filter(run.once(_is_work))
    if work.is_empty():
        raise _missing(run)
    communicates = work["collective"].is_not_null() | _is_launched(run, work)
    communicates |= name_test(work_names(run), is_communication)
    role = (
        pl.when(pl.col("kind") != "kernel")
        .then(pl.lit("memory"))
        .when(communicates)
        .then(pl.lit("communication"))
        .otherwise(pl.lit("compute"))
    )
    return work.select(_ALWAYS, role=role)


def _missing(run: Run) -> MissingData:
    if (run.optional("device", "kind")["kind"] == ACCELERATOR).any():
        return MissingData("kernels, copies or sets of a GPU", how=_NO_GPU)
    if run.where("host", pl.col("kind").is_in(CALLS), "rank").height:
        return MissingData("device work", how=_LAUNCHED_ONLY)
    if run.rows("host"):
        return MissingData("device work", how=_ON_THE_CPU)
    return MissingData("device work", how=RECORD_TRACE_ON_GPU)


def _is_launched(run: Run, work: pl.DataFrame) -> pl.Series:
    """For each piece of work, whether an operator of communication started it, to communicate."""
    names = work_names(run)
    unclear = ~name_test(names, is_communication) & ~name_test(names, computes) & names.is_not_null()
    unclear &= work["kind"] == "kernel"
    if not unclear.any() or (launches := communicating_launches(run)).is_empty():
        return pl.Series([False]).new_from_index(0, work.height)
    keys = run.optional("device", *_LAUNCH).filter(run.once(_is_work))
    found = keys.join(launches, on=_LAUNCH, how="left", maintain_order="left")["operator"]
    return found.is_not_null() & unclear
