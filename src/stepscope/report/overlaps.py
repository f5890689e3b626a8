"""Findings that save the same time: what one of them takes away, the others cannot.

A finding's gain comes out of a pool, a part of the step such as the data wait. Findings of one pool that share ranks
form a group. Together they save at most what the pool holds, and never less than the best of them alone. Where all
findings of a rank together would save more than the step, they are one group: no step saves more than itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.analyses.bound.bound import bound
from stepscope.core.errors import MissingData
from stepscope.core.finding import Cause, Finding, Pool
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


@dataclass(frozen=True, slots=True)
class _Group:
    """Findings that save the same time, at most `most_ns` of it together; `pools` is empty for one of no pool."""

    members: tuple[int, ...]
    ranks: frozenset[int]
    pools: frozenset[Pool]
    most_ns: int


def overlaps(findings: Sequence[Finding], pools: Mapping[tuple[Pool, int], float]) -> tuple[Overlap, ...]:
    """The groups of at least two findings, in the order of their first ones; `pools` as `held` returns them.

    Findings of different pools join where together they would save more than the step: some of it they save twice.
    """
    groups: list[_Group] = []
    for position, finding in enumerate(findings):
        if finding.gain is None:
            continue
        pool = pool_of(finding)
        one = _Group((position,), frozenset(finding.ranks), frozenset((pool,) if pool else ()), finding.gain.high_ns)
        same = [group for group in groups if pool and group.pools == one.pools and group.ranks & one.ranks]
        groups = [*(group for group in groups if group not in same), _joined([*same, one], findings, pools)]
    for ranks in _connected(groups):
        near = [group for group in groups if group.ranks <= ranks]
        if sum(group.most_ns for group in near) > _step(near, findings):
            groups = [*(group for group in groups if group not in near), _joined(near, findings, pools)]
    several = sorted((group for group in groups if len(group.members) > 1), key=lambda group: group.members)
    return tuple(Overlap(group.members, group.most_ns, _step([group], findings)) for group in several)


def pool_of(finding: Finding) -> Pool | None:
    """None for a finding that saves nothing that could be told."""
    return (finding.gain.pool or _POOL_OF.get(finding.cause)) if finding.gain else None


def _joined(groups: Sequence[_Group], findings: Sequence[Finding], pools: Mapping[tuple[Pool, int], float]) -> _Group:
    """One group of several: it saves at most what its pools hold, and never less than its best finding."""
    members = tuple(sorted(member for group in groups for member in group.members))
    ranks = frozenset(rank for group in groups for rank in group.ranks)
    kinds = frozenset(pool for group in groups for pool in group.pools)
    together = sum(group.most_ns for group in groups)
    step = _step(groups, findings)
    if len(members) > 1:
        known = all(group.pools for group in groups)
        most = sum(_held(pool, ranks, pools, step) for pool in kinds) if known else step
        together = min(together, round(most), step)
    return _Group(members, ranks, kinds, max(together, *(group.most_ns for group in groups)))


def _held(pool: Pool, ranks: frozenset[int], pools: Mapping[tuple[Pool, int], float], step: int) -> float:
    return max((pools[pool, rank] for rank in ranks if (pool, rank) in pools), default=float(step))


def _step(groups: Sequence[_Group], findings: Sequence[Finding]) -> int:
    """The longest step that their gains are of."""
    gains = (findings[member].gain for group in groups for member in group.members)
    return max(gain.step_ns for gain in gains if gain is not None)


def _connected(groups: Sequence[_Group]) -> list[frozenset[int]]:
    """Sets of ranks that no finding joins."""
    found: list[frozenset[int]] = []
    for group in groups:
        near = [ranks for ranks in found if ranks & group.ranks]
        found = [*(ranks for ranks in found if ranks not in near), group.ranks.union(*near)]
    return found
