"""Fill the tables of events: one function per table, whole columns at a time."""

from collections import Counter
from typing import Any

import polars as pl

from stepscope.core.importing import Sink
from stepscope.importers.kineto.columns import (
    NOWHERE,
    UNKNOWN,
    Event,
    decimals,
    given,
    identifiers,
    located,
    names,
    texts,
    whole_numbers,
)
from stepscope.importers.kineto.decimals import whole_number
from stepscope.importers.kineto.events import DEVICE_KINDS, HOST_KINDS, Rows, kind_of
from stepscope.importers.kineto.header import Identity
from stepscope.importers.kineto.layout import (
    DEVICE_DECIMALS,
    DEVICE_NUMBERS,
    DEVICE_TEXTS,
    HOST_NUMBERS,
    HOST_TEXTS,
    MEMORY_NUMBERS,
)
from stepscope.importers.kineto.source import Note

__all__ = ["FILLERS", "HOST_WORK", "NOT_A_DEVICE", "PERCENT", "add_threads", "host_pids", "overflowed", "small"]

Columns = dict[str, Any]
NOT_A_DEVICE = "argument 'device' that is not a number: the pid was taken"
"""Told of such arguments."""

PERCENT = 100
"""Occupancy is written in percent."""

HOST_WORK = frozenset(("operator", "annotation", "runtime", "driver", "python"))
"""Kinds of events that a process does work by."""


def host_pids(host: Rows) -> Counter[str]:
    """How many events of host work each process has."""
    working = [event.get("pid") for event in host.events if kind_of(event, HOST_KINDS) in HOST_WORK]
    return Counter(pid for pid in identifiers(working) if pid is not None)


