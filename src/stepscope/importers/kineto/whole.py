"""A trace read as one text, by Python: the reader of files that the scanner cannot read."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.kineto import event_tables
from stepscope.importers.kineto.columns import Event
from stepscope.importers.kineto.events import RANGES, Rows, bulk, finish, sort_events
from stepscope.importers.kineto.header import Identity
from stepscope.importers.kineto.json_repair import EVENTS, Document, NotJson, parse
from stepscope.importers.kineto.source import Note, read_text
from stepscope.importers.kineto.trace_document import RECORD, fill

__all__ = ["read_whole"]


def read_whole(path: AnyPath, sink: Sink) -> None:
    """Fill all tables. Raises BadInput if the file holds no trace."""

    def note(reason: str, count: int) -> None:
        sink.skip(str(path), reason, count)

    text = read_text(path, note)
    try:
        document = parse(text, note)
    except NotJson as error:
        where = f"line {text.count(chr(10), 0, error.position) + 1}" if error.position else ""
        raise BadInput(path, error.why, where=where, next_step=RECORD) from error
    del text
    fill(path, document, _found(document), sink)


def _found(document: Document) -> "_Elements":
    value = document.value
    elements = value.get(EVENTS) if isinstance(value, dict) else value
    return _Elements(elements if isinstance(elements, list) else [])


class _Elements:
    """The list of events."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.elements = len(values)
        self.has_events = any(isinstance(value, dict) for value in values)

    def sort(self, base: int, note: Note) -> "_Events":
        rows = sort_events(enumerate(self._values), base, note)
        first, last = bulk([rows[table].start for table in RANGES])
        finish(rows, first, last, note)
        return _Events(rows)


@dataclass(frozen=True, slots=True)
class _Events:
    """Events by table."""

    rows: dict[str, Rows]

    @property
    def metadata(self) -> list[Event]:
        return self.rows["metadata"].events

    @property
    def metadata_events(self) -> int:
        return len(self.rows["metadata"])

    @property
    def placed(self) -> int:
        return sum(map(len, self.rows.values()))

    def host_pids(self) -> Counter[str]:
        return event_tables.host_pids(self.rows["host"])

    def fill(self, identity: Identity, note: Note, sink: Sink) -> None:
        for fill_table, table in event_tables.FILLERS:
            fill_table(self.rows[table], identity, note, sink)
