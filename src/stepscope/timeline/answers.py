"""Answers as plain data for JSON. Times count from the first moment of the run: a browser reads those exactly."""

import math
from dataclasses import asdict
from typing import Any

from stepscope.core.run import Run
from stepscope.timeline.aggregates import Sums
from stepscope.timeline.content import Floats, Stretch
from stepscope.timeline.contents import notes, origin, tracks
from stepscope.timeline.details import Event, Link
from stepscope.timeline.frame import LaneFrame, SpanFrame, ValueFrame, WindowFrame
from stepscope.timeline.search import Found, Ref

__all__ = ["event_answer", "found_answer", "frame_answer", "sums_answer", "tracks_answer", "values_answer"]

_DIGITS = 6  # of values: a screen shows fewer


def tracks_answer(run: Run) -> dict[str, Any]:
    """The tracks; `origin` is the moment that times count from, as text, `end` the last one."""
    known, first = tracks(run), origin(run)
    rows = [
        asdict(track)
        | {"first": track.first - first, "last": track.last - first, "recorded": _since(track.recorded, first)}
        for track in known
    ]
    end = max((row["last"] for row in rows), default=0)
    return {"origin": str(first), "end": end, "tracks": rows, "notes": list(notes(run))}


def _since(stretches: tuple[Stretch, ...] | None, first: int) -> list[Stretch] | None:
    return None if stretches is None else [(start - first, end - first) for start, end in stretches]


def frame_answer(frame: WindowFrame, first: int) -> dict[str, Any]:
    """A frame; of spans that are drawn by themselves `length` instead of the end."""
    return {
        "start": frame.start - first,
        "end": frame.end - first,
        "width": frame.width,
        "names": [list(pair) for pair in frame.names],
        "tracks": [_track(track, first) for track in frame.tracks],
    }


def _track(track: SpanFrame | ValueFrame, first: int) -> dict[str, Any]:
    if isinstance(track, ValueFrame):
        low = values_answer(track.low)
        return {"id": track.id, "low": low, "high": low if track.high is track.low else values_answer(track.high)}
    lanes = [_lane(lane, first) for lane in track.lanes]
    return {"id": track.id, "drawn": track.drawn, "merged": track.merged, "lanes": lanes}


def _lane(lane: LaneFrame, first: int) -> dict[str, Any]:
    numbers = {
        "start": lane.start - first, "length": lane.end - lane.start, "name": lane.name, "pixel": lane.pixel,
        "count": lane.count, "busy": lane.busy, "longest": lane.longest,
    }  # fmt: skip
    return {"lane": lane.lane} | {key: column.tolist() for key, column in numbers.items() if len(column)}


def values_answer(values: Floats) -> list[float | None]:
    """Values with as many digits as are shown; null: not known."""
    return [None if math.isnan(value) else float(f"{value:.{_DIGITS}g}") for value in values.tolist()]


def found_answer(found: Found, first: int) -> dict[str, Any]:
    """What was found."""
    answer = asdict(found) | {"names": [list(pair) for pair in found.names]}
    if found.hit is None:
        return answer | {"end": None}
    return answer | {"hit": _ref(found.hit, first), "end": found.end - first}


def event_answer(event: Event, first: int) -> dict[str, Any]:
    """A span with all that is known of it."""
    return {
        "ref": _ref(event.ref, first),
        "name": event.name,
        "category": event.category,
        "end": event.end - first,
        "place": event.place,
        "arguments": [asdict(argument) for argument in event.arguments],
        "links": [_link(link, first) for link in event.links],
    }


def sums_answer(sums: Sums) -> dict[str, Any]:
    """The rows by name."""
    return asdict(sums)


def _link(link: Link, first: int) -> dict[str, Any]:
    return {"what": link.what, "name": link.name, "ref": _ref(link.ref, first), "end": link.end - first}


def _ref(ref: Ref, first: int) -> dict[str, Any]:
    return {"track": ref.track, "lane": ref.lane, "start": ref.start - first}
