"""From a span to the next one: along its lane, or to what is around or inside it."""

import numpy as np

from stepscope.core.run import Run
from stepscope.timeline.content import Spans
from stepscope.timeline.contents import chosen
from stepscope.timeline.search import Ref

__all__ = ["moved"]


def moved(run: Run, ref: Ref, way: str) -> Ref:
    """`next` and `previous` in the lane, `out` to the span around, `in` to the first inside; else, and where there is
    none, the span itself. Raises KeyError where no such span is.
    """
    content = chosen(run, [ref.track])[0]
    if not isinstance(content, Spans) or not 0 <= ref.lane < len(content.lanes):
        raise KeyError(ref)
    lanes = content.lanes
    lane = lanes[ref.lane]
    index = int(np.searchsorted(lane.start, ref.start, side="right")) - 1
    if index < 0 or lane.start[index] != ref.start:
        raise KeyError(ref)
    match way:
        case "next":
            after = min(index + 1, len(lane.start) - 1)
            return Ref(ref.track, ref.lane, int(lane.start[after]))
        case "previous":
            before = int(np.searchsorted(lane.start, ref.start, side="left")) - 1
            return ref if before < 0 else Ref(ref.track, ref.lane, int(lane.start[before]))
        case "out":
            for number in range(ref.lane - 1, -1, -1):
                holder = int(np.searchsorted(lanes[number].start, ref.start, side="right")) - 1
                if holder >= 0 and lanes[number].end[holder] >= lane.end[index]:
                    return Ref(ref.track, number, int(lanes[number].start[holder]))
        case "in" if ref.lane + 1 < len(lanes):
            inner = int(np.searchsorted(lanes[ref.lane + 1].start, ref.start, side="left"))
            if inner < len(lanes[ref.lane + 1].start) and lanes[ref.lane + 1].end[inner] <= lane.end[index]:
                return Ref(ref.track, ref.lane + 1, int(lanes[ref.lane + 1].start[inner]))
    return ref
