"""Traces of torch.profiler: JSON written by Kineto, `*.pt.trace.json`, packed with gzip or not.

Written by `torch.profiler.profile(...)` with `export_chrome_trace` or `tensorboard_trace_handler`, by on-demand
profiling, and by `stepscope run` for its traced windows. Every generation since 2021 is read, and Chrome traces of
other writers as far as they hold complete events; a damaged file is read as far as it goes, and what is lost is
counted.

Times: the decimal text of `ts` and `dur` (µs) times 1000, exactly, plus `baseTimeNanoseconds`. Events of a device get
the pid of the process that launched them, because correlation ids are unique within a process; `device` and `stream`
are the arguments of that name, else pid and tid. Categories of 2021 and of today map to the same kinds.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepscope.core.errors import BadInput
from stepscope.core.trace import Importer, Sink
from stepscope.importers.kineto import header as headers
from stepscope.importers.kineto import tables
from stepscope.importers.kineto.events import sort_events
from stepscope.importers.kineto.json_repair import EVENTS, Document, NotJson, parse
from stepscope.importers.kineto.source import read_text

__all__ = ["IMPORTER"]

_RECORD = "Record a trace with `stepscope run -- COMMAND`, or export one with torch.profiler's export_chrome_trace()."
_KEYS = re.compile(
    rb'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|displayTimeUnit)"\s*:'
)
_FIRST_EVENT = re.compile(rb'\s*\[\s*(?:\]\s*\Z|\{\s*"(?:ph|name|cat|ts|dur|pid|tid|args|id)"\s*:)')
_PADDLE = ("span_index", "ExtraInfo")
_PADDLE_KEY = re.compile(rb'"(?:span_index|ExtraInfo)"\s*:')
_KEYS_SHOWN = 12


def sniff(path: Path, head: bytes) -> bool:
    """A JSON object with a header key of Kineto, or the array form of the Chrome trace format."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode()
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"["):
        return _FIRST_EVENT.match(text) is not None
    return text.startswith(b"{") and _KEYS.search(text) is not None and not _PADDLE_KEY.search(text)


def read(path: Path, sink: Sink) -> None:
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


def _read(path: Path, sink: Sink) -> None:
    def note(reason: str, count: int) -> None:
        sink.skip(str(path), reason, count)

    text = read_text(path, note)
    try:
        document = parse(text, note)
    except NotJson as error:
        where = f"line {text.count(chr(10), 0, error.position) + 1}" if error.position else ""
        raise BadInput(path, error.why, where=where, next_step=_RECORD) from error
    del text
    header, elements = _split(path, document)
    _fill(path, header, elements, document.lost, sink)


def _split(path: Path, document: Document) -> tuple[dict[str, Any], list[Any]]:
    """Header and events of a document that is a trace; raises BadInput for any other."""
    value = document.value
    header: dict[str, Any] = value if isinstance(value, dict) else {}
    elements: Any = header.get(EVENTS) if isinstance(value, dict) else value
    why = ""
    if not isinstance(value, dict | list):
        why = f"the top level is neither an object nor a list but a JSON {_kind(value)}"
    elif EVENTS not in header and not isinstance(value, list):
        why = _not_a_trace(header, document.followed)
    elif not isinstance(elements, list):
        why = f"{EVENTS} is a JSON {_kind(elements)}, not a list"
    elif not elements and (document.truncated or document.lost):
        why = "the file is truncated or damaged before the end of its first event"
    elif elements and not any(isinstance(element, dict) for element in elements):
        why = "a list that holds no events, so it is not a profiler trace"
    elif any(key in header for key in _PADDLE):
        why = "a trace of Paddle's profiler; this version reads traces of torch.profiler"
    if why:
        raise BadInput(path, why, next_step=_RECORD)
    return header, elements


def _not_a_trace(header: dict[str, Any], followed: bool) -> str:
    keys = ", ".join(list(header)[:_KEYS_SHOWN]) or "none"
    if followed:
        return f"more than one JSON document (JSON lines?), the first without the key {EVENTS}; its keys: {keys}"
    if "nodes" in header and "schema" in header:
        return f"an execution trace (ExecutionTraceObserver), not a profiler trace: no {EVENTS} key; keys: {keys}"
    return f"no {EVENTS} key, so it is not a profiler trace; keys found: {keys}"


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "string or decimal", int: "number", bool: "true or false"}
    return kinds.get(type(value), "null")


def _fill(path: Path, header: dict[str, Any], elements: list[Any], unread: int, sink: Sink) -> None:
    """Fill all tables; `unread` events were lost by the JSON reader. Every event is in a table or in `left_out`."""
    source = str(path)
    left_out = unread

    def note(reason: str, count: int) -> None:
        nonlocal left_out
        left_out += count if reason.endswith(": left out") else 0
        sink.skip(source, reason, count)

    rows = sort_events(elements, headers.base_time(header, note), note)
    metadata = rows["metadata"].events
    identity = headers.identify(header, path, tables.host_pids(rows["host"]))
    placed = sum(len(found) for found in rows.values())
    for fill, table in tables.FILLERS:
        fill(rows[table], identity, note, sink)
    tables.add_threads(metadata, identity, sink)
    headers.add_process(header, path, identity, sink)
    headers.add_devices(header, identity.rank, note, sink)
    counts = {"events": len(elements) + unread, "metadata_events": len(metadata), "events_left_out": left_out}
    headers.add_meta({**header, **counts}, path, metadata, sink)
    if placed + left_out != counts["events"]:
        raise AssertionError(f"{path}: {counts['events']} events became {placed} rows and {left_out} left out")


IMPORTER = Importer(sniff=sniff, read=read, clock="the profiler's clock, ns since the Unix epoch")
