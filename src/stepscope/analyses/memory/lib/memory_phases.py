"""In which step and phase memory was allocated and freed.

Where a trace marks steps, phases are theirs (see `_trace_phases`): by time, for events on the step's own thread, and
for backward on any thread. Without steps, a phase is what the operators and annotations around the event say, or the
stack that a memory snapshot holds of it: backward, optimizer, data_wait, and from stacks forward. Otherwise it is null.

A stretch is a time with one phase: of a step with several micro-batches, each forward is one.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import THREAD
from stepscope.analyses.lib.markers import is_backward, is_loader, is_optimizer
from stepscope.analyses.lib.trace_phases import PHASES, traced_steps
from stepscope.analyses.memory.lib.memory_events import memory_events, owners
from stepscope.core.kernels import name_test
from stepscope.core.nesting import enclosing, outwards
from stepscope.core.run import Run

__all__ = ["EventPhases", "event_phases", "parameter_events"]

Ints = npt.NDArray[np.int64]

# Frames of torch's own files, wherever they are installed. The outer call decides: the module that activation
# checkpointing runs again inside backward is part of backward.
_STACKS = (
    ("backward", r"torch[/\\](?:_tensor|autograd[/\\](?:graph|__init__))\.py\(\d+\): |torch::autograd::Engine"),
    ("optimizer", r"torch[/\\]optim[/\\]"),
    ("data_wait", r"torch[/\\]utils[/\\]data[/\\]"),
    ("forward", r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): _(?:wrapped_)?call_impl"),
)
_CALL = re.compile(r"module\.py\(\d+\): _(?:wrapped_)?call_impl")
_PARAMETER = re.compile(
    r"torch[/\\]nn[/\\](?:modules[/\\]module\.py\(\d+\): (?:_apply|to|cuda|half|bfloat16|float)"
    r"|modules[/\\]\w+\.py\(\d+\): __init__|parameter\.py\(\d+\): )"
)
_SPANS = {
    "rank": pl.Int32, "thread": pl.String, "step": pl.Int64, "phase": pl.String, "start": pl.Int64, "end": pl.Int64
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class EventPhases:
    """`of_event` has step, phase and stretch for each row of `memory_events`; stretch is a row of `stretches`.

    `stretches` has rank, step, phase, start and end (ns), sorted by rank and start.
    """

    of_event: pl.DataFrame
    stretches: pl.DataFrame


def event_phases(run: Run) -> EventPhases:
    """The steps and phases of memory events. Raises MissingData without memory events."""
    return run.once(_event_phases)


def parameter_events(run: Run) -> pl.Series:
    """Whether each row of `memory_events` is inside a module being made or moved, as its stack or Python frames say.

    What it allocates there and keeps are parameters and buffers.
    """
    return run.once(_parameter_events)


def _parameter_events(run: Run) -> pl.Series:
    events = memory_events(run).select(*THREAD, "time", "call_stack")
    stacks = events["call_stack"]
    by_stack = name_test(stacks, lambda stack: bool(_PARAMETER.search(stack)) and not _CALL.search(stack))
    kinds = run.optional("host", "kind", "name")
    making = (kinds["kind"] == "python") & name_test(kinds["name"], lambda name: bool(_PARAMETER.search(name)))
    if not making.any():
        return by_stack
    frames = run.optional("host", *THREAD, "start", "end").filter(making)
    tracks = frames.select(THREAD).unique(maintain_order=True).with_row_index("track")
    of_frames, of_events = (_tracks(frame, tracks) for frame in (frames, events))
    time = events["time"].to_numpy()
    found = enclosing(of_frames, frames["start"].to_numpy(), frames["end"].to_numpy(), of_events, time, time)
    return by_stack | pl.Series(found >= 0)


def _tracks(frame: pl.DataFrame, tracks: pl.DataFrame) -> Ints:
    """The number of the thread of each row, -1 for one that is not in `tracks`."""
    joined = frame.select(THREAD).join(tracks, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    return joined["track"].cast(pl.Int64).fill_null(-1).to_numpy()


def _event_phases(run: Run) -> EventPhases:
    events = memory_events(run).select("row", "rank", "thread", "time", "call_stack")
    marked = _stretches_of_steps(run)
    with_steps = pl.col("rank").is_in(marked["rank"].unique().implode())
    by_time, by_mark = events.filter(with_steps), events.filter(~with_steps)
    told = pl.coalesce(_of_operators(run, by_mark["row"]), _of_stacks(by_mark["call_stack"]))
    by_mark = by_mark.with_columns(told.alias("told"))
    spans, rows = _by_marks(by_mark.sort("rank", "time", "row"))
    stretches = pl.concat([marked, spans])
    rows = rows.with_columns(stretch=pl.col("stretch") + marked.height)
    found = pl.concat([_by_time(by_time, marked), rows]).sort("row")
    return EventPhases(found.select("step", "phase", "stretch"), stretches)


def _stretches_of_steps(run: Run) -> pl.DataFrame:
    rows = [
        (step.rank, step.thread, step.step, phase, int(start), int(end))
        for step in traced_steps(run)
        for phase in PHASES
        for start, end in step.phases[phase]
    ]
    return pl.DataFrame(rows, schema=_SPANS, orient="row").sort("rank", "start", "end")


def _by_time(events: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """Rows with row, step, phase and stretch, of ranks that mark their steps."""
    parts = []
    for rank, part in events.partition_by("rank", as_dict=True).items():
        own = stretches.with_row_index("stretch").filter(pl.col("rank") == rank[0])
        time = part["time"].to_numpy()
        last = np.searchsorted(own["start"].to_numpy(), time, side="right") - 1
        inside = (last >= 0) & (time < own["end"].to_numpy()[last])
        own = own.rename({"thread": "of_step"})[np.maximum(last, 0)].select("of_step", "step", "phase", "stretch")
        part = part.hstack(own).with_columns(inside=pl.Series(inside))
        here = pl.col("thread").is_null() | (pl.col("thread") == pl.col("of_step")) | (pl.col("phase") == "backward")
        part = part.with_columns(
            step=pl.when("inside").then("step"),
            phase=pl.when(pl.col("inside") & here).then("phase"),
            stretch=pl.when(pl.col("inside") & here).then(pl.col("stretch").cast(pl.Int64)),
        )
        parts.append(part.select("row", "step", "phase", "stretch"))
    return pl.concat([_no_rows(), *parts])


def _by_marks(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stretches of events of one phase after another, and row, step, phase and stretch of each event."""
    marked = events.drop_nulls("told")
    stretch = pl.struct("rank", "told").rle_id().cast(pl.Int64)
    marked = marked.with_columns(stretch=stretch)
    spans = marked.group_by("stretch", maintain_order=True).agg(
        pl.col("rank").first(), phase=pl.col("told").first(), start=pl.col("time").first(), end=pl.col("time").last()
    )
    nothing = {"thread": pl.lit(None, dtype=pl.String), "step": pl.lit(None, dtype=pl.Int64)}
    spans = spans.with_columns(**nothing).select(list(_SPANS))
    rows = events.join(marked.select("row", "stretch"), on="row", how="left")
    rows = rows.with_columns(nothing["step"].alias("step"), phase=pl.col("told"))
    return spans, rows.select("row", "step", "phase", "stretch")


