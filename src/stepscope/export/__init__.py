"""Traces with what stepscope found drawn into them, for Perfetto and chrome://tracing.

The events of the trace pass through byte for byte; those of the overlays are added at the end of the list of events, so
that positions of events stay. Only a damaged trace is written anew, repaired as the importer of traces reads it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from stepscope.core.errors import MissingData
from stepscope.core.paths import AnyPath
from stepscope.core.report import Text
from stepscope.core.run import Run
from stepscope.export.events import Clock
from stepscope.export.loading import chosen
from stepscope.export.overlays import OVERLAYS, clock_of, free_pid
from stepscope.export.repaired import repaired_trace
from stepscope.export.source import Source
from stepscope.export.splice import Open, spliced
from stepscope.importers.kineto.json_repair import CONSTANTS
from stepscope.importers.kineto.source import REPLACED
from stepscope.importers.kineto.stream import Damaged, opened

__all__ = ["Done", "Drawing", "Source", "Unclear", "alone", "draw", "is_sound", "with_overlays"]

Done = Callable[[int, int], None]
"""Called now and then: bytes of the trace that were read so far, and in all."""

_DAMAGE = (
    CONSTANTS, REPLACED, "not strictly valid JSON", "the gzip", "the file is truncated", "the key ", "another JSON",
    "bytes after",
)  # fmt: skip
"""How the reasons begin that the importer tells of a text that is no JSON, or not only."""


class Unclear(Exception):
    """A trace that was taken for sound is not: it has to be written anew."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """Overlays of a source: the names of those that are `drawn`, and what the others are `missing`."""

    source: Source
    drawn: tuple[str, ...]
    missing: dict[str, MissingData]

    def clock(self) -> Clock:
        """The clock of the trace; without one it begins with the first step or span."""
        trace = self.source.trace
        if trace is not None:
            return clock_of(trace)
        tables = [self.source.beside().optional(table, "start")["start"] for table in ("steps", "loader_spans")]
        return Clock(int(pl.concat(tables).min() or 0))  # type: ignore[arg-type]

    def events(self) -> Iterator[bytes]:
        """The events of all overlays, as JSON."""
        clock, pid = self.clock(), free_pid(self.source.trace)
        for place, name in enumerate(self.drawn):
            for event in OVERLAYS[name](self.source, clock, pid + place):
                yield event.encode()

    def told(self) -> list[Text]:
        """What is to be known of what is drawn."""
        return chosen(self.source).told() if "loader" in self.drawn else []


def draw(source: Source, names: Sequence[str]) -> Drawing:
    """The overlays that are named."""
    drawn, missing = [], {}
    for name in names:
        try:
            OVERLAYS[name](source, Clock(0), 0)
        except MissingData as lack:
            missing[name] = lack
        else:
            drawn.append(name)
    return Drawing(source, tuple(drawn), missing)


def alone(drawing: Drawing) -> Iterator[bytes]:
    """The text of a file that has nothing but overlays, of a run without a trace."""
    base = drawing.clock().base
    yield b'{"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": %d, "traceEvents": [' % base
    separator = b"\n"
    for event in drawing.events():
        yield separator + event
        separator = b",\n"
    yield b"\n]}\n"


def is_sound(run: Run) -> bool:
    """Whether the text of a trace was read without repairing it."""
    return not any(reason.startswith(_DAMAGE) for reason in run.optional("skipped", "reason")["reason"])


def with_overlays(path: AnyPath, drawing: Drawing, *, sound: bool, done: Done) -> Iterator[bytes]:
    """The text of a trace with overlays, in pieces. Raises Unclear if it is not as sound as it was said to be."""
    if not sound:
        yield from repaired_trace(path, drawing.events())
        return
    try:
        with opened(path) as stream:
            for piece in spliced(stream, drawing.events()):
                yield piece
                done(stream.done, stream.total or stream.done)
    except (Open, Damaged) as error:
        raise Unclear from error
