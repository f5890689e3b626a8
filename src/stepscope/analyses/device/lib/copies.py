"""Copies and sets of device memory: which way they go, and how fast."""

import polars as pl

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU, quotient
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["KINDS", "copy_events"]

KINDS = ("rank", "device", "copy", "host_memory")
_SIDES = {"Host": "H", "Device": "D", "Peer": "P", "Array": "A"}
_WORDS = "|".join(_SIDES)


def copy_events(run: Run) -> pl.DataFrame:
    """Copies and sets: rank, device, copy, host_memory, start, end, bytes, bandwidth.

    `copy` is HtoD, DtoH, DtoD, PtoP, … or memset, null where the name tells none; `host_memory` is pageable or pinned,
    null where the host takes no part or the name tells none. `bandwidth` (GB/s, 10^9 bytes) is what the profiler wrote,
    which knows durations that an old trace rounds to µs, else bytes / duration; null if neither is known. Raises
    MissingData without any.
    """
    return run.once(_copy_events)


def _copy_events(run: Run) -> pl.DataFrame:
    work = device_work(run, "name", "bytes", "bandwidth").filter(pl.col("role") == "memory")
    if work.is_empty():
        raise MissingData("copies or sets of device memory", how=RECORD_TRACE_ON_GPU)
    names = work.select("name", "kind").unique().with_columns(_way(), _host_memory())
    copies = work.join(names, on=["name", "kind"], how="left", nulls_equal=True, maintain_order="left")
    duration = pl.col("end") - pl.col("start")
    recorded = pl.when(pl.col("bandwidth").is_finite() & (pl.col("bandwidth") > 0)).then("bandwidth")
    measured = pl.when(duration > 0).then(quotient(pl.col("bytes"), duration))
    return copies.select(*KINDS, "start", "end", "bytes", bandwidth=pl.coalesce(recorded, measured))


def _way() -> pl.Expr:
    """HtoD and the like; profilers write `Memcpy HtoD (…)` or `CopyHostToDevice`."""
    name = pl.col("name")
    short = name.str.extract(r"([HDPA]to[HDPA])(?:[^A-Za-z]|$)")
    source, target = (name.str.extract(rf"({_WORDS})To({_WORDS})", side).replace(_SIDES) for side in (1, 2))
    words = pl.concat_str(source, pl.lit("to"), target)
    is_set = pl.col("kind") == "memset"
    return pl.when(is_set).then(pl.lit("memset")).otherwise(pl.coalesce(short, words)).alias("copy")


def _host_memory() -> pl.Expr:
    """The kind of the host's memory in `(Pageable -> Device)`."""
    return pl.col("name").str.to_lowercase().str.extract(r"\W(pageable|pinned)\W").alias("host_memory")
