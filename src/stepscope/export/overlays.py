"""What is drawn into a trace: idle gaps of devices, the critical path, and counters over time, as trace events.

Each overlay is a process of its own in the viewer, whose number the trace does not use. Times are on the trace's own
clock: µs with three decimals, from the same zero as its events.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.critical_path import critical_path
from stepscope.analyses.gpu_counters import gpu_counters
from stepscope.analyses.idle_gaps import idle_gaps
from stepscope.analyses.memory_curve import memory_curve
from stepscope.analyses.queue_length import queue_length
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["OVERLAYS", "Clock", "Overlay", "clock_of", "free_pid"]

CATEGORY = "stepscope"
"""Category of all events that are added."""

_FIRST_PID = 2_000_000_001  # far above the process ids of any system
_PERCENT = 100
_DIGITS = 4  # of counters: a viewer draws no more
_DEVICE_NAME = pl.concat_str(
    pl.col("device_type").fill_null("memory"), pl.col("device"), separator=" ", ignore_nulls=True
)


@dataclass(frozen=True, slots=True)
class Clock:
    """`base` is the time in ns since the epoch at which the clock of a trace reads 0."""

    base: int

    def text(self, time: int) -> str:
        """A time in ns as the trace would write it: µs, exactly."""
        return _decimal(time - self.base)


Overlay = Callable[[Run, Clock, int], Iterator[str]]
"""Gives the events of an overlay as JSON, with the pid given. Raises MissingData before the first one."""


def clock_of(run: Run) -> Clock:
    """The clock of a run that was read from one trace."""
    bases = run.optional("meta").filter(pl.col("key") == "baseTimeNanoseconds")["value"].to_list()
    return Clock(int(bases[0]) if bases and str(bases[0]).lstrip("-").isdigit() else 0)


def free_pid(run: Run) -> int:
    """A process id that no event of a run has, nor any of the next few."""
    used = {pid for table in ("host", "threads", "counters") for pid in run.optional(table, "pid")["pid"].unique()}
    pid = _FIRST_PID
    while any(str(pid + more) in used for more in range(len(OVERLAYS))):
        pid += len(OVERLAYS)
    return pid


def _gaps(run: Run, clock: Clock, pid: int) -> Iterator[str]:
    gaps = idle_gaps(run).sort("device", "start")
    if gaps.is_empty():
        raise MissingData("idle gaps", how="the device was never idle while it was recorded")
    return _gap_events(gaps, clock, pid)


def _gap_events(gaps: pl.DataFrame, clock: Clock, pid: int) -> Iterator[str]:
    yield from _process(pid, "stepscope: idle gaps", 0)
    for device in gaps["device"].unique().sort():
        yield _thread(pid, device, f"GPU {device} idle")
    told = ("step", "activity", "module", "file", "line", "function", "next", "operator")
    for row in gaps.iter_rows(named=True):
        arguments = {name: row[name] for name in told if row[name] is not None}
        yield _slice(clock, pid, row["device"], f"idle: {row['class']}", row["start"], row["duration"], arguments)


def _path(run: Run, clock: Clock, pid: int) -> Iterator[str]:
    return _path_events(critical_path(run), clock, pid)


def _path_events(path: pl.DataFrame, clock: Clock, pid: int) -> Iterator[str]:
    yield from _process(pid, "stepscope: critical path", 1)
    lanes = {lane: place for place, lane in enumerate(path.select("device", "lane").unique(maintain_order=True).rows())}
    for (device, lane), place in lanes.items():
        yield _thread(pid, place, f"thread {lane}" if device is None else f"GPU {device} stream {lane}")
    before: tuple[int, int, int] | None = None
    arrows = 0
    for row in path.iter_rows(named=True):
        place = lanes[row["device"], row["lane"]]
        told = ("step", "class", "operator", "index")
        arguments = {name: row[name] for name in told if row[name] is not None}
        name = row["name"] if row["name"] is not None and "latency" not in row["class"] else row["class"]
        yield _slice(clock, pid, place, name, row["start"], row["duration"], arguments)
        if before is not None and before[0] != place and before[2] == row["start"]:
            arrows += 1
            yield from _arrow(clock, pid, arrows, row["start"], before, place)
        before = place, row["start"], row["end"]


def _arrow(clock: Clock, pid: int, number: int, time: int, before: tuple[int, int, int], place: int) -> Iterator[str]:
    """From the last ns of the segment before to the first of the next one."""
    common = f'"cat":"{CATEGORY}","name":"critical path","id":{number},"pid":{pid}'
    yield f'{{"ph":"s",{common},"tid":{before[0]},"ts":{clock.text(max(before[1], before[2] - 1))}}}'
    yield f'{{"ph":"f","bp":"e",{common},"tid":{place},"ts":{clock.text(time)}}}'


def _counters(run: Run, clock: Clock, pid: int) -> Iterator[str]:
    series = []
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
    figures = ("utilisation", "sm_efficiency", "occupancy")
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
    yield from _process(pid, "stepscope: counters", 2)
    names = {name: json.dumps(name) for name in series["name"].unique()}
    for name, time, value in series.sort("name", "time", maintain_order=True).iter_rows():
        shown = int(value) if value == int(value) else value
        common = f'"ph":"C","cat":"{CATEGORY}","name":{names[name]},"pid":{pid},"tid":0'
        yield f'{{{common},"ts":{clock.text(time)},"args":{{"value":{shown}}}}}'


def _process(pid: int, name: str, place: int) -> Iterator[str]:
    """Name a process, and draw it above those of the trace."""
    for key, arguments in (("process_name", {"name": name}), ("process_sort_index", {"sort_index": place - 1000})):
        yield f'{{"ph":"M","name":"{key}","pid":{pid},"tid":0,"ts":0,"args":{json.dumps(arguments)}}}'


def _thread(pid: int, number: int, name: str) -> str:
    return f'{{"ph":"M","name":"thread_name","pid":{pid},"tid":{number},"ts":0,"args":{json.dumps({"name": name})}}}'


def _slice(
    clock: Clock, pid: int, number: int, name: str, start: int, duration: int, arguments: dict[str, object]
) -> str:
    common = f'"ph":"X","cat":"{CATEGORY}","name":{json.dumps(name)},"pid":{pid},"tid":{number}'
    times = f'"ts":{clock.text(start)},"dur":{_decimal(duration)}'
    return f'{{{common},{times},"args":{json.dumps(arguments)}}}'


def _decimal(time: int) -> str:
    """A time in ns as µs, exactly."""
    whole, rest = divmod(abs(time), 1000)
    return f"{'-' if time < 0 else ''}{whole}.{rest:03d}"


OVERLAYS: dict[str, Overlay] = {"gaps": _gaps, "critical-path": _path, "counters": _counters}
"""Each overlay by its name on the command line."""
