"""Where an average step goes when the CPU computes the model: the loader, work of the host, and the model's operators.

Without a traced window nobody knows how much of forward, backward and optimizer is spent outside operators; then only
lines that samples show at host work count, and the rest passes as computing.
"""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from stepscope.analyses.bound.lib.bound_shares import Shares
from stepscope.analyses.bound.lib.device_shares import inflated_by
from stepscope.analyses.bound.lib.exposed_time import Exposed, exposed_communication
from stepscope.analyses.bound.lib.whole_recordings import whole_recordings
from stepscope.analyses.host.host_work import host_work
from stepscope.analyses.host.lib.gil_waits import GilWait, gil_waits
from stepscope.analyses.host.lib.host_lines import host_lines
from stepscope.analyses.host.lib.recording_cost import recording_per_step
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.lib.trace_phases import traced_steps
from stepscope.analyses.operators.lib.looped_optimizer import LoopedOptimizer, looped_optimizers
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, chain

__all__ = ["LOOP", "cpu_shares"]

MODEL = ("forward", "backward", "optimizer")
LOOP = 0.8  # of a looped optimizer's time is Python and calls: what fused=True saves over the loop on small parameters
UNSEEN = f"whether forward, backward and optimizer compute or run Python: {RECORD_TRACE}"
LARGE = 0.2  # of the model's time: a smaller phase changes no verdict
ALIKE = 4  # times as large: tracing slows a phase of many small operators down by as much
MIN_SAMPLES = 10  # of phase other, before their kinds divide its time


def cpu_shares(run: Run) -> tuple[Shares, ...]:
    """One row for each rank with steady steps; for traces that mark none, of all that was recorded of a rank.

    Raises MissingData without steps and without a millisecond of operators.
    """
    try:
        rows: tuple[Shares, ...] = run.per_rank(_cpu_shares, chain)
    except MissingData as missing:
        rows = _whole(run, missing)
    try:
        sent = {row.rank: row for row in exposed_communication(run) if row.source == "overlap"}
    except MissingData:
        return rows
    return tuple(_with_communication(row, sent[row.rank]) if row.rank in sent else row for row in rows)


def _whole(run: Run, missing: MissingData) -> tuple[Shares, ...]:
    """The rows of recordings without steps; where nothing else was recorded, `missing` says why there are none."""
    try:
        return run.per_rank(whole_recordings, chain)
    except MissingData:
        raise missing from None


def _with_communication(row: Shares, sent: Exposed) -> Shares:
    """The same with what gloo takes while no operator computes told apart.

    It is in the phases of the model, which count as computing; of a trace alone, outside operators, with the host.
    """
    if row.host is None:
        return replace(row, communication=sent.removable / sent.step)
    sends = sent.communication / sent.step
    of_host = min(row.host, sends if row.recording else max(0.0, sends - (row.device or 0.0)))
    host, device = row.host - of_host, row.device and max(0.0, row.device - (sends - of_host))
    return replace(
        row, host=host, named_host=min(row.named_host, host), device=device, recording=min(row.recording, host),
        communication=sent.removable / sent.step,
    )  # fmt: skip


def _cpu_shares(run: Run) -> tuple[Shares, ...]:
    parts = ["duration", "data_wait", *MODEL, "other"]
    timed = (~pl.col("tags").list.contains("traced")).sum().alias("timed")
    means = steady_steps(run).group_by("rank").agg(pl.col(parts).mean(), timed).sort("rank")
    means = means.with_columns(pl.col(MODEL).fill_null(0.0))  # of a trace without training; then all of it is in other
    return tuple(_of_rank(run, row) for row in means.iter_rows(named=True))


def _of_rank(run: Run, row: dict[str, float]) -> Shares:
    rank, step, wait = int(row["rank"]), row["duration"], row["data_wait"]
    other = row["other"] * (1 - _model_share(run, rank, row["other"]))
    lines = _lines_in_model(run, rank, step)
    loop = sum(found.time * LOOP for found in _loops(run) if found.rank == rank)
    named = other + min(lines + loop, sum(row[phase] for phase in MODEL))
    outside = _outside(run, rank, row)
    model = max(0.0, step - (wait or 0.0) - other)
    host = max(named, other + min(outside or 0.0, model))
    known = outside is not None or _has_samples(run, rank)
    held = _held_interpreter(run, rank)
    if held is not None:
        part = (held.idle + held.ready) / step
        wait = wait * (1 - part) if wait and held.loads else wait
        named = host = max(host, min(part * step, step - (wait or 0.0)))
    return Shares(
        rank=rank,
        step=step,
        input=None if wait is None else wait / step,
        host=host / step,
        named_host=named / step,
        device=max(0.0, 1 - ((wait or 0.0) + host) / step) if known else None,
        communication=None,
        memory=None,
        lacks=UNSEEN,
        how=RECORD_TRACE,
        recording=0.0 if row["timed"] else min(recording_per_step(run, rank), host) / step,
        slowed_by=() if row["timed"] else inflated_by(run, rank),
    )


