"""Open one source, in whatever process: its traces are read, and those of one worker joined in the order of time."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import PurePath

import polars as pl

from stepscope.core.errors import BadInput, SameRank
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath, is_folder
from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.core.wrong_file_type import foreign
from stepscope.importers import HEAD_SIZE, IMPORTERS, head, importer_of, merge
from stepscope.storage.cache import fill, tables_of
from stepscope.storage.folders import RankFiles, nothing_in, stamp_of, worker_of

__all__ = ["Opened", "Unit", "check_apart", "left_over", "open_source"]

_SAID_ONCE = frozenset(("processes", "devices"))
_STRADDLE = 0.1  # of the shorter window: what was under way when one window ended may reach into the next
_TOLD = ("trace", "environment")  # sources of a rank that renaming a file does not change


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is one rank (of some formats: several). `assumed`: nothing says which; `paths`: where it was read from."""

    ranks: tuple[int, ...]
    assumed: bool
    paths: tuple[AnyPath, ...]
    tables: Mapping[str, pl.DataFrame]


@dataclass(slots=True, kw_only=True)
class Opened:
    """What a source holds: units, what was left out as (source, reason), and the first error of a trace."""

    units: list[Unit] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: BadInput | None = None


def open_source(source: RankFiles, *, use_cache: bool, wait: bool = True) -> Opened:
    """Read a source. A trace that cannot be read is counted.

    Raises BadInput for two traces of one rank, and for one that cannot be read if the user asked for that file.
    """
    if source.read is not None:
        sink = Sink(read_trace=partial(fill, use_cache=use_cache, wait=wait))
        source.read(sink)
        return Opened(units=[_unit(source.paths[0], sink.run(str(source.paths[0])).tables)])
    opened = Opened()
    ranks: dict[tuple[int, ...], list[Unit]] = defaultdict(list)
    for path in source.paths:
        tables = _tables(path, opened, use_cache=use_cache, wait=wait)
        if tables is None and source.asked and opened.failed:
            raise opened.failed
        if tables is not None:
            unit = _unit(path, tables)
            for other in ranks[unit.ranks]:
                _check_spans(other, unit)
            ranks[unit.ranks].append(unit)
    opened.units = [_joined(units) for units in ranks.values()]
    return opened


def left_over(opened: Sequence[Opened], sink: Sink, paths: Sequence[AnyPath]) -> None:
    """Count in `sink` what was left out of sources.

    Raises BadInput if nothing of `paths` remains, or what remains cannot be of one job.
    """
    left_out = [found for one in opened for found in one.skipped]
    for source, reason in left_out:
        sink.skip(source, reason)
    units = [unit for one in opened for unit in one.units]
    if sink.parts or units:
        return _check_job(units)
    failed = next((one.failed for one in opened if one.failed), None)
    raise failed if failed and len(left_out) == 1 else nothing_in(paths, left_out)


def check_apart(seen: dict[int, Unit], unit: Unit) -> None:
    """Add a unit to those of each rank. Raises BadInput, which names both, if there is one of a rank already."""
    for rank in unit.ranks:
        if rank in seen:
            raise _same(seen[rank], unit, rank)
        seen[rank] = unit


def _tables(path: AnyPath, opened: Opened, *, use_cache: bool, wait: bool) -> Mapping[str, pl.DataFrame] | None:
    try:
        start = head(path)
        if not any(importer.sniff(path, start) for importer in IMPORTERS.load().values()):
            _check_damage(path, start)
            known = foreign(path, start)
            opened.skipped.append((str(path), f"{known[0] if known else 'not a trace'}: not read"))
            return None
        return tables_of(path, use_cache=use_cache, wait=wait)
    except BadInput as error:
        opened.failed = opened.failed or error
        opened.skipped.append((str(path), f"{error.why}: not read"))
        return None


def _check_damage(path: AnyPath, start: bytes) -> None:
    """Raise BadInput, as opening it alone does, if a file that begins like no trace is empty, cut or of another kind.

    Whole JSON of something else is not damaged, and what goes on after `start` is not read for this.
    """
    importer = importer_of(path)
    if len(start) < HEAD_SIZE and not _is_json(start):
        importer.read(path, Sink())


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _unit(path: AnyPath, tables: Mapping[str, pl.DataFrame]) -> Unit:
    processes = tables["processes"]
    ranks = tuple(processes["rank"].drop_nulls().unique().sort())
    assumed = bool(processes["rank_source"].is_in(["assumed"]).any())
    return Unit(ranks=ranks or (0,), assumed=assumed or not ranks, paths=(path,), tables=tables)


