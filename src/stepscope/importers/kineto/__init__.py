"""Traces of torch.profiler: JSON written by Kineto, `*.pt.trace.json`, packed with gzip or not.

Written by `torch.profiler.profile(...)` with `export_chrome_trace` or `tensorboard_trace_handler`, by on-demand
profiling, and by `stepscope run` for its traced windows. Every generation since 2021 is read, and Chrome traces of
other writers as far as they hold complete events; a damaged file is read as far as it goes, and what is lost is
counted.

Times: the decimal text of `ts` and `dur` (µs) times 1000, exactly, plus `baseTimeNanoseconds`. Events of a device get
the pid of the process that launched them, because correlation ids are unique within a process; `device` and `stream`
are the arguments of that name, else pid and tid. Categories of 2021 and of today map to the same kinds.

Also read are `trace_view.json` of Ascend's profiler (torch_npu), whose tasks are work of the device, and what
torch.autograd.profiler exports (`other_writers`).
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager

from stepscope.core.importing import Importer, Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.kineto.whole import read_whole

__all__ = ["IMPORTER"]

_KEYS = re.compile(
    rb'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:'
)
_FIRST_EVENT = re.compile(rb'\s*\[\s*(?:\]\s*\Z|\{\s*"(?:ph|name|cat|ts|dur|pid|tid|args|id)"\s*:)')
_PADDLE_KEY = re.compile(rb'"(?:span_index|ExtraInfo)"\s*:')


def sniff(path: AnyPath, head: bytes) -> bool:
    """A JSON object with a header key of Kineto, or the array form of the Chrome trace format."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode()
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return _FIRST_EVENT.match(text) is not None
    return text.startswith(b"{") and _KEYS.search(text) is not None and not _PADDLE_KEY.search(text)


def read(path: AnyPath, sink: Sink) -> None:
    """Fill the tables of events, processes, devices and meta data. Raises BadInput if the file holds no trace."""
    with _collector_paused():
        _read(path, sink)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Millions of new dictionaries without a cycle among them: looking for one takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _read(path: AnyPath, sink: Sink) -> None:
    """By the compiled scanner, and where it cannot, by the reader of whole texts."""
    from stepscope.importers.kineto.scanned import Unfit, read_scanned  # not at the top: a sniff does not need it

    try:
        return read_scanned(path, sink)
    except (Unfit, OSError):  # what cannot be opened is told below
        return read_whole(path, sink)


IMPORTER = Importer(sniff=sniff, read=read, clock="the profiler's clock, ns since the Unix epoch")
