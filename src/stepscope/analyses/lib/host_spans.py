"""Everything the host was in, nested per thread: Python frames, modules, annotations, operators and runtime calls.

Spans of a thread that overlap without one holding the other cannot be drawn as a tree: the later one begins where the
earlier one ends, with all that is in it, so that each moment of a thread counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_trees import Label, profiled
from stepscope.analyses.lib.group_cummax import reached_before
from stepscope.analyses.lib.host_events import CALLS, OPERATIONS, THREAD, categories, host_names, step_number
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.nesting import Nesting, nest
from stepscope.core.run import Run

__all__ = ["HostSpans", "Nested", "host_spans", "nested"]

Ints = npt.NDArray[np.int64]
_KINDS = {"operator": "operator", "annotation": "annotation", **dict.fromkeys(CALLS, "call"), "python": "library"}
_READ = (*OPERATIONS, *CALLS, "python")
_STEP = Label("ProfilerStep", "annotation")


@dataclass(frozen=True, slots=True, eq=False)
class HostSpans:
    """All spans by start, outer ones first. `threads` has rank, pid, thread and name for each number in `track`.

    `label` is the place in `labels` of what a span is.
    """

    threads: pl.DataFrame
    track: Ints
    start: Ints
    end: Ints
    label: Ints
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """Spans of tracks as trees: siblings do not overlap. `order` is by track, depth first."""

    start: Ints
    end: Ints
    parent: Ints
    depth: Ints
    order: Ints


def host_spans(run: Run) -> HostSpans:
    """Raises MissingData without any."""
    return run.once(_host_spans)


def nested(track: Ints, start: Ints, end: Ints) -> Nested:
    """Nest spans; of equal ones the one given first is outside."""
    nesting = nest(track, start, end)
    begin = _begins(nesting, track, start, end)
    return Nested(begin, np.maximum(begin, end), nesting.parent, nesting.depth, nesting.order)


def _host_spans(run: Run) -> HostSpans:
    kind = run.optional("host", "kind")["kind"]
    chosen = kind.is_in(_READ)
    if not chosen.any():
        raise MissingData("host events", how=RECORD_TRACE)
    frame = run.optional("host", *THREAD, "index", "start", "end").with_columns(kind=kind, name=host_names(run))
    frame = frame.filter(chosen).with_columns(length=pl.col("end") - pl.col("start"))
    frame = frame.sort("rank", "start", "length", "index", descending=[False, False, True, False], nulls_last=True)
    threads = frame.select(THREAD).unique(maintain_order=True).with_columns(track=pl.int_range(pl.len()))
    frame = frame.join(threads, on=THREAD, how="left", nulls_equal=True, maintain_order="left")
    label, labels = _labels(frame)
    names = run.optional("threads", *THREAD, "name").unique(THREAD, keep="first", maintain_order=True)
    threads = threads.join(names, on=THREAD, how="left", nulls_equal=True, maintain_order="left")
    track, start, end = (frame[name].cast(pl.Int64).to_numpy() for name in ("track", "start", "end"))
    return HostSpans(threads, track, start, end, label, labels)


def _labels(frame: pl.DataFrame) -> tuple[Ints, tuple[Label, ...]]:
    """What each row is: each name of a kind is judged once."""
    texts = categories(frame["name"])
    steps = texts.to_frame("name").select(step_number()).to_series().is_not_null()
    codes = frame.select(kind="kind", name=pl.col("name").to_physical().cast(pl.Int64).fill_null(-1))
    distinct = codes.unique(maintain_order=True)
    found = [
        _label(kind, texts[code] if code >= 0 else "", code >= 0 and steps[code]) for kind, code in distinct.iter_rows()
    ]
    made = {label: number for number, label in enumerate(sorted(set(found)))}  # alike, whatever other ranks hold
    distinct = distinct.with_columns(label=pl.Series([made[label] for label in found], dtype=pl.Int64))
    joined = codes.join(distinct, on=["kind", "name"], how="left", maintain_order="left")
    return joined["label"].to_numpy(), tuple(made)


def _label(kind: str, name: str, is_step: bool) -> Label:
    if is_step and kind != "python":
        return _STEP  # steps are laid over each other
    return profiled(name) if kind == "python" else Label(name, _KINDS[kind])


def _begins(nesting: Nesting, track: Ints, start: Ints, end: Ints) -> Ints:
    """The starts of spans, later where an earlier sibling has not ended: nothing may be left until their own end."""
    beside = np.where(nesting.parent >= 0, nesting.parent, len(start) + track)
    order = nesting.order[np.argsort(beside[nesting.order], kind="stable")]
    group = np.unique(beside[order], return_inverse=True)[1].astype(np.int64)
    if not (reached_before(group, end[order]) > start[order]).any():
        return start
    begin = start.copy()
    for rows, groups in _levels(order, group, nesting.depth):
        above = nesting.parent[rows]
        first = np.where(above >= 0, np.maximum(start[rows], begin[above]), start[rows])
        begin[rows] = np.maximum(first, reached_before(groups, end[rows]))
    return begin


def _levels(order: Ints, group: Ints, depth: Ints) -> Sequence[tuple[Ints, Ints]]:
    """Rows of each depth with their groups, outer ones first; rows stay in order."""
    by_depth = np.argsort(depth[order], kind="stable")
    edges = np.searchsorted(depth[order][by_depth], np.arange(int(depth.max()) + 2))
    return [(order[part], group[part]) for part in np.split(by_depth, edges[1:-1])]
