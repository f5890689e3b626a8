"""All tracks of a run, each prepared once, and the moment that times in answers are counted from."""

from collections.abc import Sequence

import numpy as np

from stepscope.core.run import Run, chain
from stepscope.timeline.content import Content, Kind, Track
from stepscope.timeline.derived import gap_spans, path_spans, queue_values
from stepscope.timeline.recorded import with_stretches
from stepscope.timeline.spans import TRACE_CLOCK, device_spans, host_spans, loader_spans, step_spans
from stepscope.timeline.trace_clock import on_clock
from stepscope.timeline.values import device_values, memory_values, system_values, trace_counters

__all__ = ["chosen", "contents", "notes", "origin", "tracks"]

_ORDER: tuple[Kind, ...] = ("steps", "path", "stream", "gaps", "counter", "host", "worker")


def tracks(run: Run) -> tuple[Track, ...]:
    """The tracks of a run: rank by rank steps, devices, values over time, threads, workers."""
    found = (*run.per_rank(_rank_tracks, chain), *(content.track for content in run.once(_job_contents)))
    return tuple(sorted(found, key=_place))


def contents(run: Run, rank: int | None) -> tuple[Content, ...]:
    """The tracks of a rank with all that is in them; None: those of no rank."""
    found = run.once(_job_contents) if rank is None else run.per_rank(_rank_contents, chain, only=rank)
    return tuple(content for content in found if content.track.rank == rank)


def chosen(run: Run, names: Sequence[str] | None) -> tuple[Content, ...]:
    """The tracks that are named, in that order, or all. Raises KeyError for a name that no track has."""
    known = {track.id: track for track in tracks(run)}
    wanted = list(known if names is None else names)
    of_rank = {rank: contents(run, rank) for rank in dict.fromkeys(known[name].rank for name in wanted)}
    found = {content.track.id: content for part in of_rank.values() for content in part}
    return tuple(found[name] for name in wanted)


def origin(run: Run) -> int:
    """The first moment of a run. Times are sent as what they are later: numbers of a browser are exact to 2^53."""
    return min((track.first for track in tracks(run)), default=0)


def notes(run: Run) -> tuple[str, ...]:
    """What of a run is not drawn, and why."""
    if on_clock(run, None, np.zeros(1, dtype=np.int64)) is not None:
        return ()
    recorded = (run.optional("steps", "clock")["clock"] != TRACE_CLOCK).any()
    known = {"recorded steps": recorded, "loading": run.rows("loader_spans"), "the machine": run.rows("system")}
    lacking = [name for name, there in known.items() if there]
    if not lacking:
        return ()
    return (
        f"not drawn: {', '.join(lacking)}, because no reading of their clock beside that of the trace was recorded; "
        "record the run again with `stepscope run`",
    )


def _place(track: Track) -> tuple[bool, int, int]:
    return track.rank is None, track.rank or 0, _ORDER.index(track.kind)


def _rank_tracks(run: Run) -> tuple[Track, ...]:
    return tuple(content.track for content in run.once(_rank_contents))


def _rank_contents(run: Run) -> tuple[Content, ...]:
    spans = (*step_spans(run), *device_spans(run), *host_spans(run), *loader_spans(run))
    spans = (*spans, *gap_spans(run), *path_spans(run))
    values = (*device_values(run), *queue_values(run), *memory_values(run), *trace_counters(run))
    found = (*spans, *values, *(part for part in system_values(run) if part.track.rank is not None))
    return with_stretches(run, found)


def _job_contents(run: Run) -> tuple[Content, ...]:
    return tuple(part for part in system_values(run) if part.track.rank is None)
