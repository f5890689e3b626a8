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
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import OPERATIONS, THREAD, is_operator_name
from stepscope.analyses.lib.host_rows import host_rows
from stepscope.analyses.lib.markers import backward_calls, data_waits, is_backward, is_optimizer, step_markers
from stepscope.core.intervals import Spans, spans, subtract, union
from stepscope.core.run import Run

__all__ = ["PHASES", "TracedStep", "traced_steps"]

Ints = npt.NDArray[np.int64]
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
    operator_starts: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """Steps laid one behind the other, in order and 1 ns apart, so that sets of all of them are made at once.

    There they begin at `begin`, and the next would at `until`.
    """

    start: Ints
    end: Ints
    begin: Ints
    until: int

    @property
    def whole(self) -> Spans:
        return np.stack((self.begin, self.begin + self.end - self.start), axis=1)

    def cut(self, marks: Spans) -> tuple[Spans, Ints]:
        """The parts of a set in all steps, and the step of each."""
        first = np.searchsorted(marks[:, 1], self.start, side="right")
        count = np.maximum(np.searchsorted(marks[:, 0], self.end) - first, 0)
        of = np.repeat(np.arange(len(count)), count)
        near = marks[np.arange(len(of)) + np.repeat(first - np.cumsum(count) + count, count)]
        inside = np.clip(near, self.start[of, None], self.end[of, None]) + (self.begin - self.start)[of, None]
        parts = union(inside)
        return parts, np.searchsorted(self.begin, parts[:, 0], side="right") - 1

    def of_steps(self, a: Spans) -> list[Spans]:
        """Each step's part of a set, in its own time."""
        edges = np.searchsorted(a[:, 0], np.append(self.begin, self.until)).tolist()
        shift = (self.start - self.begin).tolist()
        return [a[edges[at] : edges[at + 1]] + by for at, by in enumerate(shift)]


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
    laid = _laid(steps["start"].to_numpy(), steps["end"].to_numpy())
    backwards = _backwards(marks, laid)
    calls = np.diff(np.searchsorted(backwards[:, 0], np.append(laid.begin, laid.until)))
    operators = np.searchsorted(marks.operator_starts, laid.end) - np.searchsorted(marks.operator_starts, laid.start)
    phases = {phase: laid.of_steps(time) for phase, time in _phases(marks, backwards, laid).items()}
    for at, (step, start, end) in enumerate(steps.select("step", "start", "end").iter_rows()):
        yield TracedStep(
            rank=rank, pid=pid, thread=thread, step=step, start=start, end=end,
            has_loader=bool(len(marks.waits)), backwards=int(calls[at]),
            operators=int(operators[at] + calls[at]),
            phases={phase: time[at] for phase, time in phases.items()},
        )  # fmt: skip


def _laid(start: Ints, end: Ints) -> _Laid:
    lasting = end - start + 1
    until = np.cumsum(lasting)
    return _Laid(start, end, until - lasting, int(until[-1]))


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
        operator_starts=np.sort(times["start"].filter(forward).to_numpy(), kind="stable"),
    )


def _backwards(marks: _Thread, laid: _Laid) -> Spans:
    """One span per backward call of a step."""
    parts, of = laid.cut(marks.backward)
    if not len(parts):
        return parts
    times = parts - (laid.begin - laid.start)[of, None]
    between = np.searchsorted(marks.operator_starts, np.stack((times[:-1, 1], times[1:, 0])))
    first = np.concatenate(([True], (between[1] > between[0]) | (of[1:] != of[:-1])))
    last = np.concatenate((first[1:], [True]))
    return np.stack((parts[first, 0], parts[last, 1]), axis=1)


def _phases(marks: _Thread, backwards: Spans, laid: _Laid) -> dict[str, Spans]:
    (waits, _), (steps_of_optimizer, _) = laid.cut(marks.waits), laid.cut(marks.optimizer)
    backward = subtract(backwards, waits)
    optimizer = subtract(subtract(steps_of_optimizer, waits), backwards)
    taken = union(np.concatenate((waits, backward, optimizer)))
    forward = subtract(_before(backwards, taken, laid), taken)
    other = subtract(laid.whole, np.concatenate((taken, forward)))
    return {"data_wait": waits, "forward": forward, "backward": backward, "optimizer": optimizer, "other": other}


def _before(backwards: Spans, taken: Spans, laid: _Laid) -> Spans:
    """From the last end of something else before each backward, or from the step's start, to that backward."""
    ends = np.sort(np.concatenate((laid.begin, taken[:, 1])))
    last = ends[np.searchsorted(ends, backwards[:, 0], side="right") - 1]
    return np.stack((last, backwards[:, 0]), axis=1)