def _joined(spans: list[Unit]) -> Unit:
    """Spans of one worker as one unit, in the order of time."""
    if len(spans) == 1:
        return spans[0]
    _check_times(spans)
    spans.sort(key=lambda unit: stamp_of(unit.paths[0]))
    sink = Sink()
    for unit in spans:
        merge(_as_sink(unit.tables), sink, leave=_SAID_ONCE if unit is not spans[0] else frozenset())
    folder, rank = spans[0].paths[0].parent, spans[0].ranks[0]
    sink.skip(str(folder), f"rank {rank}: traces of one process, read as one in order of time", len(spans))
    paths = tuple(path for unit in spans for path in unit.paths)
    tables = sink.run(str(folder)).tables
    return Unit(ranks=spans[0].ranks, assumed=spans[0].assumed, paths=paths, tables=tables)


def _as_sink(tables: Mapping[str, pl.DataFrame]) -> Sink:
    sink = Sink(parts={name: [tables[name]] for name in TABLES if name != "skipped" and tables[name].height})
    for source, reason, count in tables["skipped"].iter_rows():
        sink.skip(source, reason, count)
    return sink


def _check_spans(first: Unit, other: Unit) -> None:
    """Two traces of one rank must be spans of one worker, told apart by their time stamps; else raise BadInput."""
    one, two = first.paths[0], other.paths[0]
    if worker_of(one) != worker_of(two) or not 0 < stamp_of(one) != stamp_of(two) > 0:
        raise _same(first, other, first.ranks[0])


def _check_times(spans: list[Unit]) -> None:
    """Windows of one worker follow each other. Raises BadInput for two of one time: they would count twice."""
    times = [(*times, unit) for unit in spans if (times := _times(unit))]
    times.sort(key=lambda span: span[:2])
    for (start, end, first), (next_start, next_end, other) in pairwise(times):
        if min(end, next_end) - next_start > _STRADDLE * min(end - start, next_end - next_start):
            raise _same(first, other, first.ranks[0], " and overlap in time, so they are not windows of one worker")


def _times(unit: Unit) -> tuple[int, int] | None:
    """The earliest start and the latest end of a unit's events, ns; None without events."""
    run = Run(unit.tables)
    found = [run.optional(name, "start", "end") for name in ("host", "device") if run.rows(name)]
    if not found:
        return None
    events = pl.concat(found)
    return events["start"].min(), events["end"].max()  # type: ignore[return-value]


def _check_job(units: Sequence[Unit]) -> None:
    """The size of a job and its backend are the same on all ranks. Raises BadInput for two that differ."""
    for column, word in (("world_size", "ranks in all"), ("backend", "backend")):
        known = [(unit, fact) for unit in units if (fact := _fact(unit, column)) is not None]
        for unit, fact in known[1:]:
            first, expected = known[0]
            if fact != expected:
                one, two = first.paths[0], unit.paths[0]
                raise BadInput(
                    f"{one} and {two}",
                    f"are these of one job? {word}: {expected} and {fact}",
                    next_step=f"Open only the traces of one job: `stepscope report {one}`.",
                )


def _fact(unit: Unit, column: str) -> object:
    """What a unit says of its job; None if it says nothing, or its ranks differ."""
    table = unit.tables.get("processes")
    values = table[column].drop_nulls().unique().to_list() if table is not None else []
    return values[0] if len(values) == 1 else None


def _same(first: Unit, other: Unit, rank: int, because: str = "") -> SameRank:
    units = sorted((first, other), key=lambda unit: str(unit.paths[0]))
    one, two = (unit.paths[0] for unit in units)
    why = f"both of rank {rank}{_guess(units)}{because}"
    if is_folder(one):
        advice = f"Open one run: `stepscope report {one.parent}`."
    else:
        advice = f"Open one of them: `stepscope report {one}`."
        match [unit.paths[0].name for unit in units if _fact(unit, "rank_source") not in _TOLD]:
            case [name]:
                advice = f"{advice[:-1]}; or, if {name} is of another rank, name it so: …rank_1{_ending(name)}."
            case [name, _]:
                names = " and ".join(f"…rank_{rank}{_ending(name)}" for rank in (0, 1))
                advice = f"{advice[:-1]}; or, if they are of two ranks, name them {names}."
    if one.parent == two.parent:
        return SameRank(one.parent, f"{one.name} and {two.name} are {why}", next_step=advice)
    return SameRank(f"{one} and {two}", f"they are {why}", next_step=advice)


def _ending(name: str) -> str:
    """The ending of a file's name, without `.gz`."""
    return PurePath(name.removesuffix(".gz")).suffix


def _guess(units: Sequence[Unit]) -> str:
    """That a rank is an assumption, and of which file."""
    match [unit.paths[0].name for unit in units if unit.assumed]:
        case []:
            return ""
        case [name]:
            return f" (no rank in {name} or its name: 0 is assumed)"
        case _:
            return " (no rank in the files or their names: 0 is assumed)"
