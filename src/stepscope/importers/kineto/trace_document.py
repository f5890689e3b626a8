"""From a JSON document and its events to tables; documents that are no trace are refused, with a reason."""

from collections import Counter
from typing import Any, Protocol

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.kineto import event_tables, other_writers
from stepscope.importers.kineto import header as headers
from stepscope.importers.kineto.columns import Event
from stepscope.importers.kineto.cut import whole_until
from stepscope.importers.kineto.header import Identity
from stepscope.importers.kineto.json_repair import EVENTS, Document
from stepscope.importers.kineto.source import Note

__all__ = ["RECORD", "Events", "Found", "fill", "header_of"]

RECORD = "Record a trace with `stepscope run -- COMMAND`, or export one with torch.profiler's export_chrome_trace()."
"""What to do when a file is no trace."""

_PADDLE = ("span_index", "ExtraInfo")
_KEYS_SHOWN = 12


class Events(Protocol):
    """The events of a trace, sorted by table, with their times."""

    @property
    def metadata(self) -> list[Event]:
        """Events that name processes and threads."""

    @property
    def metadata_events(self) -> int:
        """Metadata in all."""

    @property
    def placed(self) -> int:
        """Events that are in a table, or are metadata."""

    def host_pids(self) -> Counter[str]:
        """How many events of host work each process has, in the order of their first ones."""

    def fill(self, identity: Identity, note: Note, sink: Sink) -> None:
        """Add all tables of events to `sink`."""


class Found(Protocol):
    """What a file holds: its elements, how many of them, and whether there is an event among them."""

    elements: int
    has_events: bool

    def sort(self, base: int, note: Note) -> Events:
        """Sort the events by table; `base` ns is added to every time."""


def header_of(path: AnyPath, document: Document, found: Found) -> dict[str, Any]:
    """Everything but the events, of a document that is a trace; raises BadInput for any other."""
    value = document.value
    header: dict[str, Any] = value if isinstance(value, dict) else {}
    events: Any = header.get(EVENTS) if isinstance(value, dict) else value
    why = ""
    if not isinstance(value, dict | list):
        why = f"the top level is neither an object nor a list but a JSON {_kind(value)}"
    elif EVENTS not in header and not isinstance(value, list):
        why = _not_a_trace(header, document.followed)
    elif not isinstance(events, list):
        why = f"{EVENTS} is a JSON {_kind(events)}, not a list"
    elif not found.elements and (document.truncated or document.lost):
        why = "the file is truncated or damaged before the end of its first event"
        if document.lost > 1:
            why = f"none of its {document.lost} events is valid JSON"
    elif found.elements and not found.has_events:
        why = "a list that holds no events, so it is not a profiler trace"
    elif any(key in header for key in _PADDLE):
        why = "a trace of Paddle's profiler; this version reads traces of torch.profiler"
    if why:
        raise BadInput(path, why, next_step=RECORD)
    return header


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


def fill(path: AnyPath, document: Document, found: Found, sink: Sink) -> None:
    """Fill all tables. Every event is in a table, or is counted among those left out."""
    source = str(path)
    left_out = document.lost

    def note(reason: str, count: int) -> None:
        nonlocal left_out
        left_out += count if reason.endswith(": left out") else 0
        sink.skip(source, reason, count)

    header = header_of(path, document, found)
    events = found.sort(headers.base_time(header, note), note)
    metadata, named, placed = events.metadata, events.metadata_events, events.placed
    identity = headers.identify(header, path, events.host_pids())
    events.fill(identity, note, sink)
    if "host" in sink.parts:
        other_writers.adopt(metadata, identity, sink)
        note(other_writers.NOT_KNOWN, 0 if headers.is_xla(header) else other_writers.unknown(sink))
    event_tables.add_threads(metadata, identity, sink)
    headers.add_process(header, path, identity, sink)
    headers.add_devices(header, identity.rank, note, sink)
    whole = found.elements + document.lost
    counts = {"events": whole, "metadata_events": named, "events_left_out": left_out}
    if document.truncated and (until := whole_until(sink)) is not None:
        counts["whole_until"] = until
    headers.add_meta({**header, **counts}, path, metadata, sink)
    if placed + left_out != whole:
        raise AssertionError(f"{path}: {whole} events became {placed} rows and {left_out} left out")
