"""Importers: each turns one kind of file or folder into the core tables, or refuses it with a clear message.

Here is what they share: recognizing a file by its content, and joining the traces of one process.
"""

import re
import stat
import zlib
from pathlib import Path

import polars as pl

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.paths import AnyPath, look_again
from stepscope.core.plugins import PluginGroup
from stepscope.core.wrong_file_type import foreign

__all__ = ["HEAD_SIZE", "IMPORTERS", "MAKE_A_RUN", "append", "head", "importer_of", "merge", "rank_in_name"]

IMPORTERS = PluginGroup("importers", Importer)
"""Every importer by name."""

HEAD_SIZE = 64 * 1024
"""Bytes of a file, after decompression, that importers see to recognize it."""

MAKE_A_RUN = "`stepscope run -- COMMAND` makes a run folder, by default below ./stepscope-runs."
"""What to do when there is nothing to open."""

_RANK_IN_NAME = re.compile(r"(?i)(?<![a-z])rank[-_ .]?(\d{1,6})(?!\d)")
_GZIP = b"\x1f\x8b"
_JSON_READER = "kineto"  # says best what an unknown JSON file lacks
_OF_EVENTS = ("host", "device", "memory", "flows", "counters", "instants")
_NUMBERED = (
    (("index",), 0),
    (("python_id", "python_parent_id"), 0),
    (("correlation", "waits_for_record"), 1),  # a link of 0 or less means "none" and stays
    (("external_id",), 1),
    (("id",), 1),
)
"""Columns that hold within one file, and the least value that is a number and not "none"."""


def head(path: AnyPath) -> bytes:
    """The first HEAD_SIZE bytes of a file, unpacked if it is gzip. Raises BadInput if it cannot be read."""
    try:
        if isinstance(path, Path) and not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(path, "neither a file nor a folder", next_step=f"Give a run folder or a trace. {MAKE_A_RUN}")
        with path.open("rb") as file:
            start = file.read(HEAD_SIZE)
    except FileNotFoundError as error:
        is_link = isinstance(path, Path) and path.is_symlink()
        why = "a link to a file that is not there" if is_link else "there is no such file or folder"
        raise BadInput(path, why, next_step=_not_there(path)) from error
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise BadInput(path, why, next_step=look_again(path)) from error
    if not start.startswith(_GZIP):
        return start
    try:
        return zlib.decompressobj(wbits=31).decompress(start, HEAD_SIZE)
    except zlib.error:
        return b""


def rank_in_name(path: AnyPath) -> tuple[int, str]:
    """The rank that the name of a file says, else 0, and where that is from, as `processes.rank_source` says it."""
    found = _RANK_IN_NAME.findall(path.name)
    return (int(found[-1]), "file name") if found else (0, "assumed")


def _not_there(path: AnyPath) -> str:
    return f"Check the path. {MAKE_A_RUN}" if isinstance(path, Path) else look_again(path)


def append(path: AnyPath, sink: Sink, *, rank: int | None = None, leave: frozenset[str] = frozenset()) -> None:
    """Add a trace to `sink`, as process `rank` if given, without the tables named in `leave`.

    Positions and links between events hold within one file, so they are moved behind those of the same rank that
    `sink` holds already. Raises BadInput, and leaves `sink` as it was.
    """
    part = Sink()
    read = sink.read_trace or importer_of(path).read
    read(path, part)
    merge(part, sink, rank=rank, leave=leave)


def importer_of(path: AnyPath) -> Importer:
    """The importer that recognizes a file, else the one that says what a trace must hold.

    Raises BadInput for a file of a common kind that holds no trace.
    """
    start = head(path)
    every = (IMPORTERS.get(name) for name in IMPORTERS.names())  # one after the other: most traces need the first alone
    found = next((importer for importer in every if importer.sniff(path, start)), None)
    if found is None and (known := foreign(path, start)):
        raise BadInput(path, known[0], next_step=known[1])
    return found or IMPORTERS.get(_JSON_READER)


def merge(part: Sink, sink: Sink, *, rank: int | None = None, leave: frozenset[str] = frozenset()) -> None:
    """Add the tables of `part`, which is one process, to `sink`; see `append`."""
    frames = {table: pl.concat(pieces) for table, pieces in part.parts.items()}
    own_rank = frames["processes"]["rank"][0]
    moves = _moves(sink, own_rank if rank is None else rank)
    if rank is not None:
        moves["rank"] = pl.lit(rank, dtype=pl.Int32).alias("rank")
    for table, frame in frames.items():
        if table not in leave:
            moved = frame.with_columns(moves[name] for name in frame.columns if name in moves)
            if table == "threads" and table in sink.parts:  # spans of one process name its threads again and again
                moved = moved.join(pl.concat(sink.parts[table]), on=("rank", "pid", "thread"), how="anti")
            sink.add(table, moved.to_dict(as_series=True))
    for (source, reason), count in part.skipped.items():
        sink.skip(source, reason, count)


def _moves(sink: Sink, rank: int) -> dict[str, pl.Expr]:
    """For each column of positions and links, the expression that moves it behind what `rank` has already."""
    moves: dict[str, pl.Expr] = {}
    for names, least in _NUMBERED:
        offset = 1 + max((_largest(sink, rank, name) for name in names), default=-1)
        if offset > 0:
            for name in names:
                column = pl.col(name)
                moves[name] = pl.when(column >= least).then(column + offset).otherwise(column).alias(name)
    return moves


def _largest(sink: Sink, rank: int, name: str) -> int:
    """The largest value of a column among the rows of `rank`, -1 if there is none."""
    values = [
        frame.filter(pl.col("rank") == rank)[name].max()
        for table, frames in sink.parts.items()
        if table in _OF_EVENTS
        for frame in frames
        if name in frame.columns
    ]
    return max((value for value in values if isinstance(value, int)), default=-1)
