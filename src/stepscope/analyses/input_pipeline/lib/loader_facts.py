"""What is known about the loader of the training data of a rank, and the cores its workers could use."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.cores import job_cores
from stepscope.analyses.lib.library_code import is_installed
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.finding import Place, at
from stepscope.core.run import Run, chain

__all__ = ["MAKES_LOADER", "MOST_WORKERS", "LoaderFacts", "loader_facts"]

MOST_WORKERS = 16  # beyond it, workers rarely win: storage, memory bandwidth or the main process limits
MAKES_LOADER = "DataLoader"
"""The symbol of a line that makes a loader, whichever function it is in: many settings are given there."""

_SINGLE = "_SingleProcessDataLoaderIter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderFacts:
    """`workers` is None if unknown; `suggested` what the cores of this rank allow, None if they are unknown.

    `described` is false where only the names in a trace tell. `busy` is the share of the cores that the job, or all of
    the machine if that is more, kept busy on average while it trained; `used` the job's share alone; None if nobody
    watched. `places` are the user's own data set class and collate function, `call_site` the line that calls
    DataLoader, None if unknown.
    """

    described: bool
    busy: float | None
    used: float | None
    workers: int | None
    suggested: int | None
    pinned: bool | None
    persistent: bool | None
    places: tuple[Place, ...]
    call_site: Place | None = None

    @property
    def where(self) -> tuple[Place, ...]:
        """The call site, for a finding about the loader's settings."""
        return () if self.call_site is None else (self.call_site,)

    @property
    def at(self) -> str:
        """The call site, for advice about the loader."""
        return at(self.call_site)


def loader_facts(run: Run, rank: int) -> LoaderFacts:
    """Facts about the loader that feeds backward on a rank, as far as the run holds them."""
    rows = run.optional("loaders").filter(pl.col("rank") == rank)
    train = rows.filter(pl.col("train").fill_null(False))
    row = next((train if train.height else rows).iter_rows(named=True), None)
    if row is None:
        alone = rank in run.per_rank(_loading_themselves, chain, only=rank)
        return LoaderFacts(
            described=False,
            busy=None,
            used=None,
            workers=0 if alone else None,
            suggested=_suggested(run, rank),
            pinned=None,
            persistent=None,
            places=(),
        )
    used, busy = _in_use(run)
    return LoaderFacts(
        described=True,
        busy=busy,
        used=used,
        workers=row["num_workers"],
        suggested=_suggested(run, rank),
        pinned=row["pin_memory"],
        persistent=row["persistent_workers"],
        places=(*_place(row, "dataset"), *_place(row, "collate")),
        call_site=next(iter(_place({**row, "made": MAKES_LOADER}, "made")), None),
    )


def _loading_themselves(run: Run) -> tuple[int, ...]:
    """Ranks whose trace names the loader without workers."""
    names = run.optional("host", "rank", "name")
    return tuple(names.filter(pl.col("name").str.contains(_SINGLE, literal=True))["rank"].unique().sort())


def _place(row: dict[str, object], what: str) -> tuple[Place, ...]:
    file, line = row[f"{what}_file"], row[f"{what}_line"]
    if not isinstance(file, str) or not isinstance(line, int) or is_installed(file):
        return ()
    return (Place(file=file, line=line, symbol=str(row.get(what) or "")),)


def _suggested(run: Run, rank: int) -> int | None:
    """Cores for each rank of the host, at most MOST_WORKERS, at least one."""
    cores = job_cores(run)
    if cores is None:
        return None
    processes = run.optional("processes")
    host = processes.filter(pl.col("rank") == rank)["host"].first() if processes.height else None
    ranks = processes.filter(pl.col("host").eq_missing(pl.lit(host)))["rank"].n_unique() if processes.height else 1
    return max(1, min(MOST_WORKERS, int(cores / max(1, ranks))))


def _in_use(run: Run) -> tuple[float | None, float | None]:
    """Shares of the cores in use while steady steps ran: the job's own, and the machine's if that is more."""
    steady = steady_steps(run)
    within = pl.col("time").is_between(steady["start"].min(), steady["end"].max())
    watched = run.optional("system").filter(within)
    own = watched.filter(pl.col("what") == "job CPU")["value"].mean()
    whole = watched.filter(pl.col("what") == "system CPU")["value"].mean()
    cores = job_cores(run)
    if not cores or not isinstance(own, int | float):
        return None, None
    used = float(own) / cores
    return used, max(used, float(whole) if isinstance(whole, int | float) else 0.0)
