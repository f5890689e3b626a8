"""Many ranks as one run: each is opened by a worker, which sends back small tables and what it computed of the rank.

The tables of events stay where they are. Who asks for a column of one gets it rank after rank; what is computed of each
rank alone (`Run.per_rank`) and was not sent is asked of the workers then. So no process holds the events of more than
one rank, however many there are, and the result does not depend on who opened what. Only where this process opens all
of them and they are small they are kept: reading them again for each question would take most of the time.
"""

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

import polars as pl

from stepscope.core import background
from stepscope.core.errors import BadInput, MissingData
from stepscope.core.importing import Sink
from stepscope.core.lazy_tables import LazyTables
from stepscope.core.paths import AnyPath
from stepscope.core.run import Run, stack
from stepscope.core.schema import TABLES
from stepscope.storage.cache import PACKED
from stepscope.storage.folders import RankFiles, size_of
from stepscope.storage.opening import Opened, Unit, check_apart, left_over, open_source
from stepscope.storage.workers import Died, Workers, carry_out

__all__ = ["EVENTS", "Compute", "RanksDone", "open_ranks"]

T = TypeVar("T")
Compute = Callable[[Run], object]
"""What is computed of a run: a function of a module or an analysis, because other processes are sent its name."""

RanksDone = Callable[[int, int, int, int], None]
"""Called as sources are done: how many, of how many; their bytes, of how many."""

EVENTS = ("host", "device", "memory", "flows", "counters", "instants", "stacks")
"""Tables that grow with the length of a recording; the others are small."""

SMALL = (
    20 << 20
)  # bytes of JSON of all ranks: so much may stay in memory, with what was computed of it, and is read once only

