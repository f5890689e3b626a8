"""What is drawn into a trace: idle gaps of devices, the critical path, counters over time, and the input pipeline.

Each overlay but the last is a process of its own in the viewer, whose number the trace does not use. Times are on the
trace's own clock: µs with three decimals, from the same zero as its events.
"""

import json
from collections.abc import Callable, Iterator

import polars as pl

from stepscope.analyses.critical_path.critical_path import critical_path
from stepscope.analyses.device.gpu_counters import gpu_counters
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.queue_length import queue_length
from stepscope.analyses.memory.memory_curve import memory_curve
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.export.events import CATEGORY, Clock, arrow_end, process, slice_, thread
from stepscope.export.loading import loader_events
from stepscope.export.source import Source

__all__ = ["OVERLAYS", "Overlay", "clock_of", "free_pid"]

_FIRST_PID = 2_000_000_001  # far above the process ids of any system
_ABOVE = -1000  # the place of processes that are drawn above those of the trace
_PERCENT = 100
_DIGITS = 4  # of counters: a viewer draws no more
_DEVICE_NAME = pl.concat_str(
    pl.col("device_type").fill_null("memory"), pl.col("device"), separator=" ", ignore_nulls=True
)


Overlay = Callable[[Source, Clock, int], Iterator[str]]
"""Gives the events of an overlay as JSON, with the pid given. Raises MissingData before the first one."""


def clock_of(run: Run) -> Clock:
    """The clock of a run that was read from one trace."""
    bases = run.optional("meta").filter(pl.col("key") == "baseTimeNanoseconds")["value"].to_list()
    return Clock(int(bases[0]) if bases and str(bases[0]).lstrip("-").isdigit() else 0)


def free_pid(run: Run | None) -> int:
    """A process id that no event of a run has, nor any of the next few."""
    if run is None:
        return _FIRST_PID
    used = {pid for table in ("host", "threads", "counters") for pid in run.optional(table, "pid")["pid"].unique()}
    pid = _FIRST_PID
    while any(str(pid + more) in used for more in range(len(OVERLAYS))):
        pid += len(OVERLAYS)
    return pid


def _gaps(source: Source, clock: Clock, pid: int) -> Iterator[str]:
    gaps = idle_gaps(source.traced()).sort("device", "start")
    if gaps.is_empty():
        raise MissingData("idle gaps", how="the device was never idle while it was recorded")
    return _gap_events(gaps, clock, pid)


def _gap_events(gaps: pl.DataFrame, clock: Clock, pid: int) -> Iterator[str]:
    yield from process(pid, "stepscope: idle gaps", _ABOVE + 0)
    for device in gaps["device"].unique().sort():
        yield thread(pid, device, f"GPU {device} idle")
    told = ("step", "activity", "module", "file", "line", "function", "next", "operator")
    for row in gaps.iter_rows(named=True):
        arguments = {name: row[name] for name in told if row[name] is not None}
        yield slice_(clock, pid, row["device"], f"idle: {row['class']}", row["start"], row["duration"], arguments)


def _path(source: Source, clock: Clock, pid: int) -> Iterator[str]:
    return _path_events(critical_path(source.traced()), clock, pid)


def _path_events(path: pl.DataFrame, clock: Clock, pid: int) -> Iterator[str]:
    yield from process(pid, "stepscope: critical path", _ABOVE + 1)
    lanes = {lane: place for place, lane in enumerate(path.select("device", "lane").unique(maintain_order=True).rows())}
    for (device, lane), place in lanes.items():
        yield thread(pid, place, f"thread {lane}" if device is None else f"GPU {device} stream {lane}")
    before: tuple[int, int, int] | None = None
    arrows = 0
    for row in path.iter_rows(named=True):
        place = lanes[row["device"], row["lane"]]
        told = ("step", "class", "operator", "index")
        arguments = {name: row[name] for name in told if row[name] is not None}
        name = row["name"] if row["name"] is not None and "latency" not in row["class"] else row["class"]
        yield slice_(clock, pid, place, name, row["start"], row["duration"], arguments)
        if before is not None and before[0] != place and before[2] == row["start"]:
            arrows += 1
            yield from _arrow(clock, pid, arrows, row["start"], before, place)
        before = place, row["start"], row["end"]


def _arrow(clock: Clock, pid: int, number: int, time: int, before: tuple[int, int, int], place: int) -> Iterator[str]:
    """From the last ns of the segment before to the first of the next one."""
    yield arrow_end(clock, "s", "critical path", number, pid, before[0], max(before[1], before[2] - 1))
    yield arrow_end(clock, "f", "critical path", number, pid, place, time)


def _counters(source: Source, clock: Clock, pid: int) -> Iterator[str]:
    run, series = source.traced(), []
    lacking: MissingData | None = None
    for find in (_of_gpus, _of_memory, _of_queues):
        try:
            series.append(find(run))
        except MissingData as missing:
            lacking = lacking or missing
    if not series:
        assert lacking is not None
        raise lacking
    return _counter_events(pl.concat(series), clock, pid)


def _of_gpus(run: Run) -> pl.DataFrame:
    """name, time, value of the figures of each GPU, which end at zero."""
    table = gpu_counters(run).with_columns(gpu=pl.format("GPU {}", "device"))
    figures = ("utilization", "sm_efficiency", "occupancy")
    ends = (
        table.group_by("device", maintain_order=True).last().with_columns(pl.lit(0.0).alias(name) for name in figures)
    )
    rows = pl.concat([table, ends.select(table.columns).with_columns(start="end")])
    return pl.concat(
        rows.select(
            name=pl.col("gpu") + f" {figure.replace('_', ' ').replace('sm', 'SM')} %",
            time="start",
            value=(pl.col(figure) * _PERCENT).round(_DIGITS),
        ).drop_nulls()
        for figure in figures
    )


def _of_memory(run: Run) -> pl.DataFrame:
    table = memory_curve(run)
    known = [name for name in ("allocated", "reserved") if table[name].is_not_null().any()] or ["change"]
    return pl.concat(
        table.select(
            pl.concat_str(_DEVICE_NAME, pl.lit(name), separator=" ").alias("name"),
            "time",
            value=pl.col(name).cast(pl.Float64),
        ).drop_nulls()
        for name in known
    )


def _of_queues(run: Run) -> pl.DataFrame:
    return queue_length(run).select(
        name=pl.format("GPU {} stream {} queue", "device", "stream"),
        time="time",
        value=pl.col("length").cast(pl.Float64),
    )


def _counter_events(series: pl.DataFrame, clock: Clock, pid: int) -> Iterator[str]:
    yield from process(pid, "stepscope: counters", _ABOVE + 2)
    names = {name: json.dumps(name) for name in series["name"].unique()}
    for name, time, value in series.sort("name", "time", maintain_order=True).iter_rows():
        shown = int(value) if value == int(value) else value
        common = f'"ph":"C","cat":"{CATEGORY}","name":{names[name]},"pid":{pid},"tid":0'
        yield f'{{{common},"ts":{clock.text(time)},"args":{{"value":{shown}}}}}'


OVERLAYS: dict[str, Overlay] = {"gaps": _gaps, "critical-path": _path, "counters": _counters, "loader": loader_events}
"""Each overlay by its name on the command line."""
