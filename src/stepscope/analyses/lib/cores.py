"""How many cores the job may use, and how many its machine has."""

import json

import polars as pl

from stepscope.core.run import Run

__all__ = ["job_cores", "launcher_cores", "machine_cores"]


def job_cores(run: Run) -> float | None:
    """Cores the job may use: by affinity and control group of the launcher, and by the affinity of its processes."""
    allowed = launcher_cores(run)
    bound = run.optional("processes", "rank", "affinity").unique("rank", keep="last")["affinity"]
    if allowed is None or bound.is_empty() or bound.null_count():
        return allowed
    return min(allowed, float(bound.sum()))


def launcher_cores(run: Run) -> float | None:
    """Cores the job was started with, by affinity and control group; its code may have bound it to fewer."""
    return _of_launcher(run, "effective")


def machine_cores(run: Run) -> float | None:
    """Cores of the machine that the job was started on."""
    return _of_launcher(run, "machine")


def _of_launcher(run: Run, which: str) -> float | None:
    meta = run.optional("meta", "key", "value").filter(pl.col("key") == "cores")["value"].drop_nulls()
    parsed = json.loads(meta[0]) if len(meta) else None
    found = parsed.get(which) if isinstance(parsed, dict) else None
    return float(found) if isinstance(found, int | float) else None
