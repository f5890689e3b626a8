"""The timeline of a run: its tracks, and what is drawn of a window of them at the resolution of a screen.

Tracks are prepared once for a run; a frame then costs about as much as it has pixels, not as the run has events.
"""

from stepscope.timeline.aggregates import Sums, sums
from stepscope.timeline.content import Track
from stepscope.timeline.contents import contents, origin, tracks
from stepscope.timeline.details import Event, event
from stepscope.timeline.excerpt import excerpt
from stepscope.timeline.frame import WindowFrame, frame, inside
from stepscope.timeline.rows import columns_told, rows_of
from stepscope.timeline.search import Found, Ref, find
from stepscope.timeline.windows import drawn, place, step_window

__all__ = [
    "Event",
    "Found",
    "Ref",
    "Sums",
    "Track",
    "WindowFrame",
    "columns_told",
    "contents",
    "drawn",
    "event",
    "excerpt",
    "find",
    "frame",
    "inside",
    "origin",
    "place",
    "rows_of",
    "step_window",
    "sums",
    "tracks",
]  # fmt: skip
