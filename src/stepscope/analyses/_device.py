"""Device work: kernels, copies and sets, each with the role that it plays in the time of the device."""

import polars as pl

from stepscope.analyses._tables import RECORD_TRACE_ON_GPU
from stepscope.core.errors import MissingData
from stepscope.core.kernels import is_communication, name_test
from stepscope.core.run import Run

__all__ = ["WORK", "device_work"]

WORK = ("kernel", "memcpy", "memset")


def device_work(run: Run) -> pl.DataFrame:
    """Rows of `device` that are work, plus `role`: compute, communication or memory.

    A kernel communicates if its name holds nccl or rccl or if the trace names its collective.
    """
    return run.once(_device_work)


def _device_work(run: Run) -> pl.DataFrame:
    work = run.optional("device").filter(pl.col("kind").is_in(WORK))
    if work.is_empty():
        raise MissingData("device work", how=RECORD_TRACE_ON_GPU)
    communicates = name_test(work["name"], is_communication) | work["collective"].is_not_null()
    role = (
        pl.when(pl.col("kind") != "kernel")
        .then(pl.lit("memory"))
        .when(communicates)
        .then(pl.lit("communication"))
        .otherwise(pl.lit("compute"))
    )
    return work.with_columns(role=role)
