"""The tracks with spans: steps, streams of devices, threads of the host, processes and threads that load."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from stepscope.analyses.steps.steps import steps
from stepscope.core.communication import is_communication
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.timeline.content import Category, Kind, Spans, Track
from stepscope.timeline.lanes import Ints
from stepscope.timeline.naming import Naming, named, spans_of
from stepscope.timeline.trace_clock import on_clock

__all__ = [
    "TRACE_CLOCK", "device_spans", "host_spans", "loader_spans", "parts", "process_name", "step_spans", "track",
]  # fmt: skip

TRACE_CLOCK = "kineto"
"""The clock of steps that are a trace's own."""

_FEEDER = ("serialize", "send")
_CALLS = ("transform", "decode", "read", "label")  # stages that are named for the class or function that is called
_WAITS = ("index wait", "wait", "put", "send")
_HOST: dict[str, Category] = {
    "operator": "operator", "annotation": "annotation", "runtime": "runtime", "driver": "runtime", "python": "python",
}  # fmt: skip
_DEVICE: dict[str, Category] = {
    "memcpy": "memory", "memset": "memory", "accelerator": "compute", "annotation": "annotation", "sync": "sync",
}  # fmt: skip


def process_name(rank: int | None, pid: str | None) -> str:
    """What a process is called above its tracks."""
    words = [] if rank is None else [f"rank {rank}"]
    if pid is not None:
        words.append(f"process {pid}" if pid.isdigit() else pid)
    return ", ".join(words) or "the machine"


def step_spans(run: Run) -> Iterator[Spans]:
    """A track of steps for each rank that has any."""
    try:
        found = steps(run)
    except MissingData:
        return
    texts = pl.select(pl.format("step {}", found["step"])).to_series()
    naming = named(texts, pl.repeat("", found.height, eager=True), lambda *_: "step")
    for (rank,), rows in parts(found, "rank"):
        made = track("steps", f"steps:{rank}", rank, None, f"rank {rank}", "steps")
        times = [found[name].to_numpy() for name in ("start", "end")]
        if found["clock"][int(rows[0])] != TRACE_CLOCK:
            times = _moved(run, made.rank, times, rows)
        if times:
            yield spans_of(made, "steps", times[0], times[1], naming, rows)


def device_spans(run: Run) -> Iterator[Spans]:
    """A track for each stream of each device."""
    table = run.optional("device", "rank", "device", "stream", "name", "kind", "start", "end")
    naming = named(table["name"], table["kind"], _device_category)
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    names = _stream_names(run)
    for (rank, device, stream), rows in parts(table, "rank", "device", "stream"):
        label = names.get((rank, stream), f"stream {stream}")
        name = label if device is None else f"GPU {device} {label}"
        made = track("stream", f"stream:{rank}:{device}:{stream}", rank, None, f"rank {rank}", name)
        yield spans_of(made, "device", start, end, naming, rows)


def host_spans(run: Run) -> Iterator[Spans]:
    """A track for each thread."""
    table = run.optional("host", "rank", "pid", "thread", "name", "kind", "start", "end")
    naming = named(table["name"], table["kind"], _host_category)
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    names = {
        row[:3]: row[3].strip()
        for row in run.optional("threads", "rank", "pid", "thread", "name").drop_nulls("name").iter_rows()
    }
    for (rank, pid, thread), rows in parts(table, "rank", "pid", "thread"):
        name = names.get((rank, pid, thread)) or f"thread {thread}"
        made = track("host", f"host:{rank}:{pid}:{thread}", rank, pid, process_name(rank, pid), name)
        yield spans_of(made, "host", start, end, naming, rows)


