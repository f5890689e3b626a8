"""The tracks with values over time: devices at work, memory, counters of the trace, samples of the machine."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.device.gpu_counters import gpu_counters
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.memory.lib.memory_events import memory_events, named_device
from stepscope.core.errors import MissingData
from stepscope.core.intervals import spans, union
from stepscope.core.run import Run
from stepscope.timeline.content import Series, Share, Track
from stepscope.timeline.lanes import Ints
from stepscope.timeline.spans import process_name
from stepscope.timeline.trace_clock import on_clock

__all__ = ["device_values", "memory_values", "system_values", "trace_counters"]

_FIGURES = {"sm_efficiency": "SM efficiency (estimated)", "occupancy": "occupancy (estimated)"}


def device_values(run: Run) -> Iterator[Share | Series]:
    """Of each device: the share of time with a kernel, exact at any zoom, and the estimates of `gpu_counters`."""
    try:
        work = device_work(run).filter(pl.col("kind") == "kernel")
    except MissingData:
        return
    for part in work.partition_by("rank", "device", maintain_order=True):
        rank, device = part.select("rank", "device").row(0)
        busy = union(spans(part))
        if not len(busy):
            continue  # kernels without length, as damaged traces have
        before = np.concatenate(([0], np.cumsum(busy[:, 1] - busy[:, 0])))
        name = "a kernel runs" if device is None else f"GPU {device}: a kernel runs"
        track = _track(f"busy:{rank}:{device}", rank, None, name, busy[:, 0], busy[:, 1], "ratio", means=True)
        yield Share(track, busy, before)
    yield from _estimates(run)


def _estimates(run: Run) -> Iterator[Series]:
    try:
        table = gpu_counters(run)
    except MissingData:
        return
    for part in table.partition_by("rank", "device", maintain_order=True):
        rank, device = part.select("rank", "device").row(0)
        start, end = part["start"].to_numpy(), part["end"].to_numpy()
        for figure, name in _FIGURES.items():
            if part[figure].is_not_null().any():
                values = part[figure].cast(pl.Float64).fill_null(np.nan).to_numpy()
                track = _track(f"{figure}:{rank}:{device}", rank, None, f"GPU {device}: {name}", start, end, "ratio")
                yield Series(track, start, values)


def memory_values(run: Run) -> Iterator[Series]:
    """Allocated and reserved memory of each device, after each allocation and free."""
    try:
        events = memory_events(run).with_columns(named_device())
    except MissingData:
        return
    for part in events.partition_by("key", maintain_order=True):
        rank, kind, device = part.select("rank", "device_type", "device").row(0)
        name = " ".join(str(word) for word in (kind or "memory", device) if word is not None)
        level = "memory allocated" if part["total"][0] else "memory allocated since the recording began"
        for column, what in (("level", level), ("total_reserved", "memory reserved")):
            known = part.filter(pl.col(column).is_not_null())
            if known.height:
                time = known["time"].to_numpy()
                id_ = f"{column}:{rank}:{name}".replace(" ", "-")
                track = _track(id_, rank, None, f"{name}: {what}", time, time, "bytes")
                yield Series(track, time, known[column].cast(pl.Float64).to_numpy())


def trace_counters(run: Run) -> Iterator[Series]:
    """The counters of a trace, in units of their own."""
    table = run.optional("counters", "rank", "pid", "name", "time", "value").sort("time", maintain_order=True)
    for part in table.drop_nulls("value").partition_by("rank", "pid", "name", maintain_order=True):
        rank, pid, name = part.select("rank", "pid", "name").row(0)
        time = part["time"].to_numpy()
        yield Series(_track(f"counter:{rank}:{pid}:{name}", rank, pid, name, time, time, None), time,
                     part["value"].to_numpy())  # fmt: skip


def system_values(run: Run) -> Iterator[Series]:
    """Samples of the machine and of the job."""
    table = run.optional("system").sort("time", maintain_order=True).drop_nulls("value")
    for part in table.partition_by("rank", "what", "unit", maintain_order=True):
        rank, what, unit = part.select("rank", "what", "unit").row(0)
        time = on_clock(run, rank, part["time"].to_numpy())
        if time is not None:
            id_ = f"system:{rank}:{what}".replace(" ", "-")
            yield Series(_track(id_, rank, None, what, time, time, unit), time, part["value"].to_numpy())


def _track(
    name_: str, rank: int | None, pid: str | None, name: str, start: Ints, end: Ints, unit: str | None, *,
    means: bool = False,
) -> Track:  # fmt: skip
    group = process_name(rank, pid)
    return Track(
        id=name_, kind="counter", rank=rank, pid=pid, group=group, name=name, count=len(start), first=int(start.min()),
        last=int(end.max()), unit=unit, means=means,
    )  # fmt: skip