def _held_interpreter(run: Run, rank: int) -> GilWait | None:
    """Another Python thread that keeps the training thread from running, also while that loads data itself."""
    try:
        return next((row for row in gil_waits(run) if row.rank == rank), None)
    except MissingData:
        return None


def _model_share(run: Run, rank: int, other: float) -> float:
    """Share of phase other inside the model's operators, such as validation: from samples, else from a trace.

    Samples do not tell a loop that reads single values from computing. Where the phase of the traced steps is as long
    as that of the others, so that they hold all of it, a trace does.
    """
    traced = _traced_share(run, rank)
    try:
        samples = steady_samples(run).filter((pl.col("rank") == rank) & (pl.col("phase") == "other"))
    except MissingData:
        return traced[0] if traced else 0.0
    whole = int(samples["weight"].sum())
    if samples.height < MIN_SAMPLES or not whole:
        return 0.0
    sampled = int(samples.filter(pl.col("work").is_in(["model", "unclear"]))["weight"].sum()) / whole
    return min(sampled, traced[0]) if traced and traced[1] >= other else sampled


def _traced_share(run: Run, rank: int) -> tuple[float, float] | None:
    """The share, and the phase in ns per traced step; None where no trace tells."""
    try:
        table = host_work(run).filter(
            (pl.col("rank") == rank) & (pl.col("phase") == "other") & (pl.col("duration") > 0)
        )
    except MissingData:
        return None
    if table.is_empty():
        return None
    whole, steps = float(table["duration"].sum()), sum(step.rank == rank for step in traced_steps(run))
    return float(table["in_operators"].sum()) / whole, whole / steps


def _lines_in_model(run: Run, rank: int, step: float) -> float:
    """Time in ns per step of lines that do host work in forward, backward or optimizer."""
    try:
        samples = steady_samples(run).filter(pl.col("rank") == rank)
        groups = host_lines(run)
    except MissingData:
        return 0.0
    vouched = sum(group.time for group in groups if group.rank == rank and set(group.phases) & set(MODEL))
    host = samples.filter(pl.col("work").eq("host") & pl.col("phase").is_in(MODEL))
    return max(vouched, step * int(host["weight"].sum()) / max(1, int(samples["weight"].sum())))


def _outside(run: Run, rank: int, row: dict[str, float]) -> float | None:
    """Time in ns per step outside operators: the smaller of two readings of the traced steps.

    One takes the share of a traced phase outside operators, which recording inflates; the other, the time that an
    untraced phase takes beyond the operators of a traced one, which is wrong when the machine's load changed. Where
    probe and trace divide a step differently (an optimizer that calls the model itself, as LBFGS does, is all
    optimizer in a trace), both are taken of all phases together.
    """
    try:
        table = host_work(run).filter(
            (pl.col("rank") == rank) & pl.col("phase").is_in(MODEL) & (pl.col("duration") > 0)
        )
    except MissingData:
        return None
    own = [step for step in traced_steps(run) if step.rank == rank]
    if not any(step.operators for step in own) or table.is_empty():
        return None
    traced = len(own)
    times = table.select("phase", "duration", "in_operators").rows()
    outside = 0.0
    for phase, whole, inside in times:
        outside += max(0.0, min(row[phase] * (1 - inside / whole), row[phase] - inside / traced))
    if _divided_alike(row, times):
        return outside
    model: float = sum(row[phase] for phase in MODEL)
    whole, inside = (sum(time[at] for time in times) for at in (1, 2))
    overall: float = min(model * (1 - inside / whole), model - inside / traced)
    return max(0.0, min(outside, overall))


def _divided_alike(row: dict[str, float], times: Sequence[tuple[str, int, int]]) -> bool:
    """Whether each large phase of the model is about as large a part of it in the traced steps as in the others."""
    model, traced = sum(row[phase] for phase in MODEL), sum(whole for _, whole, _ in times)
    parts = [(row[phase] / model, whole / traced) for phase, whole, _ in times] if model and traced else []
    known = {phase for phase, _, _ in times}
    missing = any(row[phase] > LARGE * model for phase in MODEL if phase not in known)
    return not missing and all(
        max(here, there) < LARGE or max(here, there) < ALIKE * min(here, there) for here, there in parts
    )


def _loops(run: Run) -> tuple[LoopedOptimizer, ...]:
    try:
        return looped_optimizers(run)
    except MissingData:
        return ()


def _has_samples(run: Run, rank: int) -> bool:
    try:
        return not steady_samples(run).filter(pl.col("rank") == rank).is_empty()
    except MissingData:
        return False
