"""How far each rank's clock is from the reference rank's, measured by the collectives that both took part in.

One row is a rank; the reference is the lowest rank that shares a collective. `offset` is the rank's clock less the
reference's, at `time` of the reference. Subtract it from the rank's times. Where `drift_ppm` is not null, also subtract
drift_ppm / 10^6 of the time since `time`. Ranks of one host should read one clock; they are measured too.

Only collectives count in which every rank needs data of all others: all_reduce, all_gather, reduce_scatter, barrier.
They cannot end on one rank before they start on another. So each bounds the offset from both sides. [low, high]
satisfies all of them, for any constant drift up to 200 ppm. The estimate is the median difference of the ends of the
shortest quarter. Its uncertainty is their typical transfer time or their scatter, whichever is larger. Ranks without a
collective in common are compared through others; then bounds and uncertainties add up. Collectives matched by order in
a group that was not recorded are taken to be one.

Status: `reference`; `aligned`; `same-clock` (same host name, and 0 lies within the bounds); `other-clock`;
`inconsistent` (no offset and drift fit all collectives: clocks were set meanwhile, or ranks were matched wrongly);
`not-enough` (fewer than three collectives in common). In the last two the offset is null, and `reason` says more.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
import polars as pl

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.clock_fit import MAX_DRIFT, Bounds, Estimate, Pairs, bounds, estimate
from stepscope.analyses.communication.lib.collective_names import SYMMETRIC
from stepscope.analyses.communication.lib.rank_paths import paths
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, by_rank, table
from stepscope.core.errors import MissingData
from stepscope.core.plural import plural
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("status", pl.String, None, "reference, aligned, same-clock, … as above"),
    Column("offset", pl.Int64, "ns", "this rank's clock less the reference's; null: not known"),
    Column("uncertainty", pl.Int64, "ns", "how far off the offset may be"),
    Column("low", pl.Int64, "ns", "hard lower bound of the offset"),
    Column("high", pl.Int64, "ns", "hard upper bound of the offset"),
    Column("drift_ppm", pl.Float64, None, "change of the offset, millionths; null: no more than the uncertainty"),
    Column("matched", pl.Int64, "count", "collectives that bind this rank and the one it is compared with"),
    Column("through", pl.Int32, None, "rank compared with directly; null: the reference itself, or none"),
    Column("reference", pl.Int32, None, "rank whose clock the others are compared with"),
    Column("host", pl.String, None, "host name; null: not recorded"),
    Column("time", pl.Int64, "ns", "time on the reference's clock for which offset and bounds hold", "trace"),
    Column("reason", pl.String, None, "why there is no offset"),
)
_HOW = f"{RECORD_TRACE}, on all ranks, and open the folder that holds their traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    """What is known of a rank's clock at the reference's time."""

    status: str
    matched: int = 0
    through: int | None = None
    bounds: Bounds | None = None
    estimate: Estimate | None = None
    reason: str | None = None


_OF_REFERENCE = _Clock(
    status="reference",
    bounds=Bounds(low=0, high=0, slowest=0.0, fastest=0.0),
    estimate=Estimate(offset=0, uncertainty=0, drift=None),
)


def compute(run: Run) -> pl.DataFrame:
    """Rows for all ranks. Raises MissingData for a run of one rank, or without collectives."""
    processes = run.optional("processes", "rank", "host")
    hosts = dict(processes.unique("rank", keep="first").iter_rows())
    calls = collectives(run)
    ranks = sorted({*hosts, *calls["rank"].to_list()})
    if len(ranks) == 1:
        raise MissingData("second rank", how=_HOW)
    binding = calls.filter(pl.col("match").is_not_null() & pl.col("collective").is_in(SYMMETRIC))
    binding = binding.filter((pl.min_horizontal("in_elements", "out_elements") > 0).fill_null(True))
    binding = binding.filter(pl.col("rank").n_unique().over("match") > 1)
    reference = int(binding["rank"].min()) if binding.height else ranks[0]  # type: ignore[arg-type]
    own = binding.filter(pl.col("rank") == reference)
    at = (int(own["start"].min()) + int(own["end"].max())) // 2 if own.height else None  # type: ignore[arg-type]
    clocks = _clocks(binding, reference, at) if at is not None else {reference: _OF_REFERENCE}
    lost = _Clock(status="not-enough", reason=f"no collective in common with rank {reference}, nor through others")
    rows = [_row(rank, reference, at, clocks.get(rank, lost), hosts) for rank in ranks]
    return table(rows, COLUMNS)


def _clocks(binding: pl.DataFrame, reference: int, at: int) -> dict[int, _Clock]:
    clocks = {reference: _OF_REFERENCE}
    parts = by_rank(binding.select("rank", "match", "start", "end", "transfer").sort("rank", "match"))
    for rank, through in paths(_circles(binding), reference).items():
        clocks[rank] = _measured(clocks[through], _pairs(parts[through], parts[rank]), through, at)
    return clocks


def _circles(binding: pl.DataFrame) -> dict[tuple[int, ...], float]:
    """The sets of ranks that share collectives, with the transfer time of their shorter ones."""
    sets = binding.group_by("match").agg(pl.col("rank").sort(), pl.col("transfer").first())
    weights = sets.group_by("rank").agg(pl.col("transfer").quantile(0.25)).sort("rank")
    return {tuple(ranks): weight for ranks, weight in weights.iter_rows()}


def _pairs(a: pl.DataFrame, b: pl.DataFrame) -> Pairs:
    _, of_a, of_b = np.intersect1d(a["match"].to_numpy(), b["match"].to_numpy(), True, return_indices=True)
    a, b = a[of_a], b[of_b]
    return Pairs(
        start_a=a["start"].to_numpy(), end_a=a["end"].to_numpy(), start_b=b["start"].to_numpy(),
        end_b=b["end"].to_numpy(), transfer=a["transfer"].to_numpy(),
    )  # fmt: skip


def _measured(before: _Clock, pairs: Pairs, through: int, at: int) -> _Clock:
    """A rank's clock from that of the rank it is compared with; bounds and uncertainties of the two steps add up."""
    if before.estimate is None or before.bounds is None:
        reason = f"it is compared through rank {through}, whose own offset is not known"
        return _Clock(status="not-enough", matched=len(pairs), through=through, reason=reason)
    own = bounds(pairs, at + before.estimate.offset)
    if own is None:
        reason = f"no offset and drift fit all {len(pairs)} collectives shared with rank {through}"
        return _Clock(status="inconsistent", matched=len(pairs), through=through, reason=reason)
    found = estimate(pairs, own, at + before.estimate.offset)
    # The other rank's clock is not exactly at its estimate when the reference's reads `at`; drift makes that count.
    slack = ceil(MAX_DRIFT * (before.bounds.high - before.bounds.low))
    whole = Bounds(
        low=before.bounds.low + own.low - slack, high=before.bounds.high + own.high + slack,
        slowest=before.bounds.slowest + own.slowest, fastest=before.bounds.fastest + own.fastest,
    )  # fmt: skip
    if found is None:
        reason = f"only {len(pairs)} {plural(len(pairs), 'collective')} in common with rank {through}"
        return _Clock(status="not-enough", matched=len(pairs), through=through, bounds=whole, reason=reason)
    drifts = [drift for drift in (before.estimate.drift, found.drift) if drift is not None]
    total = Estimate(
        offset=before.estimate.offset + found.offset, drift=sum(drifts) if drifts else None,
        uncertainty=before.estimate.uncertainty + found.uncertainty,
    )  # fmt: skip
    return _Clock(status="aligned", matched=len(pairs), through=through, bounds=whole, estimate=total)


def _row(rank: int, reference: int, at: int | None, clock: _Clock, hosts: dict[int, str | None]) -> tuple[object, ...]:
    limits, found, status = clock.bounds, clock.estimate, clock.status
    if status == "aligned" and limits and hosts.get(rank) and hosts.get(rank) == hosts.get(reference):
        status = "same-clock" if limits.low <= 0 <= limits.high else "other-clock"
    drift = found.drift * 1e6 if found and found.drift is not None else None
    values = (found.offset, found.uncertainty) if found else (None, None)
    edges = (limits.low, limits.high) if limits else (None, None)
    return (
        rank, status, *values, *edges, drift, clock.matched, clock.through, reference, hosts.get(rank), at, clock.reason
    )  # fmt: skip


LEADING = ("status", "offset", "uncertainty", "matched", "host", "drift_ppm", "low", "high", "reason", "through")
ANALYSIS = clock_offsets = Analysis(compute=compute, columns=COLUMNS, leading=LEADING)
