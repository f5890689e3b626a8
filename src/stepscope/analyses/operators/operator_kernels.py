"""What each operator started: its kernels, copies and sets, and the runtime and driver calls that it made.

One row is a kind of work or call directly below an operator name of a rank. Directly means the innermost operator or
annotation around the call, so nothing appears twice. Times are ns: of kernels, copies and sets on the device, of calls
on the host (a driver call inside a runtime call counts in both). `launch` is the call that started the work, such as
cudaLaunchKernel, cuLaunchKernelEx (Triton) or a graph launch. A graph launch owns all kernels that it replays. It is
null where the trace holds no such call. `started` is how much device work the calls of a row started. `operator` is
null for what lies in no operator or annotation but the step. Rows add up to all device work and all calls of the rank.
On an accelerator without kernels (MTIA) its own events count instead, of which many name no call. Definition: the
operators of the TensorBoard plugin and the list of kernels of an operator in HTA, by time instead of External id.
"""

import numpy as np
import polars as pl

from stepscope.analyses.lib.device_work import ACCELERATOR
from stepscope.analyses.lib.host_events import HostTree, enumerated, host_tree
from stepscope.analyses.lib.kernel_figures import owner_names
from stepscope.analyses.lib.launch_calls import Launches, launches, launches_of
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE_ON_GPU, at_rows, quotient, shaped
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("operator", pl.String, None, "operator or annotation; null: none known"),
    Column("kind", pl.String, None, "on the device: kernel, memcpy, memset, accelerator; on the host: runtime, driver"),
    Column("name", pl.String, None, "kernel, copy, set or call"),
    Column("launch", pl.String, None, "call that started the work; null: not in the trace, or this is a call"),
    Column("calls", pl.Int64, "count", "how often"),
    Column("started", pl.Int64, "count", "device work that these calls started; null for device work"),
    Column("total", pl.Int64, "ns", "sum of durations"),
    Column("mean", pl.Float64, "ns", "mean duration"),
    Column("share", pl.Float64, "ratio", "total divided by that of all device work, or all calls, of the rank"),
)
_GROUP = ("rank", "operator", "kind", "name", "launch")


def compute(run: Run) -> pl.DataFrame:
    """Operators by the device time that they started, most first; work before calls. MissingData without either."""
    tree, found = _recorded(run)
    parts = [_summed(_of_device(found), on_host=False)] if found else []
    if tree:
        parts.append(_summed(_of_host(tree, found), on_host=True))
    rows = pl.concat(parts)
    if rows.is_empty():
        raise MissingData("device work and calls of the device's runtime", how=RECORD_TRACE_ON_GPU)
    _check(rows, found)
    whole = pl.col("total").sum().over("rank", "on_host")
    device = pl.col("total").filter(~pl.col("on_host")).sum().over("rank", "operator")
    share = pl.when(whole > 0).then(quotient(pl.col("total"), whole))
    rows = rows.with_columns(started=pl.when("on_host").then("started"), share=share, device=device)
    order = {"rank": False, "device": True, "operator": False, "on_host": False, "total": True, "name": False}
    order |= {"kind": False, "launch": False}
    return shaped(rows.sort(*order, descending=list(order.values()), nulls_last=True), COLUMNS)


def _recorded(run: Run) -> tuple[HostTree | None, Launches | None]:
    """The host's events and the device's work, None where there are none. Raises MissingData without both."""
    found = _launches(run)
    if found:
        return found.tree, found
    try:
        return host_tree(run), None
    except MissingData as missing:
        raise MissingData("device work and calls of the device's runtime", how=RECORD_TRACE_ON_GPU) from missing


def _launches(run: Run) -> Launches | None:
    """Launches of kernels, copies and sets; else of the work of an accelerator that has no kernels."""
    try:
        return launches(run)
    except MissingData:
        columns = ("rank", "pid", "kind", "name", "start", "end", "correlation")
        work = run.where("device", pl.col("kind") == ACCELERATOR, *columns)
        return None if work.is_empty() else launches_of(run, work)


def _summed(events: pl.DataFrame, *, on_host: bool) -> pl.DataFrame:
    """Sums by _GROUP; names are enumerations until here."""
    rows = events.group_by(_GROUP).agg(
        calls=pl.len(),
        started=pl.col("started").sum(),
        total=pl.col("duration").sum(),
        mean=pl.col("duration").mean(),
    )
    return rows.with_columns(pl.col(_GROUP[1:]).cast(pl.String), on_host=pl.lit(on_host))


def _of_device(found: Launches) -> pl.DataFrame:
    """One row per device work."""
    launch: pl.Series | pl.Expr = pl.lit(None, dtype=pl.String)
    if found.tree is not None:
        launch = at_rows(found.tree.name, found.call)
    return found.work.select(
        "rank", kind=enumerated(found.work["kind"]), name=enumerated(found.work["name"]), launch=launch,
        operator=owner_names(found.tree, found.operator),
        duration=pl.col("end") - pl.col("start"), started=pl.lit(0, dtype=pl.Int64),
    )  # fmt: skip


def _of_host(tree: HostTree, found: Launches | None) -> pl.DataFrame:
    """One row per runtime or driver call."""
    started = np.zeros(tree.frame.height, dtype=np.int64)
    if found:
        np.add.at(started, found.call[found.call >= 0], 1)
    rows = np.flatnonzero(tree.calls)
    calls = tree.frame.select("rank", "kind", duration=pl.col("end") - pl.col("start"))[rows]
    return calls.with_columns(
        name=at_rows(tree.name, rows), operator=owner_names(tree, tree.owner[rows]),
        launch=pl.lit(None, dtype=pl.String), started=pl.Series(started[rows]),
    )  # fmt: skip


def _check(rows: pl.DataFrame, found: Launches | None) -> None:
    """All device work is in some row, and what a call started is counted at that call."""
    if found:
        assert rows.filter(~pl.col("on_host"))["calls"].sum() == found.work.height
        assert rows["started"].sum() == int((found.call >= 0).sum())


LEADING = ("operator", "kind", "name", "calls", "total", "mean", "share", "launch")
ANALYSIS = operator_kernels = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
