"""The clocks of a process and of the workers that it started.

All of them are on one host, and the monotonic clock of a host is one clock. So their times are brought to the Unix
epoch with one and the same pair of readings, the one in the header of steps.bin: what one process did before the other
stays before it, to the nanosecond, whatever was done to the wall clock in between. All other pairs that were read tell
how far the wall clock, which is that of traces, was from this.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.json_files import Row, number
from stepscope.importers.run_dir.records import read_clocks
from stepscope.run_format.files import STEPS

__all__ = ["Clock", "clock_of"]


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of process `pid` of a rank: `to_epoch` is added to its monotonic times."""

    rank: int
    pid: str
    to_epoch: int

    def add(self, source: str, readings: Iterable[object], sink: Sink) -> None:
        """Add what `source` read of both clocks: objects with `epoch_ns` and `monotonic_ns`, others are none."""
        for row in readings:
            epoch, monotonic = (number(row.get(name)) for name in _PAIR) if isinstance(row, dict) else (None, None)
            if isinstance(row, dict) and epoch is not None and monotonic is not None:
                took, time = number(row.get("took_ns")), monotonic + self.to_epoch
                error = None if took is None or took < 0 else (took + 1) // 2
                sink.row("clock_readings", rank=self.rank, pid=self.pid, source=source, time=time, offset=epoch - time,
                         error=error)  # fmt: skip


_PAIR = ("epoch_ns", "monotonic_ns")


def clock_of(folder: AnyPath, rank: int, pid: str, about: Row) -> Clock | None:
    """The clock of the process that wrote a folder; None if no pair of readings is left."""
    known = read_clocks(folder / STEPS)
    pair = about.get("clock")
    if known is None and isinstance(pair, dict):
        epoch, monotonic = (number(pair.get(name)) for name in _PAIR)
        known = (epoch, monotonic) if epoch is not None and monotonic is not None else None
    return None if known is None else Clock(rank, pid, known[0] - known[1])
