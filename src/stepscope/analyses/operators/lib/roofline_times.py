"""How long each call of an operator took, and how long it would take at the peaks of its device.

The time of a call is the sum of the kernels, sets and copies within the device that it started; work that an operator
without a formula started counts for the innermost one with a formula around it. Copies from and to the host, and
communication, have other limits and are left out. In a rank that shows no work of a device at all, the time is that of
the host inside the operator itself, and there is no roof.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.analyses.lib.host_events import host_tree
from stepscope.analyses.lib.launch_calls import Launches, launches
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU, quotient
from stepscope.analyses.operators.lib.flops import HEAVY, operator_work
from stepscope.core.errors import MissingData
from stepscope.core.gpus import Gpu, gpu_named
from stepscope.core.kernels import name_test
from stepscope.core.run import Run
from stepscope.core.schema import DataType
from stepscope.core.tensor_cores import uses_tensor_cores

__all__ = ["RECORD_SHAPES", "Timed", "limit", "timed_calls"]

RECORD_SHAPES = (
    "record a traced window with shapes: `stepscope run --trace 10:13 --with shapes -- COMMAND`, or record_shapes=True "
    "in torch.profiler"
)
LAUNCH = 5_000
"""ns; about what the host needs to launch a kernel. Shorter ones are limited by no roof, but by starting and ending."""

LOW_OCCUPANCY = 0.25
"""Of the warps that an SM can hold; with fewer it cannot hide the latency of memory (NVIDIA's tuning guides)."""

_UNUSED = ("empty", "sparse")
_SECOND = 1e9  # ns
_ANY = -1
# Copies and sets that only the memory of the device limits.
_WITHIN = re.compile(r"^(?:Memcpy DtoD|CopyDeviceToDevice|Memset|FillBuffer)|device *to *device", re.IGNORECASE)
_CALL = ("rank", "device", "row")
_TIMED: dict[str, DataType] = {
    "rank": pl.Int32, "device": pl.Int32, "row": pl.Int64, "at": pl.Int64, "time": pl.Int64, "matrix": pl.Boolean,
    "empty": pl.Float64, "sparse": pl.Float64,
}  # fmt: skip
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """Calls that took time, and the time that belongs to none of them.

    `calls`: rank, device (null: the host), row, name, input_dims, kind, precision (tf32 where kernels of float32 use
    tensor cores), flops, bytes, at (start), time (ns), gpu and architecture (null: not in the data of peaks), peak
    (FLOP/s), memory_speed (bytes/s), ideal (ns, null where anything that it needs is unknown); empty (ns, the time of
    its kernels times the part of the multiprocessors that got no block) and sparse (ns in kernels of low occupancy).
    `unknown`: rank, device, at, time of work of no operator with a formula, in ranks with recorded shapes.
    """

    calls: pl.DataFrame
    unknown: pl.DataFrame


def timed_calls(run: Run) -> Timed:
    """All calls of operators with a formula that took time. Raises MissingData without recorded shapes."""
    return run.once(_timed_calls)


def limit(mean_time: pl.Expr, computing: pl.Expr, moving: pl.Expr) -> pl.Expr:
    """What limits a call: launch, compute or memory, from its mean time and the times at the two peaks; else null."""
    roof = pl.when(computing >= moving).then(pl.lit("compute")).otherwise(pl.lit("memory"))
    known = computing.is_not_null() & moving.is_not_null()
    return pl.when(known & (mean_time < LAUNCH)).then(pl.lit("launch")).when(known).then(roof)


def _timed_calls(run: Run) -> Timed:
    work = operator_work(run)
    if work.is_empty():
        raise MissingData("recorded shapes of operators", how=RECORD_SHAPES)
    on_device = _on_device(run, work)
    known = on_device.filter(pl.col("row") >= 0)
    on_host = _on_host(run, work)
    times = pl.concat([known, on_host]).sort("row", "device")  # rows of the tree are in order of ranks
    described = work.select("name", "input_dims", "kind", "precision", "flops", "bytes")
    calls = times.hstack(described[np.searchsorted(work["row"].to_numpy(), times["row"].to_numpy())])
    calls = calls.with_columns(precision=_precision())
    with_shapes = pl.col("rank").is_in(work["rank"].unique().implode())
    unknown = on_device.filter(with_shapes & (pl.col("row") < 0)).select("rank", "device", "at", "time")
    if calls.is_empty() and unknown.is_empty():
        raise MissingData("device work beside recorded shapes", how=RECORD_TRACE_ON_GPU)
    return Timed(_with_roofs(run, calls), unknown)


def _precision() -> pl.Expr:
    as_tf32 = pl.col("matrix") & (pl.col("precision") == "float32") & pl.col("kind").is_in(HEAVY)
    return pl.when(as_tf32).then(pl.lit("tf32")).otherwise("precision")


def _on_device(run: Run, work: pl.DataFrame) -> pl.DataFrame:
    """Time by device and call; row -1 gathers what no call of `work` started, one row for each piece."""
    try:
        found = launches(run)
    except MissingData:
        return pl.DataFrame(schema=_TIMED)
    matrix = name_test(work_names(run), uses_tensor_cores)
    pieces = found.work.with_columns(matrix=matrix, row=pl.Series(_rows(found, work)), **_unused(run))
    pieces = pieces.filter((pl.col("role") == "compute") | name_test(pieces["name"], _is_within))
    time = pl.col("end") - pl.col("start")
    pieces = pieces.select(*_CALL, "matrix", *(pl.col(part) * time for part in _UNUSED), at="start", time=time)
    known = pieces.filter(pl.col("row") >= 0)
    sums = known.group_by(_CALL).agg(pl.col("at").min(), pl.col("time", *_UNUSED).sum(), pl.col("matrix").any())
    every = pl.concat([sums.select(list(_TIMED)), pieces.filter(pl.col("row") < 0).select(list(_TIMED))])
    assert every["time"].sum() == pieces["time"].sum()
    return every.select(pl.col(name).cast(kind) for name, kind in _TIMED.items())


def _unused(run: Run) -> dict[str, pl.Series]:
    """For each piece of device work the part of the multiprocessors without a block, and 1 where the others have few
    warps; 0 where that is not recorded."""
    filled = device_work(run, "blocks_per_sm", "occupancy").select(
        empty=1 - pl.col("blocks_per_sm").clip(upper_bound=1.0),
        sparse=(pl.col("occupancy") < LOW_OCCUPANCY).cast(pl.Float64),
    )
    return {part: filled[part].fill_null(0.0) for part in _UNUSED}


def _is_within(name: str) -> bool:
    return _WITHIN.search(name) is not None


def _rows(found: Launches, work: pl.DataFrame) -> Ints:
    """For each piece of device work, the row of the innermost call of `work` around its launch, or -1."""
    if found.tree is None:
        return np.full(found.work.height, -1, dtype=np.int64)
    has_work = np.zeros(found.tree.frame.height, dtype=np.bool_)
    has_work[work["row"].to_numpy()] = True
    rows, parent = found.operator.copy(), found.tree.nesting.parent
    while True:
        outside = (rows >= 0) & ~has_work[rows]
        if not outside.any():
            return rows
        rows[outside] = parent[rows[outside]]


def _on_host(run: Run, work: pl.DataFrame) -> pl.DataFrame:
    """Time of the host inside each call, in ranks without any event of a device."""
    with_device = run.optional("device", "rank")["rank"].unique()
    own = work.filter(~pl.col("rank").is_in(with_device.implode()))
    if own.is_empty():
        return pl.DataFrame(schema=_TIMED)
    tree = host_tree(run)
    rows = own["row"].to_numpy()
    spans = tree.frame.select("rank", at="start")[rows].with_columns(
        row=pl.Series(rows),
        time=pl.Series(tree.nesting.self_time[rows]),
        matrix=False,
        device=None,
        empty=0.0,
        sparse=0.0,
    )
    return spans.select(pl.col(name).cast(kind) for name, kind in _TIMED.items())


def _with_roofs(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    gpus = _gpus(run)
    keys = ("rank", "device", "kind", "precision")
    roofs = [
        (*key, *_roof(gpus.get(key[:2], gpus.get((key[0], _ANY))), key[2], key[3]))
        for key in calls.select(keys).unique(maintain_order=True).iter_rows()
    ]
    schema = {name: calls.schema[name] for name in keys} | {
        "gpu": pl.String, "architecture": pl.String, "peak": pl.Float64, "memory_speed": pl.Float64,
    }  # fmt: skip
    table = pl.DataFrame(roofs, schema=schema, orient="row")
    calls = calls.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
    computing = pl.when(pl.col("flops") == 0).then(0.0).otherwise(quotient(pl.col("flops"), pl.col("peak"))) * _SECOND
    moving = quotient(pl.col("bytes"), pl.col("memory_speed")) * _SECOND
    calls = calls.with_columns(computing=computing, moving=moving)
    known = pl.col("computing").is_not_null() & pl.col("moving").is_not_null()
    return calls.with_columns(ideal=pl.when(known).then(pl.max_horizontal("computing", "moving")))


def _gpus(run: Run) -> dict[tuple[int, int | None], Gpu | None]:
    """Products by rank and device; under _ANY that of all devices of a rank, where they are alike.

    ROCm numbers devices among all agents in its events, and among GPUs in their descriptions.
    """
    described = run.optional("devices", "rank", "device", "name", "memory", "sms")
    gpus: dict[tuple[int, int | None], Gpu | None] = {}
    for rank, device, name, memory, sms in described.iter_rows():
        gpus[rank, device] = gpu_named(name, memory=memory, multiprocessors=sms)
    for rank in described["rank"].unique().sort():
        models = {None if gpu is None else gpu.name: gpu for (of, _), gpu in gpus.items() if of == rank}
        gpus[rank, None] = None
        gpus[rank, _ANY] = next(iter(models.values())) if len(models) == 1 else None
    return gpus


def _roof(
    gpu: Gpu | None, kind: str, precision: str | None
) -> tuple[str | None, str | None, float | None, float | None]:
    """Name, architecture, peak arithmetic and memory speed of a device for a kind of work.

    Light work computes in float32, or float64, outside of tensor and matrix cores.
    """
    if gpu is None:
        return None, None, None, None
    plain = "float64" if precision == "float64" else "float32"
    own = precision or ""
    peak = gpu.matrix.get(own, gpu.vector.get(own)) if kind in HEAVY else gpu.vector.get(plain)
    return gpu.name, gpu.architecture, peak, gpu.bandwidth