def _add_host(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Ranges of threads: operators, annotations, runtime and driver calls, Python frames."""
    arguments = _arguments(rows)
    note(NOWHERE, sum(UNKNOWN in located((event.get("pid"), event.get("tid"))) for event in rows.events))
    sink.add(
        "host",
        {
            **_common(rows, identity),
            "thread": located(event.get("tid") for event in rows.events),
            "name": names(rows.events, note),
            "kind": [kind_of(event, HOST_KINDS) for event in rows.events],
            "start": pl.Series(rows.start),
            "end": pl.Series(rows.end),
            **{name: whole_numbers(_first(arguments, *keys), keys[0], note) for name, keys in HOST_NUMBERS},
            **{name: texts(_first(arguments, *keys)) for name, keys in HOST_TEXTS},
        },
    )


def _add_device(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Work of devices. Its `pid` is the host process, within which correlation ids are unique, not the device."""
    arguments = _arguments(rows)
    columns: Columns = {
        **_common(rows, identity),
        "device": _devices(rows, arguments, note),
        "stream": _streams(rows, arguments),
        "name": names(rows.events, note),
        "kind": [kind_of(event, DEVICE_KINDS) for event in rows.events],
        "start": pl.Series(rows.start),
        "end": pl.Series(rows.end),
    }
    if identity.pid is not None:
        columns["pid"] = [identity.pid] * len(rows)
    for name, keys in DEVICE_NUMBERS:
        columns[name] = whole_numbers(_first(arguments, *keys), keys[0], note)
    for name, keys in DEVICE_TEXTS:
        columns[name] = texts(_first(arguments, *keys))
    for name, keys in DEVICE_DECIMALS:
        columns[name] = _not_negative(decimals(_first(arguments, *keys), keys[0], note), keys[0], note)
    shares = [None if percent is None else percent / PERCENT for percent in columns["occupancy"].to_list()]
    columns["occupancy"] = pl.Series(shares, dtype=pl.Float64)  # a series would multiply by the rounded reciprocal
    sink.add("device", columns)


def _add_memory(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Allocations and frees."""
    arguments = _arguments(rows)
    numbers = {name: whole_numbers(_first(arguments, *keys), keys[0], note) for name, keys in MEMORY_NUMBERS}
    sink.add(
        "memory",
        {
            **_common(rows, identity),
            **numbers,
            "thread": located(event.get("tid") for event in rows.events),
            "time": pl.Series(rows.start),
            "device_type": small(numbers["device_type"]),
            "device": small(numbers["device"]),
        },
    )


def _add_flows(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Ends of arrows between events."""
    sink.add(
        "flows",
        {
            **_common(rows, identity),
            "thread": located(event.get("tid") for event in rows.events),
            "time": pl.Series(rows.start),
            "id": whole_numbers([event.get("id") for event in rows.events], "id", note),
            "kind": texts([event.get("cat", event.get("name")) for event in rows.events]),
            "begins": [event["ph"] == "s" for event in rows.events],
        },
    )


def _add_counters(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Samples of counters: a row for each number of the event."""
    index: list[int] = []
    pids: list[object] = []
    labels: list[str] = []
    times: list[int] = []
    values: list[object] = []
    for position, event, time, arguments in zip(
        rows.index, rows.events, rows.start.tolist(), _arguments(rows), strict=True
    ):
        for key, value in arguments.items():
            index.append(position)
            pids.append(event.get("pid"))
            labels.append(" ".join(part for part in (str(event.get("name", "")), key) if part))
            times.append(time)
            values.append(value)
    sink.add(
        "counters",
        {
            "rank": [identity.rank] * len(index),
            "pid": located(pids),
            "index": index,
            "name": labels,
            "time": times,
            "value": decimals(values, "of a counter", note),
        },
    )


def _add_instants(rows: Rows, identity: Identity, note: Note, sink: Sink) -> None:
    """Markers."""
    sink.add("instants", {**_common(rows, identity), "name": names(rows.events, note), "time": pl.Series(rows.start)})


def add_threads(metadata: list[Event], identity: Identity, sink: Sink) -> None:
    """Names of threads; of several names of one thread the last holds."""
    of_threads = [event for event in metadata if event.get("name") == "thread_name"]
    ids = zip(*(located(event.get(member) for event in of_threads) for member in ("pid", "tid")), strict=True)
    told = (given(event, "name") for event in of_threads)
    found = {key: name for key, name in zip(ids, told, strict=True) if name is not None}
    sink.add(
        "threads",
        {
            "rank": [identity.rank] * len(found),
            "pid": [pid for pid, _ in found],
            "thread": [thread for _, thread in found],
            "name": list(found.values()),
        },
    )


def _common(rows: Rows, identity: Identity) -> Columns:
    return {
        "rank": [identity.rank] * len(rows),
        "pid": located(event.get("pid") for event in rows.events),
        "index": rows.index,
    }


def _arguments(rows: Rows) -> list[Event]:
    nothing: Event = {}
    found = [event.get("args") for event in rows.events]
    return [arguments if type(arguments) is dict else nothing for arguments in found]


def _first(arguments: list[Event], *keys: str) -> list[object]:
    """The value of the first of `keys` that an event has."""
    key, *others = keys
    values: list[object] = [found.get(key) for found in arguments]
    for other in others:
        values = [found.get(other) if value is None else value for value, found in zip(values, arguments, strict=True)]
    return values


def _devices(rows: Rows, arguments_of: list[Event], note: Note) -> pl.Series:
    """The argument `device`, else the pid."""
    given = [arguments.get("device") for arguments in arguments_of]
    found = [whole_number(device) for device in given]
    note(NOT_A_DEVICE, found.count(None) - given.count(None))
    numbers = [
        whole_number(event.get("pid")) if number is None else number
        for number, event in zip(found, rows.events, strict=True)
    ]
    return small(pl.Series(numbers, dtype=pl.Int64))


def _streams(rows: Rows, arguments: list[Event]) -> list[str | None]:
    """The argument `stream`, else the tid."""
    given = identifiers(found.get("stream") for found in arguments)
    lanes = identifiers(event.get("tid") for event in rows.events)
    return [lane if stream is None else stream for stream, lane in zip(given, lanes, strict=True)]


def overflowed(what: str) -> str:
    """What to tell of negative values of an argument."""
    return f"argument {what!r} that overflowed: read as missing"


def small(numbers: pl.Series) -> pl.Series:
    """Numbers of devices as the tables hold them; what does not fit is missing."""
    return numbers.cast(pl.Int32, strict=False)


def _not_negative(values: pl.Series, what: str, note: Note) -> pl.Series:
    """Negative values are overflows: the writer multiplies the grid in 32 bits."""
    negative = values < 0
    note(overflowed(what), int(negative.sum()))
    return values.to_frame("value").select(pl.when(pl.col("value") >= 0).then("value")).to_series()


FILLERS = (
    (_add_host, "host"),
    (_add_device, "device"),
    (_add_memory, "memory"),
    (_add_flows, "flows"),
    (_add_counters, "counters"),
    (_add_instants, "instants"),
)
"""Each fills one table from the rows of that name."""
