"""Open what a user points at: runs, traces, folders, patterns; one rank or thousands, here or on a cluster."""

from collections.abc import Sequence
from dataclasses import replace

from stepscope.core.importing import Progress, Sink
from stepscope.core.paths import AnyPath, shown
from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.storage.cache import say_if_unusable, tables_of
from stepscope.storage.folders import RankFiles, find, named
from stepscope.storage.opening import Unit, check_apart, left_over, open_source
from stepscope.storage.ranks import Compute, RanksDone, open_ranks
from stepscope.storage.tuning import tuning_in
from stepscope.storage.workers import Workers

__all__ = ["open_run"]

Words = str | AnyPath | Sequence[str | AnyPath]


def open_run(
    path: Words,
    *,
    workers: Workers | None = None,
    first: Compute | None = None,
    use_cache: bool = False,
    progress: Progress | None = None,
    ranks_done: RanksDone | None = None,
) -> Run:
    """Open a run folder, a trace, a folder of ranks, a pattern such as `traces/*.json.gz`, or several of these.

    With `workers`, several ranks are opened apart (`storage.ranks`), and `first`, which the caller will compute on the
    run, is computed on each meanwhile; without, all are read into this process. `use_cache` keeps parsed tables, see
    `storage.cache`. The folder of a tuning is its run of the script as it is, with what the trials measured beside.
    Raises BadInput, which says what to do next.
    """
    words = [path] if isinstance(path, str) or not isinstance(path, Sequence) else list(path)
    paths = named(words)
    tuning = tuning_in(paths[0]) if len(paths) == 1 else None
    if tuning is not None:
        base = open_run(
            tuning.base, workers=workers, first=first, use_cache=use_cache, progress=progress, ranks_done=ranks_done
        )
        return replace(base, path=shown(words[0]), beside={"trials": tuning.trials})
    name = shown(words[0]) + ("" if len(words) == 1 else f" and {len(words) - 1} more")
    sink = Sink()
    sources = find(paths, sink, words)
    match sources:
        case [RankFiles(paths=[file], read=None)] if [file] == paths:
            return Run(tables_of(file, use_cache=use_cache, wait=False, progress=progress), name)
        case [_] | []:
            return _together(name, sources, sink, paths, use_cache=use_cache)
        case _ if workers is None:
            return _together(name, sources, sink, paths, use_cache=use_cache)
        case _:
            if use_cache:
                say_if_unusable()
            return open_ranks(
                name, paths, sources, sink, workers, first=first, use_cache=use_cache, progress=ranks_done
            )


def _together(name: str, sources: Sequence[RankFiles], sink: Sink, paths: Sequence[AnyPath], *, use_cache: bool) -> Run:
    """All sources in the memory of this process."""
    opened = [open_source(source, use_cache=use_cache) for source in sources]
    left_over(opened, sink, paths)
    units = sorted((unit for one in opened for unit in one.units), key=lambda unit: unit.ranks)
    seen: dict[int, Unit] = {}
    for unit in units:
        check_apart(seen, unit)
    if len(units) == 1 and not sink.parts and not sink.skipped:
        return Run(units[0].tables, name)
    for unit in units:
        for table in TABLES:
            if table != "skipped" and unit.tables[table].height:
                sink.parts.setdefault(table, []).append(unit.tables[table])
        for source, reason, count in unit.tables["skipped"].iter_rows():
            sink.skip(source, reason, count)
    return sink.run(name)