MANY_ROWS = 50_000  # some 10 MB: to look for garbage takes as long as to read these


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """A unit with its small tables only, the rows of all its tables, and results of `Run.per_rank` by function."""

    unit: Unit
    rows: Mapping[str, int]
    results: dict[Compute, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What a worker sends back for a source; the units of `opened` have small tables only."""

    opened: Opened
    ranks: tuple[_Rank, ...] = ()


def open_ranks(
    name: str,
    paths: Sequence[AnyPath],
    sources: Sequence[RankFiles],
    sink: Sink,
    workers: Workers,
    *,
    first: Compute | None,
    use_cache: bool,
    progress: RanksDone | None,
) -> Run:
    """A run of all ranks that were found in `paths`; `sink` holds what is of none.

    Raises BadInput if no rank is left or two are the same.
    """
    small = sum(_json_bytes(source, size_of(source)) for source in sources) <= SMALL
    job = _Job(sources=sources, workers=workers, opening=_Opening(use_cache=use_cache, keeps=small))
    answers: dict[int, _Answer] = {}
    seen: dict[int, Unit] = {}
    for place, answer in job.ask(partial(_answer, first=first, opening=job.opening), range(len(sources)), progress):
        answers[place] = _given_up(sources[place], answer) if isinstance(answer, Died) else answer
        for rank in answers[place].ranks:
            check_apart(seen, rank.unit)
    in_order = [answer for _, answer in sorted(answers.items())]
    left_over([answer.opened for answer in in_order], sink, paths)
    job.keep([(place, rank) for place, answer in answers.items() for rank in answer.ranks], sink.run(name).tables)
    return Run(LazyTables(job.rows(), job), name, job)


@dataclass(slots=True, kw_only=True, eq=False)
class _Job:
    """The ranks of a run, in order, each with the place of its source, and the tables of what is of no rank."""

    sources: Sequence[RankFiles]
    workers: Workers
    opening: "_Opening"
    ranks: list[tuple[int, _Rank]] = field(default_factory=list)
    of_none: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    def keep(self, ranks: Sequence[tuple[int, _Rank]], of_none: Mapping[str, pl.DataFrame]) -> None:
        """Take in what was opened."""
        self.ranks = sorted(ranks, key=lambda pair: pair[1].unit.ranks)
        self.of_none = of_none

    def rows(self) -> dict[str, int]:
        """The rows of all tables that have any."""
        counts = {name: table.height for name, table in self.of_none.items()}
        for _, rank in self.ranks:
            for name, count in rank.rows.items():
                counts[name] += count
        return {name: count for name, count in counts.items() if count}

    def results(self, compute: Callable[[Run], T], only: int | None) -> Sequence[T | MissingData]:
        """See `core.run.Ranks`."""
        wanted = [pair for pair in self.ranks if only is None or only in pair[1].unit.ranks] or self.ranks
        lacking = {place for place, rank in wanted if compute not in rank.results}
        results = {rank.unit.ranks: rank.results for _, rank in wanted}
        # What other ranks know will be asked for next: rules look at a rank with a GPU and at one without differently.
        computes = (compute, *(known for _, rank in self.ranks for known in rank.results))
        task = partial(_answer, first=partial(_of_rank, tuple(dict.fromkeys(computes))), opening=self.opening)
        for answer in self._surely(task, lacking):
            for rank in answer.ranks:
                results[rank.unit.ranks].update(rank.results)
        return [cast(T | MissingData, known[compute]) for known in results.values()]

    def read(self, table: str, columns: Sequence[str], where: pl.Expr | None = None) -> pl.DataFrame:
        """See `core.lazy_tables.RowSource`."""
        frames = {rank.unit.ranks: rank.unit.tables[table] for _, rank in self.ranks if table in rank.unit.tables}
        if table in EVENTS:
            holders = {place for place, rank in self.ranks if rank.rows.get(table)}
            task = partial(_columns, table=table, columns=tuple(columns), where=where, opening=self.opening)
            frames = {ranks: frame for answer in self._surely(task, holders) for ranks, frame in answer.items()}
            return stack(
                [_chosen(Run(self.of_none), table, tuple(columns), where), *(frames[ranks] for ranks in sorted(frames))]
            )
        whole = stack([self.of_none[table], *(frames[ranks] for ranks in sorted(frames))])
        return (whole if where is None else whole.filter(where)).select(columns)

    def ask(
        self, task: Callable[[RankFiles], T], places: Collection[int], progress: RanksDone | None = None
    ) -> Iterator[tuple[int, T | Died]]:
        """What workers give for some sources, with their places, as they are done."""
        items = {place: self.sources[place] for place in sorted(places)}
        sizes = {place: size_of(source) for place, source in items.items()}
        ready, size, whole = 0, 0, sum(sizes.values())
        if progress:
            progress(ready, len(items), size, whole)
        work = sum(_json_bytes(items[place], size) for place, size in sizes.items())
        for place, result in carry_out(task, items, self.workers, size=work):
            ready, size = ready + 1, size + sizes[place]
            if progress:
                progress(ready, len(items), size, whole)
            yield place, result

    def _surely(self, task: Callable[[RankFiles], T], places: Collection[int]) -> Iterator[T]:
        """As `ask`, for what was opened once before. Raises BadInput if workers die of it now."""
        for place, result in self.ask(task, places):
            if isinstance(result, Died):
                advice = "Open it on a machine with more memory, or with fewer --jobs."
                raise BadInput(self.sources[place].paths[0], _why(result), next_step=advice)
            yield result


def _json_bytes(source: RankFiles, size: int) -> int:
    """About so many bytes of JSON are in a source of `size` bytes."""
    return size * PACKED if source.paths[0].name.endswith(".gz") else size


@dataclass(slots=True, kw_only=True, eq=False)
class _Opening:
    """How sources are opened. In the process that made it, it keeps what it opened if it `keeps`; elsewhere nothing."""

    use_cache: bool
    keeps: bool
    kept: dict[tuple[AnyPath, ...], tuple[Opened, tuple[Run, ...]]] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Callable[[], "_Opening"], tuple[()]]:
        return partial(_Opening, use_cache=self.use_cache, keeps=False), ()

    def __call__(self, source: RankFiles) -> tuple[Opened, tuple[Run, ...]]:
        """The source, and its units as runs."""
        known = self.kept.get(source.paths)
        if known is not None:
            return known
        opened = open_source(source, use_cache=self.use_cache, wait=False)
        found = opened, tuple(Run(unit.tables, str(unit.paths[0])) for unit in opened.units)
        if self.keeps:
            self.kept[source.paths] = found
        return found


def _answer(source: RankFiles, *, first: Compute | None, opening: _Opening) -> _Answer:
    """In a worker: open a source and compute `first` on each rank of it."""
    answer = _opened(source, first, opening)
    if sum(sum(rank.rows.values()) for rank in answer.ranks) > MANY_ROWS and not opening.keeps:
        gc.collect()  # errors hold on to frames, frames to tables; the next rank needs the memory
    return answer


def _opened(source: RankFiles, first: Compute | None, opening: _Opening) -> _Answer:
    with background.awaited():
        opened, runs = opening(source)
        ranks = tuple(_rank(unit, run, first) for unit, run in zip(opened.units, runs, strict=True))
    return _Answer(opened=replace(opened, units=[rank.unit for rank in ranks]), ranks=ranks)


def _rank(unit: Unit, run: Run, first: Compute | None) -> _Rank:
    if first is not None:
        with suppress(MissingData):  # it is kept as the result
            first(run)
    rows = {name: count for name in TABLES if (count := run.rows(name))}
    small = {name: unit.tables[name] for name in rows if name not in EVENTS}
    return _Rank(unit=replace(unit, tables=small), rows=rows, results=run.rank_results())


def _of_rank(computes: Sequence[Callable[[Run], object]], run: Run) -> None:
    for compute in computes:
        with suppress(MissingData):  # it is kept as the result
            run.per_rank(compute, lambda results: results[0])


def _columns(
    source: RankFiles, *, table: str, columns: tuple[str, ...], where: pl.Expr | None, opening: _Opening
) -> dict[tuple[int, ...], pl.DataFrame]:
    """In a worker: columns of the rows of a table that pass a test, by the ranks of each unit."""
    with background.awaited():
        opened, runs = opening(source)
        found = zip(opened.units, runs, strict=True)
        return {unit.ranks: _chosen(run, table, columns, where) for unit, run in found}


def _chosen(run: Run, table: str, columns: tuple[str, ...], where: pl.Expr | None) -> pl.DataFrame:
    return run.optional(table, *columns) if where is None else run.where(table, where, *columns)


def _given_up(source: RankFiles, died: Died) -> _Answer:
    """A rank that no worker survives is left out like a broken file: the others are worth a report."""
    path = source.paths[0]
    error = BadInput(path, _why(died), next_step="Open it on a machine with more memory.")
    return _Answer(opened=Opened(skipped=[(str(path), f"{error.why}: not read")], failed=error))


def _why(died: Died) -> str:
    return f"{died.times} worker processes died while they read it (out of memory?)"
