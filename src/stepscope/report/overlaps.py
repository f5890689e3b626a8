"""Findings that save the same time: what one of them takes away, the others cannot.

A finding's gain comes out of a pool, a part of the step such as the data wait. Findings of one pool that share ranks
form a group. Together they save at most what the pool holds, and never less than the best of them alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.analyses.bound.bound import bound
from stepscope.core.errors import MissingData
from stepscope.core.finding import Cause, Finding, Gain, Pool
from stepscope.core.report import Overlap
from stepscope.core.run import Run

__all__ = ["held", "overlaps", "pool_of"]

_POOL_OF: Mapping[Cause, Pool] = {
    "data-reading": "data-wait",
    "operator": "device",
    "model": "device",
    "scheduling": "host",
}
"""The pool of a gain that names none. Settings have many effects: a cause of configuration has no pool of its own."""

_SHARES: Mapping[Pool, str] = {
    "data-wait": "input", "host": "host", "device": "device", "communication": "communication", "copies": "memory",
}  # fmt: skip
"""Pools, by the column of `bound` that says which share of the step they hold."""


def held(run: Run) -> dict[tuple[Pool, int], float]:
    """What each pool of each rank holds, in ns per step. A pool that the run cannot tell is left out."""
    try:
        rows = bound(run).to_dicts()
    except MissingData:
        return {}
    return {
        (pool, row["rank"]): share * row["step"]
        for row in rows
        for pool, column in _SHARES.items()
        if (share := _share(row, column)) is not None
    }


def _share(row: Mapping[str, Any], column: str) -> float | None:
    """A share of the step; what the host takes is not told in some traces, but it is within the device's idle time."""
    known = row[column]
    if known is None and column == "host" and row["device"] is not None:
        return 1.0 - sum(row[name] or 0.0 for name in ("input", "device", "communication", "memory"))
    return None if known is None else float(known)


def overlaps(findings: Sequence[Finding], pools: Mapping[tuple[Pool, int], float]) -> tuple[Overlap, ...]:
    """The groups of at least two findings, in the order of their first ones; `pools` as `held` returns them."""
    groups: list[tuple[Pool, set[int], list[int]]] = []
    for position, finding in enumerate(findings):
        pool = pool_of(finding)
        if pool is None:
            continue
        near = [group for group in groups if group[0] == pool and group[1] & set(finding.ranks)]
        ranks = set(finding.ranks).union(*(group[1] for group in near))
        members = [*(member for group in near for member in group[2]), position]
        groups = [group for group in groups if not any(group is one for one in near)]
        groups.append((pool, ranks, members))
    several = [(pool, ranks, sorted(members)) for pool, ranks, members in groups if len(members) > 1]
    return tuple(
        _overlap(findings, pool, ranks, members, pools)
        for pool, ranks, members in sorted(several, key=lambda group: group[2])
    )


def pool_of(finding: Finding) -> Pool | None:
    """None for a finding that saves nothing that could be told."""
    return (finding.gain.pool or _POOL_OF.get(finding.cause)) if finding.gain else None


def _overlap(
    findings: Sequence[Finding],
    pool: Pool,
    ranks: set[int],
    members: Sequence[int],
    pools: Mapping[tuple[Pool, int], float],
) -> Overlap:
    gains: list[Gain] = [gain for member in members if (gain := findings[member].gain) is not None]
    step = max(gain.step_ns for gain in gains)
    held_ns = max((pools[pool, rank] for rank in ranks if (pool, rank) in pools), default=float(step))
    together = min(sum(gain.high_ns for gain in gains), round(held_ns), step)
    return Overlap(tuple(members), max(together, *(gain.high_ns for gain in gains)), step)
