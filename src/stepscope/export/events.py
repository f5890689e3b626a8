"""Trace events as text: slices, arrows, and the names of processes and threads."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["CATEGORY", "Clock", "arrow_end", "begin", "decimal", "end", "process", "slice_", "thread"]

CATEGORY = "stepscope"
"""Category of all events that are added."""

_ROUNDED = 2
"""Viewers compute ns from µs with floats, of the start and of the length: by so many ns the end may come too late then,
and a slice that overlaps the next one is not shown."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`base` is the time in ns since the epoch at which the clock of a trace reads 0."""

    base: int

    def text(self, time: int) -> str:
        """A time in ns as the trace would write it: µs, exactly."""
        return decimal(time - self.base)


def process(pid: int, name: str, place: int) -> Iterator[str]:
    """Name a process, and give it its place among the others: lower ones are drawn above."""
    for key, arguments in (("process_name", {"name": name}), ("process_sort_index", {"sort_index": place})):
        yield f'{{"ph":"M","name":"{key}","pid":{pid},"tid":0,"ts":0,"args":{json.dumps(arguments)}}}'


def thread(pid: int, number: int, name: str) -> str:
    """Name a thread."""
    return f'{{"ph":"M","name":"thread_name","pid":{pid},"tid":{number},"ts":0,"args":{json.dumps({"name": name})}}}'


def slice_(
    clock: Clock, pid: int, number: int, name: str, start: int, duration: int, arguments: Mapping[str, object]
) -> str:
    """A slice of a thread. It is written a little shorter, so that the next one may begin where it ends."""
    common = f'"ph":"X","cat":"{CATEGORY}","name":{json.dumps(name)},"pid":{pid},"tid":{number}'
    times = f'"ts":{clock.text(start)},"dur":{decimal(max(0, duration - _ROUNDED))}'
    return f'{{{common},{times},"args":{json.dumps(arguments)}}}'


def begin(clock: Clock, pid: int, number: int, name: str, start: int, arguments: Mapping[str, object]) -> str:
    """The begin of a slice in which others may lie; `end` ends the innermost of a thread.

    Viewers round the start and the length of a `slice_` apart: where slices nest or touch, some would be lost.
    """
    common = f'"ph":"B","cat":"{CATEGORY}","name":{json.dumps(name)},"pid":{pid},"tid":{number}'
    return f'{{{common},"ts":{clock.text(start)},"args":{json.dumps(arguments)}}}'


def end(clock: Clock, pid: int, number: int, time: int) -> str:
    """The end of the slice that began last on a thread and has not ended."""
    return f'{{"ph":"E","cat":"{CATEGORY}","pid":{pid},"tid":{number},"ts":{clock.text(time)}}}'


def arrow_end(clock: Clock, phase: str, name: str, number: int, pid: int, tid: int, time: int) -> str:
    """Where an arrow begins ("s"), passes a slice ("t") or ends ("f"); it is bound to the slice around this time."""
    bound = '"bp":"e",' if phase == "f" else ""
    common = f'"cat":"{CATEGORY}","name":"{name}","id":{number},"pid":{pid},"tid":{tid}'
    return f'{{"ph":"{phase}",{bound}{common},"ts":{clock.text(time)}}}'


def decimal(time: int) -> str:
    """A time in ns as µs, exactly."""
    whole, rest = divmod(abs(time), 1000)
    return f"{'-' if time < 0 else ''}{whole}.{rest:03d}"
