"""Fill the tables from a trace that was scanned: what is said of a text is said once, not once for each event."""

from collections.abc import Callable
from typing import Any

import polars as pl

from stepscope.importers.kineto.columns import NAMELESS, NO_NAME, NOWHERE, UNKNOWN, finite, identifiers, not_a_number
from stepscope.importers.kineto.columns import texts as as_texts
from stepscope.importers.kineto.decimals import whole_number
from stepscope.importers.kineto.event_tables import PERCENT, overflowed, small
from stepscope.importers.kineto.events import DEVICE_KINDS, HOST_KINDS, kind_named
from stepscope.importers.kineto.header import Identity
from stepscope.importers.kineto.layout import (
    DEVICE_DECIMALS,
    DEVICE_NUMBERS,
    DEVICE_TEXTS,
    HOST_NUMBERS,
    HOST_TEXTS,
    MEMORY_NUMBERS,
    Argument,
)
from stepscope.importers.kineto.regular import Codes, Regular
from stepscope.importers.kineto.source import Note

__all__ = ["FRAMES"]

Columns = dict[str, pl.Series]
_DEVICES = ("device", "device_type")


def _host(events: Regular, identity: Identity, note: Note) -> Columns:
    homes = {**_common(events, identity), **_identifiers(events, "thread", "tid")}
    note(NOWHERE, int(((homes["pid"] == UNKNOWN) | (homes["thread"] == UNKNOWN)).sum()))
    return {
        **homes,
        "name": _names(events, note),
        "kind": _kinds(events, HOST_KINDS),
        "start": events.starts(),
        "end": events.ends(),
        **_numbers(events, HOST_NUMBERS),
        **_texts(events, HOST_TEXTS),
    }


def _device(events: Regular, identity: Identity, note: Note) -> Columns:
    columns = {**_common(events, identity), **_devices(events)}
    if identity.pid is not None:
        columns["pid"] = pl.repeat(identity.pid, len(events), dtype=pl.String, eager=True)
    return {
        **columns,
        **_streams(events),
        "name": _names(events, note),
        "kind": _kinds(events, DEVICE_KINDS),
        "start": events.starts(),
        "end": events.ends(),
        **_numbers(events, DEVICE_NUMBERS),
        **_texts(events, DEVICE_TEXTS),
        **_decimals(events, note),
    }


def _memory(events: Regular, identity: Identity, note: Note) -> Columns:
    numbers = _numbers(events, MEMORY_NUMBERS)
    return {
        **_common(events, identity),
        **_identifiers(events, "thread", "tid"),
        "time": events.starts(),
        **{name: small(column) if name in _DEVICES else column for name, column in numbers.items()},
    }


def _flows(events: Regular, identity: Identity, note: Note) -> Columns:
    phases = events.codes("ph")
    ids = events.numbers("id")
    found = {
        "begins": None if phases is None else phases.of([value == "s" for value in phases.values], pl.Boolean),
        "kind": _either(_mapped(events.codes("cat"), as_texts), _mapped(events.codes("name"), as_texts)),
        "id": ids,
    }
    return {
        **_common(events, identity),
        **_identifiers(events, "thread", "tid"),
        "time": events.starts(),
        **{name: column for name, column in found.items() if column is not None},
    }


def _instants(events: Regular, identity: Identity, note: Note) -> Columns:
    return {**_common(events, identity), "name": _names(events, note), "time": events.starts()}


def _either(first: pl.Series | None, second: pl.Series | None) -> pl.Series | None:
    """The first column, and the second where that has nothing."""
    if first is None or second is None or not first.null_count():
        return second if first is None else first
    return first.zip_with(first.is_not_null(), second)


def _common(events: Regular, identity: Identity) -> Columns:
    return {
        "rank": pl.repeat(identity.rank, len(events), dtype=pl.Int32, eager=True),
        **_identifiers(events, "pid", "pid"),
        "index": events.positions(),
    }


def _mapped(codes: Codes | None, convert: Callable[[list[Any]], Any]) -> pl.Series | None:
    """A column of text: `convert` gives the text for each value of the dictionary."""
    return None if codes is None else codes.of(convert(codes.values), pl.String)


def _identifiers(events: Regular, column: str, member: str) -> Columns:
    found = _mapped(events.codes(member), identifiers)
    if found is None:
        return {column: pl.repeat(UNKNOWN, len(events), dtype=pl.String, eager=True)}
    return {column: found.fill_null(UNKNOWN)}


def _names(events: Regular, note: Note) -> pl.Series:
    codes = events.codes("name")
    if codes is None:
        note(NAMELESS, len(events))
        return pl.repeat(NO_NAME, len(events), dtype=pl.String, eager=True)
    note(NAMELESS, codes.count([not isinstance(value, str) for value in codes.values]))
    return codes.of([value if isinstance(value, str) else NO_NAME for value in codes.values], pl.String)


def _kinds(events: Regular, kinds: dict[str, str]) -> pl.Series:
    codes = events.codes("cat")
    if codes is None:
        return pl.repeat(kind_named(None, kinds), len(events), dtype=pl.String, eager=True)
    return codes.of([kind_named(value, kinds) for value in codes.values], pl.String)


def _numbers(events: Regular, arguments: tuple[Argument, ...]) -> Columns:
    found = {argument.column: events.numbers(argument.column) for argument in arguments}
    return {name: column for name, column in found.items() if column is not None}


def _texts(events: Regular, arguments: tuple[Argument, ...]) -> Columns:
    found = {argument.column: _mapped(events.codes(argument.column), as_texts) for argument in arguments}
    return {name: column for name, column in found.items() if column is not None}


def _decimals(events: Regular, note: Note) -> Columns:
    columns = {}
    for name, (key, *_) in DEVICE_DECIMALS:
        codes = events.codes(name)
        if codes is not None:
            numbers = [finite(value) for value in codes.values]
            missing = [
                value is not None and number is None for value, number in zip(codes.values, numbers, strict=True)
            ]
            below = [number is not None and number < 0 for number in numbers]
            note(not_a_number(key), codes.count(missing))
            note(overflowed(key), codes.count(below))
            scale = PERCENT if name == "occupancy" else 1
            usable = [None if number is None or number < 0 else number / scale for number in numbers]
            columns[name] = codes.of(usable, pl.Float64)
    return columns


def _devices(events: Regular) -> Columns:
    """The argument `device`, else the pid."""
    given, pids = events.numbers("device"), events.codes("pid")
    by_pid = None if pids is None else pids.of([whole_number(pid) for pid in pids.values], pl.Int64)
    found = _either(given, by_pid)
    return {} if found is None else {"device": small(found)}


def _streams(events: Regular) -> Columns:
    """The argument `stream`, else the tid."""
    found = _either(_mapped(events.codes("stream"), identifiers), _mapped(events.codes("tid"), identifiers))
    return {} if found is None else {"stream": found}


FRAMES = {"host": _host, "device": _device, "memory": _memory, "flows": _flows, "instants": _instants}
"""For each table of regular events, what gives its columns; those that no event has are left out."""
