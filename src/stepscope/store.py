"""Open what a user points at: a run directory, the file of a trace, or a folder with the traces of several ranks."""

import os
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.core.trace import Importer, Sink
from stepscope.importers import IMPORTERS, MAKE_A_RUN, head, importer_of, merge

__all__ = ["open_run"]

_TRACE_NAMES = ("*.json", "*.json.gz")
_SPAN = re.compile(r"^(?P<worker>.*?)(?:\.(?P<stamp>\d+))?\.pt\.trace\.json(?:\.gz)?$")
_MILLISECONDS_END = 10**15  # older writers stamp milliseconds, about 1.6e12; today's nanoseconds, about 1.8e18
_SHOWN = 3
_SAID_ONCE = frozenset(("processes", "devices"))


def open_run(path: str | Path) -> Run:
    """Read a run directory, a trace file or a folder of traces. Raises BadInput, which says what to do next."""
    path = Path(path)
    sink = Sink()
    if os.path.isdir(path):  # unlike path.is_dir(), false for names that the system does not take
        _read_folder(path, sink)
    else:
        importer_of(path).read(path, sink)
    return sink.run(str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One trace of a folder; `assumed`: nothing says its rank. `stamp` is 0 when its name has none."""

    path: Path
    sink: Sink
    rank: int
    assumed: bool
    worker: str
    stamp: int


def _read_folder(path: Path, sink: Sink) -> None:
    for importer in IMPORTERS.load().values():
        if importer.sniff(path, b""):
            importer.read(path, sink)
            return
    ranks = _by_rank(path, sink)
    if not ranks:
        raise BadInput(path, _empty(path), next_step=_below(path))
    for rank, spans in sorted(ranks.items()):
        spans.sort(key=lambda part: part.stamp)
        for part in spans:
            merge(part.sink, sink, leave=_SAID_ONCE if part is not spans[0] else frozenset())
        if len(spans) > 1:
            reason = f"rank {rank}: traces of one worker were read as one, in the order of time"
            sink.skip(str(path), reason, len(spans))


def _by_rank(path: Path, sink: Sink) -> dict[int, list[_Part]]:
    """Every trace of a folder by rank; files that are none are counted."""
    ranks: dict[int, list[_Part]] = defaultdict(list)
    failed: list[BadInput] = []
    kinds = IMPORTERS.load().values()
    for file in sorted({file for pattern in _TRACE_NAMES for file in path.glob(pattern) if os.path.isfile(file)}):
        start = head(file)
        importer = next((importer for importer in kinds if importer.sniff(file, start)), None)
        if importer is None:
            sink.skip(str(file), "not a trace: not read")
            continue
        try:
            part = _part(file, importer)
        except BadInput as error:
            failed.append(error)
            sink.skip(str(file), f"{error.why}: not read")
            continue
        for other in ranks[part.rank]:
            _check_spans(path, other, part)
        ranks[part.rank].append(part)
    if failed and not ranks:
        raise failed[0]
    return ranks


def _part(file: Path, importer: Importer) -> _Part:
    part = Sink()
    importer.read(file, part)
    span = _SPAN.match(file.name)
    stamp = int(span["stamp"] or 0) if span else 0
    process = part.parts["processes"][0].row(0, named=True)
    return _Part(
        path=file,
        sink=part,
        rank=process["rank"],
        assumed=process["rank_source"] == "assumed",
        worker=span["worker"] if span else file.name,
        stamp=stamp * 10**6 if stamp < _MILLISECONDS_END else stamp,
    )


def _check_spans(path: Path, first: _Part, other: _Part) -> None:
    """Two traces of one rank must be spans of one worker, told apart by their time stamps; else raise BadInput."""
    if first.worker == other.worker and first.stamp and other.stamp and first.stamp != other.stamp:
        return
    guess = " (no rank in the files or their names: 0 is assumed)" if first.assumed or other.assumed else ""
    raise BadInput(
        path,
        f"{first.path.name} and {other.path.name} are both of rank {first.rank}{guess}",
        next_step=f"Open one of them: `stepscope report {first.path}`; or name them …rank_0.json, …rank_1.json.",
    )


def _empty(path: Path) -> str:
    try:
        entries = sum(1 for _ in path.iterdir())
    except OSError as error:
        return (error.strerror or "the folder cannot be read").lower()
    return "a folder without a run and without traces" if entries else "the folder is empty"


def _below(path: Path) -> str:
    """What to open instead: runs or traces one level down."""
    try:
        found = sorted({file.parent for name in ("run.json", *_TRACE_NAMES) for file in path.glob(f"*/{name}")})
    except OSError:
        found = []
    if not found:
        return MAKE_A_RUN
    commands = ", ".join(f"`stepscope report {folder}`" for folder in found[:_SHOWN])
    return f"It holds other folders; open one of them: {commands}"