def loader_spans(run: Run) -> Iterator[Spans]:
    """A track for each thread that loads, of workers below the processes that they are."""
    if not run.rows("loader_spans"):
        return
    datasets = dict(run.optional("loaders", "loader", "dataset").iter_rows())
    table = run.optional("loader_spans").with_columns(thread=_loading_thread())
    naming = _loading_names(table)
    for key, rows in parts(table, "rank", "pid", "worker", "loader", "thread"):
        rank, pid, worker, loader, thread = key
        made = _loading_track(rank, pid, worker, loader, thread, datasets.get(loader))
        times = _moved(run, rank, [table[name].to_numpy() for name in ("start", "end")], rows)
        if times:
            yield spans_of(made, "loader_spans", times[0], times[1], naming, rows)


def _loading_thread() -> pl.Expr:
    """Which thread of a process a span is of."""
    pins = (pl.col("stage") == "pin") | (
        (pl.col("stage") == "receive") & (pl.col("stage") == "pin").any().over("rank", "pid", "iterator")
    )
    of_training = pl.when(pins).then(pl.lit("pin-memory thread")).otherwise(pl.lit("loading"))
    of_worker = pl.when(pl.col("stage").is_in(_FEEDER)).then(pl.lit("feeder thread")).otherwise(pl.lit("fetch loop"))
    inner = pl.when(pl.col("iterator").is_null()).then(pl.lit("loaders inside the worker")).otherwise(of_worker)
    return pl.when(pl.col("worker").is_null()).then(of_training).otherwise(inner)


def _loading_names(table: pl.DataFrame) -> Naming:
    called = pl.when(pl.col("stage").is_in(_CALLS)).then(pl.coalesce("name", "stage")).otherwise("stage")
    return named(
        table.select(called).to_series(), table["stage"], lambda _, stage: "waiting" if stage in _WAITS else "input"
    )


def _loading_track(
    rank: int, pid: str, worker: int | None, loader: int | None, thread: str, dataset: str | None
) -> Track:
    what = "a loader" if loader is None else f"loader {loader}"
    what += f" ({dataset.rpartition('.')[2]})" if dataset else ""
    if worker is None:
        name, group = f"{what}: {thread}", process_name(rank, pid)
    else:
        name, group = thread, f"rank {rank}, DataLoader worker {worker} of {what}, process {pid}"
    kind: Kind = "host" if worker is None else "worker"
    return track(kind, f"loader:{rank}:{pid}:{loader}:{thread}".replace(" ", "-"), rank, pid, group, name)


def _moved(run: Run, rank: int | None, times: Sequence[Ints], rows: Ints) -> list[Ints]:
    """Times of the recorder on the clock of the timeline, at `rows`; none where that is not known."""
    found = []
    for column in times:
        at = on_clock(run, rank, column[rows])
        if at is None:
            return []
        full = np.zeros_like(column)
        full[rows] = at
        found.append(full)
    return found


def parts(table: pl.DataFrame, *keys: str) -> Iterator[tuple[tuple[Any, ...], Ints]]:
    """The rows of each combination of keys, in order of keys."""
    groups = table.select(keys).with_row_index("row").group_by(keys).agg(pl.col("row").cast(pl.Int64))
    groups = groups.sort(keys, nulls_last=True)
    for place, key in enumerate(groups.select(keys).iter_rows()):
        yield key, groups["row"][place].to_numpy()


def track(kind: Kind, name_: str, rank: int | None, pid: str | None, group: str, name: str) -> Track:
    """A track without spans."""
    return Track(id=name_, kind=kind, rank=rank, pid=pid, group=group, name=name, count=0, first=0, last=0)


def _stream_names(run: Run) -> dict[tuple[int, str], str]:
    """What a trace calls its streams."""
    named_ = run.optional("threads", "rank", "thread", "name").filter(pl.col("name").str.starts_with("stream "))
    return {(rank, thread): name.strip() for rank, thread, name in named_.iter_rows()}


def _host_category(_: str, kind: str) -> Category:
    return _HOST.get(kind, "other")


def _device_category(name: str, kind: str) -> Category:
    if kind == "kernel":
        return "communication" if is_communication(name) else "compute"
    return _DEVICE.get(kind, "other")
