"""Where steps and moments lie in the timeline."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from stepscope.core.run import Run
from stepscope.core.schema import Clock
from stepscope.timeline.content import Content, Spans
from stepscope.timeline.contents import contents, origin, tracks
from stepscope.timeline.lanes import Ints
from stepscope.timeline.recorded import traced_steps
from stepscope.timeline.trace_clock import on_clock

__all__ = ["drawn", "numbers_of", "place", "step_window", "typical"]

AROUND_POINT = 1_000_000  # ns before and after a moment outside of steps: a few operators


def drawn(run: Run, clock: Clock) -> bool:
    """Whether the timeline knows where moments of a clock lie."""
    return clock == "trace" or on_clock(run, None, np.zeros(1, dtype=np.int64)) is not None


def place(run: Run, clock: Clock, start: int, end: int | None, rank: int | None = None) -> tuple[int, int] | None:
    """Where times of a clock lie, as times since the first moment; of a moment, which has no end, the step around it.

    `rank` None: of no rank. None where the timeline does not know that.
    """
    times = np.array([start, start if end is None else end], dtype=np.int64)
    moved = times if clock == "trace" else on_clock(run, rank, times)
    if moved is None:
        return None
    first = origin(run)
    window = int(moved[0]) - first, int(moved[1]) - first
    return window if end is not None else _around(run, window[0], rank)


def _around(run: Run, moment: int, rank: int | None) -> tuple[int, int]:
    """The step in which a moment lies; without one a little time around it."""
    first = origin(run)
    for track in tracks(run):
        if track.kind == "steps" and rank in (None, track.rank):
            found = next(part for part in contents(run, track.rank) if part.track.id == track.id)
            assert isinstance(found, Spans)
            for lane in found.lanes:
                at = int(np.searchsorted(lane.start, moment + first, side="right")) - 1
                if at >= 0 and moment + first < lane.end[at]:
                    return int(lane.start[at]) - first, int(lane.end[at]) - first
    return moment - AROUND_POINT, moment + AROUND_POINT


def step_window(run: Run, numbers: tuple[int, int] | None, rank: int | None = None) -> tuple[int, int] | None:
    """From the start of the first to the end of the last of some steps of a rank, as times since the first moment.

    `numbers` are the first and the last step, None: a typical one, of those that a trace holds in detail if there are
    any. `rank` None: the first that has steps. None where
    the timeline has no such step.
    """
    for track in tracks(run):
        if track.kind == "steps" and rank in (None, track.rank):
            found = next(part for part in contents(run, track.rank) if part.track.id == track.id)
            return _window(run, found, numbers, set(traced_steps(run, track.rank)))
    return None


def typical(start: Ints, end: Ints, among: Sequence[int] = ()) -> int:
    """The place of the step whose length is nearest to the mean; not the first or last where there are more.

    `among` are the places to choose from, empty: all.
    """
    length = end - start
    places = among or range(len(length))
    inner = places[1:-1] if len(places) > 2 else places
    mean = float(length[list(places)].mean())
    return min(inner, key=lambda place: abs(int(length[place]) - mean))


def numbers_of(content: Spans) -> Ints:
    """The numbers of the steps of a track, lane after lane; -1 for one without."""
    called = np.array([_number(name) for name in content.names])
    numbers: Ints = called[np.concatenate([lane.name for lane in content.lanes])]
    return numbers


def _window(
    run: Run, content: Content, numbers: tuple[int, int] | None, traced: AbstractSet[int]
) -> tuple[int, int] | None:
    assert isinstance(content, Spans)
    first = origin(run)
    start, end = (np.concatenate([getattr(lane, name) for lane in content.lanes]) for name in ("start", "end"))
    step = numbers_of(content)
    if numbers is None:
        place = typical(start, end, np.flatnonzero(np.isin(step, sorted(traced))).tolist())
        return int(start[place]) - first, int(end[place]) - first
    wanted = np.flatnonzero((step >= numbers[0]) & (step <= numbers[1]))
    return (int(start[wanted].min()) - first, int(end[wanted].max()) - first) if len(wanted) else None


def _number(name: str) -> int:
    """The number in the name of a step; -1 for one without."""
    number = name.rpartition(" ")[2]
    return int(number) if number.isdigit() else -1
