"""A bounded window of a run for a file that has nobody to ask: one step with its neighbors, every span of it.

The window is the step whose length is nearest to the mean, of those that a trace holds if there are any, with the step
before and after it; where that is too much, the step alone, then as much of its beginning as fits. Tracks say how many
spans they have outside of it.
"""

import json
from typing import Any

import numpy as np

from stepscope.core.run import Run
from stepscope.timeline.answers import tracks_answer, values_answer
from stepscope.timeline.content import Content, Spans
from stepscope.timeline.contents import chosen, origin, tracks
from stepscope.timeline.frame import ValueFrame, frame, inside
from stepscope.timeline.lanes import Ints, SpanLane
from stepscope.timeline.recorded import traced_steps
from stepscope.timeline.rows import TABLES_TOLD, columns_of, columns_told, rows_of
from stepscope.timeline.windows import numbers_of, step_window, typical

__all__ = ["MOST_SPANS", "excerpt"]

MOST_SPANS = 25_000  # up to 200 kB of a packed file, with what the tables hold about each
MOST_RANKS = 4  # of which events have to be read again where ranks were opened apart
_COLUMNS = 1000  # of values over time


def excerpt(run: Run, most: int = MOST_SPANS) -> dict[str, Any]:
    """The tracks, and of each the spans in the window, as plain data for JSON; times as in `answers`.

    Empty where there is nothing to draw. Of many ranks the first MOST_RANKS are told, and a note says so.
    """
    known = tracks(run)
    ranks = sorted({track.rank for track in known if track.rank is not None})
    kept = [track for track in known if track.rank is None or track.rank in ranks[:MOST_RANKS]]
    if not kept:
        return {}
    contents, first = chosen(run, [track.id for track in kept]), origin(run)
    start, end = _window(run, contents, most)
    values = [content.track.id for content in contents if not isinstance(content, Spans)]
    seen = frame(run, (start, end), _COLUMNS, values) if values and end > start else None
    of_values = {track.id: track for track in seen.tracks if isinstance(track, ValueFrame)} if seen else {}
    names, told = _Numbers(), _Numbers()
    spans = {
        content.track.id: [_lane(run, content, lane, (start, end), first, names, told) for lane in content.lanes]
        for content in contents
        if isinstance(content, Spans)
    }
    low = {id_: [values_answer(track.low), values_answer(track.high)] for id_, track in of_values.items()}
    answer = tracks_answer(run)
    names_kept = {track.id for track in kept}
    answer["tracks"] = [track for track in answer["tracks"] if track["id"] in names_kept]
    if len(ranks) > MOST_RANKS:
        answer["notes"].append(f"this file holds the first {MOST_RANKS} of {len(ranks)} ranks")
    return answer | {
        "path": run.path,
        "typical": step_window(run, None),
        "window": [start - first, end - first],
        "whole": all(track.first >= start and track.last <= end for track in known) and len(kept) == len(known),
        "names": [list(name) for name in names.number],
        "told": [json.loads(text) for text in told.number],
        "meanings": _meanings(),
        "spans": spans,
        "values": low,
    }


def _window(run: Run, contents: tuple[Content, ...], most: int) -> tuple[int, int]:
    """The window, in which at most so many spans lie."""
    found, among = _steps(run, contents)
    first, last = origin(run), max((content.track.last for content in contents), default=0)
    candidates = [(first, last + 1)]
    if len(found):
        middle = typical(found[:, 0], found[:, 1], among)
        near = found[max(0, middle - 1) : middle + 2]
        candidates += [(int(near[0, 0]), int(near[-1, 1])), (int(found[middle, 0]), int(found[middle, 1]))]
    for window in candidates:
        if _count(contents, window) <= most:
            return window
    start, end = candidates[-1]
    low, high = start + 1, end  # the longest part that fits, by bisection: more time never holds fewer spans
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if _count(contents, (start, half)) <= most else (low, half - 1)
    return start, low


def _steps(run: Run, contents: tuple[Content, ...]) -> tuple[Ints, list[int]]:
    """Starts and ends of the steps of the first rank that has any, and the places of those that a trace holds."""
    for content in contents:
        if isinstance(content, Spans) and content.track.kind == "steps":
            lane = content.lanes[0]
            traced = np.isin(numbers_of(content)[: len(lane.start)], traced_steps(run, content.track.rank))
            return np.stack((lane.start, lane.end), axis=1), np.flatnonzero(traced).tolist()
    return np.zeros((0, 2), dtype=np.int64), []


def _count(contents: tuple[Content, ...], window: tuple[int, int]) -> int:
    places = [inside(lane, *window) for content in contents if isinstance(content, Spans) for lane in content.lanes]
    return sum(max(0, last - first) for first, last in places)


class _Numbers:
    """Numbers of texts, or of pairs, in the order in which they are met."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}

    def of(self, thing: object) -> int:
        return self.number.setdefault(thing, len(self.number))


def _lane(
    run: Run, content: Spans, lane: SpanLane, window: tuple[int, int], origin_: int, names: _Numbers, told: _Numbers
) -> dict[str, Any]:
    """The spans of a lane in the window: each start as what it is after the start before."""
    first, last = inside(lane, *window)
    if last <= first:
        return {}
    start, end, codes = lane.start[first:last], lane.end[first:last], lane.name[first:last].tolist()
    found = {
        "after": np.diff(start, prepend=origin_).tolist(),
        "length": (end - start).tolist(),
        "name": [names.of((content.names[code], content.categories[code])) for code in codes],
    }
    crossing = {} if lane.nests else {"nests": False}
    return found | crossing | _more(run, content, lane.row[first:last], told)


def _more(run: Run, content: Spans, rows: Ints, told: _Numbers) -> dict[str, list[int]]:
    """What the table holds about spans: the number of the set of values of each, and what it was launched by."""
    told_columns = columns_told(content.table, joins=False)
    if run.ranks is not None or not told_columns:
        return {}
    joins = [name for name in columns_told(content.table) if name not in told_columns]
    table = rows_of(run, content.table, *told_columns, *joins)[rows]
    sets = [
        told.of(json.dumps({key: value for key, value in row.items() if value is not None}))
        for row in table[list(told_columns)].iter_rows(named=True)
    ]
    found = {"told": sets}
    if joins and (table["correlation"] != 0).any():
        found["correlation"] = table["correlation"].fill_null(0).to_list()
    return found


def _meanings() -> dict[str, list[str | None]]:
    """Unit and meaning of what is told."""
    return {
        column.name: [column.unit, column.meaning]
        for table in TABLES_TOLD
        for column in columns_of(table)
        if column.name in columns_told(table)
    }
