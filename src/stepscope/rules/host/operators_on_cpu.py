"""Part of a model on the GPU is computed on the CPU, while the GPU waits.

## What it finds
Operators of 100 µs and more on the training thread that launch nothing and call no runtime, so that they compute on the
CPU, in every step. The GPU idles during them for more than 5 % of the step, the data wait aside (catalogue: C17).

## Why it costs time
One tensor that was left on the CPU draws all that is computed from it to the CPU, at a hundredth of the speed. The GPU
runs dry meanwhile, and waits for the copy of the result.

## What to do
Move the tensor to the device where it is made, and pass `device=` to `arange`, `zeros` and `full`. Preprocess batches
on the device, or in the workers of the loader.

## How the gain is predicted
High end: the time of these operators while the GPU idles. Low end: half of it, as the GPU computes them too, and the
host may be late for another reason.

## When it is wrong
Weights or optimizer states that are kept on the host to save memory are computed there on purpose. What runs once, such
as the first call of each operator, does not count.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.bound.lib.device_shares import device_idle
from stepscope.analyses.lib.call_sites import call_sites, site_table
from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.launch_lines import launch_places
from stepscope.analyses.lib.markers import data_waits
from stepscope.analyses.lib.source_texts import with_texts
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title
from stepscope.core.intervals import spans
from stepscope.core.run import Run, stack
from stepscope.core.synth import Synth
from stepscope.models.idle_meanwhile import IdleMeanwhile, Said, idle_findings, idle_meanwhile

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: half of it, the low end of the gain, is above the noise between two runs
LONG = 100_000  # ns: what prepares a launch is far shorter
OFTEN = 3  # calls of one operator, or as many as there are steps: the first loads its code
_COMPUTES = pl.col("name").str.starts_with("aten::")
_PLACE = ("rank", "file", "line", "function")


def check(run: Run) -> Iterator[Finding]:
    yield from idle_findings(
        run,
        _on_cpu,
        MIN_SHARE,
        partial(_said, run),
        basis="operators on the CPU while the device idles",
        pool="host",
        advice=_ADVICE,
        cause="operator",
    )


def _said(run: Run, worst: IdleMeanwhile) -> Said:
    return Said(
        title=Title("Operators on the CPU ({}) take {} per step while the GPU idles ({})", (worst.name, *worst.takes)),
        evidence=(
            worst.evidence("GPU idle meanwhile", "idle_gaps"),
            Evidence(label="such operators per step", value=worst.count, unit="count", source="operators"),
        ),
        where=launch_places(run.per_rank(_lines, stack, only=worst.device.rank), worst.device.rank, worst.share),
    )


def _chosen(run: Run) -> npt.NDArray[np.int64]:
    """The rows of the tree: outermost operators of this length, on threads that launch, with no call inside."""
    tree = host_tree(run)
    parent, track = tree.nesting.parent, tree.frame["track"].to_numpy()
    length = (tree.frame["end"] - tree.frame["start"]).to_numpy()
    computes = (
        tree.operators & tree.passing(_COMPUTES) & (length >= LONG) & ~_around(parent, np.flatnonzero(tree.calls))
    )
    computes &= np.isin(track, np.unique(track[tree.calls]))
    rows = np.flatnonzero(computes)
    return rows[(parent[rows] < 0) | ~computes[parent[rows]]]


def _around(parent: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """What holds one of these rows."""
    found = np.zeros(len(parent), dtype=np.bool_)
    above = np.unique(parent[rows])
    while len(above := above[above >= 0]) and not found[above].all():
        above = above[~found[above]]
        found[above] = True
        above = np.unique(parent[above])
    return found


def _on_cpu(run: Run) -> tuple[IdleMeanwhile, ...]:
    tree, rows = host_tree(run), run.once(_chosen)
    operators = tree.frame[rows] if len(rows) else tree.frame.clear()
    found = []
    for row in device_idle(run) if len(rows) else ():
        own = operators.filter(pl.col("rank") == row.rank)
        own = own.filter(pl.len().over("name") >= max(row.steps, OFTEN))
        if own.is_empty():
            continue
        times = own.group_by("name").agg(time=(pl.col("end") - pl.col("start")).sum()).sort("time", "name")
        count, longest = row.per_step(own["start"].to_numpy()), str(times["name"][-1])
        waits = spans(data_waits(run).filter(pl.col("rank") == row.rank))
        found.append(idle_meanwhile(run, row, own, count, name=longest, but=waits))
    return tuple(found)


def _lines(run: Run) -> pl.DataFrame:
    """As `launch_lines`: the lines that call these operators, by their time."""
    tree, rows = host_tree(run), run.once(_chosen)
    sites = site_table(with_texts(run, call_sites(run, tree, rows))) if len(rows) else site_table(())
    called = (
        tree.frame[rows].select("rank", time=pl.col("end") - pl.col("start")).hstack(sites).drop_nulls(["file", "line"])
    )
    summed = called.group_by(_PLACE).agg(pl.col("text").first(), pl.col("time").sum())
    return summed.sort("rank", "time", "file", "line", descending=[False, True, False, False])


_ADVICE = (
    Advice(text="Make tensors on the device", code="positions = torch.arange(length, device=batch.device)"),
    Advice(
        text="Move what is computed from a batch behind its copy", code="batch = batch.to(device, non_blocking=True)"
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    computing = 0 if fixed else 20
    length = 80 + computing
    for step in range(4):
        start = step * length
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        if computing:
            synth.host("aten::sort", "operator", start, start + computing)
        synth.host("aten::mm", "operator", start + computing, start + computing + 1)
        call = start + computing
        synth.host("cudaLaunchKernel", "runtime", call + 0.1, call + 0.2, correlation=step + 1)
        synth.kernel(start + computing, start + length, correlation=step + 1)


RULE = Rule(check=check, example=example)