def _no_rows() -> pl.DataFrame:
    return pl.DataFrame(schema={"row": pl.Int64, "step": pl.Int64, "phase": pl.String, "stretch": pl.Int64})


def _of_operators(run: Run, rows: pl.Series) -> pl.Series:
    """The phase that the nearest marked operator or annotation around each event tells, null for none."""
    found = owners(run)
    if found.tree is None or rows.is_empty():
        return pl.Series([None] * len(rows), dtype=pl.String)
    phase = pl.Series([None] * len(rows), dtype=pl.String)
    tests = {"backward": is_backward(), "optimizer": is_optimizer(), "data_wait": is_loader()}
    marks = {name: found.among(test) for name, test in tests.items()}
    any_mark = np.logical_or.reduce(list(marks.values()))
    nearest = outwards(found.tree.nesting.parent, found.around[rows.to_numpy()], any_mark)
    for name, marked in marks.items():
        is_it = pl.Series((nearest >= 0) & marked[nearest])
        phase = pl.select(pl.when(is_it).then(pl.lit(name)).otherwise(phase)).to_series()
    return phase


def _of_stacks(stacks: pl.Series) -> pl.Series:
    """The phase that each stack tells, null for none: each distinct stack is looked at once."""
    distinct = stacks.drop_nulls().unique().to_frame("stack")
    phase = pl.lit(None, dtype=pl.String)
    for name, pattern in reversed(_STACKS):
        phase = pl.when(pl.col("stack").str.contains(pattern)).then(pl.lit(name)).otherwise(phase)
    told = distinct.with_columns(phase=phase)
    return stacks.to_frame("stack").join(told, on="stack", how="left", maintain_order="left")["phase"]
