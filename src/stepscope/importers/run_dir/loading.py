"""Spans of the input pipeline: of a process that trains, and of the workers that its loaders started.

Every process has a file of spans and a side table of JSON lines: who it is, the names that spans refer to and, in a
process that trains, its iterators with the process ids and the common seed of their workers. By these a worker is
found: the system gives a process id again, the seed with it is not.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.json_files import Note, Row, number, read_lines, word
from stepscope.importers.run_dir.records import SPAN, read_records
from stepscope.importers.run_dir.sources import add_sources
from stepscope.importers.run_dir.stacks import add_worker_stacks
from stepscope.importers.run_dir.steps import observed, series
from stepscope.run_format.files import LOADING
from stepscope.run_format.records import STAGES

__all__ = ["add_loading", "note_strangers"]

_FAILED = 1
_FETCH, _COLLATE, _READ = (STAGES.index(stage) for stage in ("fetch", "collate", "read"))


@dataclass(frozen=True, slots=True)
class _Origin:
    """Whose spans a file holds: `worker` is None and `iterators` are all of them for a process that trains."""

    path: AnyPath
    about: Row
    rows: list[Row]
    worker: int | None
    loaders: Mapping[int, int | None]
    iterator: int | None = None


def add_loading(
    run: AnyPath, clock: Clock, host: str | None, known: set[tuple[str, int]], note: Note, sink: Sink
) -> None:
    """Add the spans of the process of `clock`, on `host`, and of its workers, whose monotonic clock is the same.

    `known` are the source lines that are there already.
    """
    for origin in _origins(run, clock.pid, host, note):
        kept = [row for row in origin.rows if row.get("kind") == "source"]
        add_sources(kept, clock.rank, str(origin.about.get("pid")), known, note, sink)
        records = read_records(origin.path, SPAN, note)
        if records is not None:
            _add(origin, records.rows, clock, note, sink)
            source = "loader" if origin.worker is None else f"worker {origin.worker}"
            clock.add(source, [row for row in origin.rows if row.get("kind") == "clock"], sink)
        if origin.iterator is not None:
            folder, whose = origin.path.with_suffix(".lines"), str(origin.about.get("pid"))
            add_worker_stacks(folder, clock, whose, origin.worker, origin.loaders[0], note, sink)


def note_strangers(run: AnyPath, pids: Collection[str], note: Note) -> None:
    """Count the files of processes that trained nothing."""
    strangers = [path for path in _files(run, "main") if path.name.split("-")[1] not in pids]
    note("process that read batches and made no training step: its spans of loading were left out", len(strangers))


def _origins(run: AnyPath, pid: str, host: str | None, note: Note) -> Iterator[_Origin]:
    workers: dict[tuple[object, object], tuple[int, int | None]] = {}  # (pid, seed): iterator and loader
    for path in _files(run, "main"):
        rows = read_lines(path, note) if path.name.split("-")[1] == pid else []
        if not rows or host not in (None, rows[0].get("host")):
            continue
        iterators = [row for row in rows if row.get("kind") == "iterator"]
        loaders = {number(row.get("iterator")) or 0: number(row.get("loader")) for row in iterators}
        for row in iterators:
            at = number(row.get("iterator")) or 0
            pids = row.get("pids")
            workers |= {(one, row.get("seed")): (at, loaders[at]) for one in (pids if isinstance(pids, list) else ())}
        yield _Origin(path.with_suffix(".bin"), rows[0], rows, None, loaders)
    for path in _files(run, "worker") if workers else ():
        rows = read_lines(path, note)
        found = workers.get((rows[0].get("pid"), rows[0].get("seed"))) if rows else None
        if found is not None and host in (None, rows[0].get("host")):
            worker = number(rows[0].get("worker"))
            yield _Origin(path.with_suffix(".bin"), rows[0], rows, worker, {0: found[1]}, found[0])


def _files(run: AnyPath, role: str) -> list[AnyPath]:
    return sorted(run.glob(f"{LOADING}/{role}-*.jsonl"), key=lambda path: path.name)


def _add(origin: _Origin, rows: npt.NDArray[np.void], clock: Clock, note: Note, sink: Sink) -> None:
    sound = (rows["start"] > 0) & (rows["wall"] >= 0) & (rows["stage"] < len(STAGES)) & (rows["weight"] > 0)
    note("span of loading of a kind that this version does not know, or damaged: left out", int((~sound).sum()))
    rows = rows[sound]
    names = {number(row.get("id")) or 0: row for row in origin.rows if row.get("kind") == "name"}
    known = [names.get(name, {}) for name in rows["name"].tolist()]
    iterators = rows["iterator"].tolist()
    own = [origin.iterator if not at else None for at in iterators] if origin.iterator is not None else iterators
    start = rows["start"] + clock.to_epoch
    stage = rows["stage"]
    whose = {"rank": clock.rank, "pid": str(origin.about.get("pid")), "loader": origin.loaders.get(0)}
    for size in _sizes(origin.rows, names):
        sink.row("transform_sizes", **whose, **size)
    for tensor in _tensors(origin.rows):
        sink.row("batch_tensors", **whose, worker=origin.worker, **tensor)
    sink.add(
        "loader_spans",
        {
            "rank": [clock.rank] * len(rows),
            "pid": [str(origin.about.get("pid"))] * len(rows),
            "worker": [origin.worker] * len(rows),
            "loader": [origin.loaders.get(at) for at in iterators],
            "iterator": own,
            "epoch": series(rows["epoch"]),
            "batch": observed(rows["batch"]),
            "sample": observed(np.where(np.isin(stage, (_FETCH, _COLLATE, _READ)), -1, rows["sample"])),
            "core_wait": observed(np.where(stage == _FETCH, rows["sample"], -1)),
            "stage": [STAGES[number] for number in stage.tolist()],
            "name": [word(name.get("name")) for name in known],
            "file": [word(name.get("file")) for name in known],
            "line": [number(name.get("line")) for name in known],
            "start": series(start),
            "end": series(start + rows["wall"]),
            "cpu": observed(rows["cpu"]),
            "process_cpu": observed(np.where(stage == _COLLATE, rows["sample"], -1)),
            "read_file": observed(np.where(stage == _READ, rows["sample"], -1)),
            "count": [count or None for count in rows["count"].tolist()],
            "weight": series(rows["weight"]),
            "failed": series(rows["flags"] & _FAILED).cast(pl.Boolean),
        },
    )


def _sizes(rows: list[Row], names: Mapping[int, Row]) -> Iterator[dict[str, object]]:
    """Sizes of samples before and after calls of transforms, those that are known on both sides."""
    for row in rows:
        sizes = row.get("sizes") if row.get("kind") == "sizes" else None
        for size in sizes if isinstance(sizes, list) else ():
            name, before, after, size_bytes = _of_four(size)
            about = names.get(name or 0)
            if about is not None and before is not None and after is not None and before > 0 and after > 0:
                yield {
                    "name": word(about.get("name")), "file": word(about.get("file")), "line": number(about.get("line")),
                    "before": before, "after": after,
                    "bytes": size_bytes if size_bytes is not None and size_bytes > 0 else None,
                }  # fmt: skip


def _tensors(rows: list[Row]) -> Iterator[dict[str, object]]:
    for row in rows:
        tensors = row.get("tensors") if row.get("kind") == "batch" else None
        for tensor in tensors if isinstance(tensors, list) else ():
            kind, size = tensor if isinstance(tensor, list) and len(tensor) == 2 else (None, None)
            size = number(size)
            if size is not None and size >= 0:
                yield {"type": word(kind), "bytes": size}


def _of_four(size: object) -> list[int | None]:
    """Four numbers; of an older recording the fourth is not known."""
    known = [number(part) for part in size] if isinstance(size, list) and len(size) in (3, 4) else []
    return known + [None] * (4 - len(known))
