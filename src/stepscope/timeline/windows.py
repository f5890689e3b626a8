"""Where steps lie in the timeline, and which tables have its times."""

import numpy as np

from stepscope.core.run import Run
from stepscope.timeline.content import Content, Spans
from stepscope.timeline.contents import contents, origin, tracks
from stepscope.timeline.lanes import Ints

__all__ = ["ON_TRACE_CLOCK", "step_window", "typical"]

ON_TRACE_CLOCK = frozenset((
    "allocations", "collectives", "critical_path", "device", "gpu_counters", "host", "idle_gaps",
))  # fmt: skip
"""Tables whose `start` and `end` are on the clock of the trace, which is that of the timeline."""


def step_window(run: Run, numbers: tuple[int, int] | None, rank: int | None = None) -> tuple[int, int] | None:
    """From the start of the first to the end of the last of some steps of a rank, as times since the first moment.

    `numbers` are the first and the last step, None: a typical one. `rank` None: the first that has steps. None where
    the timeline has no such step.
    """
    for track in tracks(run):
        if track.kind == "steps" and rank in (None, track.rank):
            found = next(part for part in contents(run, track.rank) if part.track.id == track.id)
            return _window(run, found, numbers)
    return None


def typical(start: Ints, end: Ints) -> int:
    """The place of the step whose length is nearest to the mean; not the first or last where there are more."""
    length = end - start
    inner = range(1, len(length) - 1) if len(length) > 2 else range(len(length))
    return min(inner, key=lambda place: abs(int(length[place]) - float(length.mean())))


def _window(run: Run, content: Content, numbers: tuple[int, int] | None) -> tuple[int, int] | None:
    assert isinstance(content, Spans)
    first = origin(run)
    start, end = (np.concatenate([getattr(lane, name) for lane in content.lanes]) for name in ("start", "end"))
    if numbers is None:
        place = typical(start, end)
        return int(start[place]) - first, int(end[place]) - first
    called = np.array([_number(name) for name in content.names])
    step = called[np.concatenate([lane.name for lane in content.lanes])]
    wanted = np.flatnonzero((step >= numbers[0]) & (step <= numbers[1]))
    return (int(start[wanted].min()) - first, int(end[wanted].max()) - first) if len(wanted) else None


def _number(name: str) -> int:
    """The number in the name of a step; -1 for one without."""
    number = name.rpartition(" ")[2]
    return int(number) if number.isdigit() else -1
