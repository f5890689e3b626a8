"""The tracks that analyses give: idle times of devices with their causes, the critical path, launches that wait."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from stepscope.analyses.critical_path.critical_path import critical_path
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.queue_length import queue_length
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.timeline.content import Category, Series, Spans, Track
from stepscope.timeline.naming import named, spans_of
from stepscope.timeline.spans import parts, process_name, track

__all__ = ["ANALYSES", "gap_spans", "path_spans", "queue_values"]

ANALYSES: dict[str, Analysis] = {"critical_path": critical_path, "idle_gaps": idle_gaps, "steps": steps}
"""The analyses whose rows are spans of a track, by the name that `Spans.table` has for them."""

_CAUSES: dict[str, Category] = {
    "data_wait": "input", "collective": "communication", "sync": "sync", "host": "operator", "launch": "runtime",
    "latency": "waiting", "stream": "waiting",
}  # fmt: skip
_CLASSES: dict[str, Category] = {
    "operator": "operator", "host": "python", "runtime": "runtime", "launch latency": "waiting", "compute": "compute",
    "communication": "communication", "copy": "memory", "kernel gap": "waiting", "synchronization": "sync",
    "data wait": "input",
}  # fmt: skip


def gap_spans(run: Run) -> Iterator[Spans]:
    """Of each device the times without work, named after the cause and what the host did meanwhile."""
    try:
        table = idle_gaps(run)
    except MissingData:
        return
    words = pl.col("class").str.replace_all("_", " ", literal=True)
    texts = table.select(pl.concat_str(words, "activity", separator=": ", ignore_nulls=True)).to_series()
    naming = named(texts, table["class"], lambda _, cause: _CAUSES.get(cause, "other"))
    start, length = table["start"].to_numpy(), table["duration"].to_numpy()
    for (rank, device), rows in parts(table, "rank", "device"):
        name = "idle, by cause" if device is None else f"GPU {device} idle, by cause"
        made = track("gaps", f"gaps:{rank}:{device}", rank, None, process_name(rank, None), name)
        yield spans_of(made, "idle_gaps", start, start + length, naming, rows)


def path_spans(run: Run) -> Iterator[Spans]:
    """The critical path of each rank: what decided how long its steps took."""
    try:
        table = critical_path(run)
    except MissingData:
        return
    waits = pl.col("class").is_in(("launch latency", "kernel gap"))  # named after what they wait for, which runs later
    texts = table.select(pl.when(waits).then("class").otherwise(pl.coalesce("name", "class"))).to_series()
    naming = named(texts, table["class"], lambda _, kind: _CLASSES.get(kind, "other"))
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    for (rank,), rows in parts(table, "rank"):
        made = track("path", f"path:{rank}", rank, None, process_name(rank, None), "critical path")
        yield spans_of(made, "critical_path", start, end, naming, rows)


def queue_values(run: Run) -> Iterator[Series]:
    """Of each stream how many launches wait in its queue."""
    try:
        table = queue_length(run)
    except MissingData:
        return
    for (rank, device, stream), rows in parts(table, "rank", "device", "stream"):
        time, length = table["time"].to_numpy()[rows], table["length"].to_numpy()[rows]
        order = np.argsort(time, kind="stable")
        name = f"stream {stream}" if device is None else f"GPU {device} stream {stream}"
        made = Track(
            id=f"queue:{rank}:{device}:{stream}", kind="counter", rank=rank, pid=None, group=process_name(rank, None),
            name=f"{name}: launches that wait", count=len(rows), first=int(time.min()), last=int(time.max()),
            unit="count",
        )  # fmt: skip
        yield Series(made, time[order], length[order].astype(np.float64))
