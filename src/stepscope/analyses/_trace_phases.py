"""When each phase of a traced step was on: disjoint sets of time from the annotations of a trace.

On the step's own thread, data_wait is the loader's annotations without the shutdown of its workers, and optimizer is
`Optimizer.step#…` outside of backward (a closure runs backward inside it). Backward is the frames of its calls where
Python stacks were recorded, and, on any thread of the process, from the first to the last operator that autograd ran
without another operator of the step's thread starting in between; so each backward call of a step with several
micro-batches is one stretch. Without stacks a wait at the end of the call, as for gradients of other ranks, is no part
of it. Forward reaches from the end of the
last data wait, backward or optimizer step before a backward (or from the start of the step) to that backward. Other is
the rest. All are cut to the step.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from stepscope.analyses._host import OPERATIONS, THREAD, is_operator_name
from stepscope.analyses._host_rows import host_rows
from stepscope.analyses._markers import backward_calls, data_waits, is_backward, is_optimizer, step_markers
from stepscope.core.intervals import Spans, clip, near, spans, subtract, union
from stepscope.core.run import Run

__all__ = ["PHASES", "TracedStep", "traced_steps"]

PHASES = ("data_wait", "forward", "backward", "optimizer", "other")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TracedStep:
    """One step of a trace. `phases` are disjoint sets of time that fill it; `has_loader`: the rank shows a loader.

    `backwards` counts calls of backward, `operators` these and the operators on the thread outside them.
    """

    rank: int
    pid: str
    thread: str
    step: int
    start: int
    end: int
    has_loader: bool
    backwards: int
    operators: int
    phases: dict[str, Spans]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Thread:
    """What marks the phases on one thread that holds steps."""

    waits: Spans
    optimizer: Spans
    backward: Spans
    operator_starts: np.typing.NDArray[np.int64]


def traced_steps(run: Run) -> tuple[TracedStep, ...]:
    """All steps that a trace marks, in order of rank and time; empty without markers."""
    return run.once(_traced_steps)


def _traced_steps(run: Run) -> tuple[TracedStep, ...]:
    return tuple(
        step
        for _, part in step_markers(run).group_by("rank", "pid", "thread", maintain_order=True)
        for step in _of_thread(run, part)
    )


def _of_thread(run: Run, steps: pl.DataFrame) -> Iterator[TracedStep]:
    rank, pid, thread = steps.select("rank", "pid", "thread").row(0)
    marks = _marks(run, rank, pid, thread)
    for step, start, end in steps.select("step", "start", "end").iter_rows():
        backwards = _backwards(marks, start, end)
        yield TracedStep(
            rank=rank, pid=pid, thread=thread, step=step, start=start, end=end,
            has_loader=bool(len(marks.waits)), backwards=len(backwards),
            operators=int(np.diff(np.searchsorted(marks.operator_starts, (start, end)))[0]) + len(backwards),
            phases=_phases(marks, backwards, start, end),
        )  # fmt: skip


def _marks(run: Run, rank: int, pid: str, thread: str) -> _Thread:
    process = (pl.col("rank") == rank) & (pl.col("pid") == pid)
    here = process & (pl.col("thread") == thread)
    host, rows = run.optional("host", *THREAD, "start", "end"), host_rows(run)
    operations = host.select(process).to_series().to_numpy() & rows.of_kind(*OPERATIONS)
    times = host.select("start", "end")
    backward = operations & rows.named(is_backward())
    own = operations & host.select(here).to_series().to_numpy()
    forward = own & rows.of_kind("operator") & rows.named(is_operator_name()) & ~backward
    return _Thread(
        waits=union(spans(data_waits(run).filter(here))),
        optimizer=union(spans(times.filter(own & rows.named(is_optimizer())))),
        backward=union(np.concatenate((spans(times.filter(backward)), spans(backward_calls(run).filter(here))))),
        operator_starts=np.sort(times["start"].filter(forward).to_numpy()),
    )


def _cut(marks: Spans, start: int, end: int) -> Spans:
    """The part of a set in [start, end)."""
    return clip(near(marks, np.array([[start, end]], dtype=np.int64)), start, end)


def _backwards(marks: _Thread, start: int, end: int) -> Spans:
    """One span per backward call of a step."""
    parts = _cut(marks.backward, start, end)
    if len(parts) < 2:
        return parts
    between = np.searchsorted(marks.operator_starts, np.stack((parts[:-1, 1], parts[1:, 0])))
    first = np.concatenate(([True], between[1] > between[0]))
    last = np.concatenate((first[1:], [True]))
    return np.stack((parts[first, 0], parts[last, 1]), axis=1)


def _phases(marks: _Thread, backwards: Spans, start: int, end: int) -> dict[str, Spans]:
    waits = _cut(marks.waits, start, end)
    backward = subtract(backwards, waits)
    optimizer = subtract(subtract(_cut(marks.optimizer, start, end), waits), backwards)
    taken = union(np.concatenate((waits, backward, optimizer)))
    forward = subtract(_before(backwards, taken, start), taken)
    whole = np.array([[start, end]], dtype=np.int64)
    other = subtract(whole, np.concatenate((taken, forward)))
    return {"data_wait": waits, "forward": forward, "backward": backward, "optimizer": optimizer, "other": other}


def _before(backwards: Spans, taken: Spans, start: int) -> Spans:
    """From the last end of something else before each backward, or from the step's start, to that backward."""
    ends = np.concatenate(([start], taken[:, 1]))
    last = ends[np.searchsorted(ends, backwards[:, 0], side="right") - 1]
    return np.stack((last, backwards[:, 0]), axis=1)
